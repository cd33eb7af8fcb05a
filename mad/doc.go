// Package mad has the management datagrams (MADs) of InfiniBand: their headers, their attributes in
// typed form, and the interface of what sends and receives them.
//
// Experimental: may change in any release; see docs/stability.md.
//
// # Implementation
//
// Each attribute is a struct whose tags are the layout on the wire, the name that C's tools print,
// and the form of the value. Marshal, Unmarshal, Dump and AppendJSON work from these tags.
package mad
