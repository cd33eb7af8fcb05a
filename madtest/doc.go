// Package madtest is an InfiniBand subnet in software: switches, adapters and routers that answer
// management datagrams as hardware does, for tests of programs that manage or read a fabric, and for
// learning how a subnet works.
//
// A [Topology] comes from a file in the format of ibnetdiscover, or from a generator such as
// [FatTree]. [NewSubnet] builds the nodes and plugs the cables: links train, ports wait for a subnet
// manager. [Subnet.StartSM] runs one in this process; or opensm runs on the subnet as a client of
// [Subnet.ListenIbsim], which speaks the protocol of the simulator ibsim, as the C tools do under
// libumad2sim.
//
//	topology, err := madtest.FatTree(4, 2)
//	…
//	subnet, err := madtest.NewSubnet(topology)
//	…
//	err = subnet.StartSM("h1")
//	port, err := subnet.Open("h2", 1) // a mad.Port, as package umad has for the kernel's
//
// The subnet carries management datagrams only. It has no queue pairs: package rdmatest has those.
//
// Experimental: may change in any release; see docs/stability.md.
package madtest
