// Package fabric queries the nodes of an InfiniBand subnet. It sends typed requests of subnet
// management, performance management and subnet administration, and discovers all nodes and links.
//
// A Client sends requests through a port, which package umad opens. Client.Discover walks the subnet
// from that port. It uses directed routes, so it needs no LIDs and no subnet manager.
//
// Experimental: may change in any release; see docs/stability.md.
package fabric
