// Package umad sends and receives management datagrams (MADs) through the ports of this host. It
// uses the kernel's device nodes /dev/infiniband/umadN and issmN. A process needs access to these
// nodes, but no library and no root.
//
// If the environment variables of ibsim's libumad2sim are set, the package opens a port of the
// simulator ibsim instead; see Simulated.
//
// Ports lists the ports that carry MADs, and Open opens one. InfiniBand ports carry all classes.
// RoCE ports carry all but subnet management. iWARP ports carry none.
//
// Experimental: may change in any release; see docs/stability.md.
//
// # Implementation
//
// A port has one reader goroutine, which passes each MAD to an agent. A response goes to the call of
// Do with its transaction ID, a request to the agent's queue. An agent chooses only the low 32 bits
// of a transaction ID, because the kernel and ibsim use the high ones.
package umad
