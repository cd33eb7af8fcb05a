// Package mad defines the management datagrams (MADs) of InfiniBand: their headers, their
// attributes as Go types, and the interface of the ports that send and receive them.
//
// Experimental: may change in any release; see docs/stability.md.
//
// # Implementation
//
// Each attribute is a struct. The tag of a field holds its position on the wire, the name that C's
// tools print, and the format of its value. Marshal, Unmarshal, Dump and AppendJSON use these tags.
package mad
