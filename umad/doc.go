// Package umad sends and receives management datagrams (MADs) by the ports of this host, through
// the kernel's /dev/infiniband/umadN and issmN. It needs no library and no root: the rights to these
// nodes suffice.
//
// Where the environment of ibsim's umad2sim is set, the port is one of the simulator ibsim instead;
// see Simulated.
//
// Ports lists the ports that have MADs, and Open opens one. InfiniBand ports carry all classes;
// RoCE ports carry all but subnet management, and iWARP ports none.
//
// Experimental: may change in any release; see docs/stability.md.
//
// # Implementation
//
// A port has one reader, which hands each MAD to an agent: a response to the call of Do with its
// transaction ID, a request to the agent's queue. Of a transaction ID only the low 32 bits are the
// agent's; the kernel and ibsim use the high ones.
package umad
