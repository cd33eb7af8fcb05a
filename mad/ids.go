package mad

import "fmt"

// AttrID names an attribute within a management class.
type AttrID uint16

// ComponentMask has a bit for each field of a record of class SA that a query selects by, in the
// order of the record: bit 0 is the first field.
type ComponentMask uint64

// NodeType is the kind of a node.
type NodeType uint8

// The kinds of nodes.
const (
	NodeCA     NodeType = 1
	NodeSwitch NodeType = 2
	NodeRouter NodeType = 3
)

func (a AttrID) String() string { return fmt.Sprintf("attribute 0x%04x", uint16(a)) }
