// Package madtest simulates InfiniBand subnets in software. Its switches, adapters and routers answer
// management datagrams as hardware does. It is for tests of programs that manage or read a fabric,
// and for learning how a subnet works.
//
// A [Topology] comes from a file in the format of ibnetdiscover, or from a generator such as
// [FatTree]. [NewSubnet] creates the nodes and plugs in the cables. Its ports then wait for a subnet
// manager. [Subnet.StartSM] runs one in this process. [Subnet.ListenIbsim] lets opensm and the C
// tools run on the subnet: it speaks the protocol of the simulator ibsim, which libumad2sim uses.
//
//	topology, err := madtest.FatTree(4, 2)
//	…
//	subnet, err := madtest.NewSubnet(topology)
//	…
//	err = subnet.StartSM("h1")
//	port, err := subnet.Open("h2", 1) // a mad.Port, such as umad.Open returns
//
// The subnet carries management datagrams only. It has no queue pairs; package rdmatest has.
//
// Experimental: may change in any release; see docs/stability.md.
package madtest
