// Package fabric asks the nodes of an InfiniBand subnet: typed requests of subnet management,
// performance management and subnet administration, and the discovery of all nodes and links.
//
// A Client sends requests by a port, which package umad opens. Discover walks the subnet from that
// port by directed routes, so it needs no LIDs and no subnet manager.
//
// Experimental: may change in any release; see docs/stability.md.
package fabric
