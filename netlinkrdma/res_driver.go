package netlinkrdma

import (
	"fmt"
	"strconv"

	"github.com/goverbs/goverbs/internal/abi"
)

// DriverKind is the type of a driver's attribute.
type DriverKind uint16

// The types that there are.
const (
	DriverString DriverKind = abi.RDMA_NLDEV_ATTR_DRIVER_STRING
	DriverS32    DriverKind = abi.RDMA_NLDEV_ATTR_DRIVER_S32
	DriverU32    DriverKind = abi.RDMA_NLDEV_ATTR_DRIVER_U32
	DriverS64    DriverKind = abi.RDMA_NLDEV_ATTR_DRIVER_S64
	DriverU64    DriverKind = abi.RDMA_NLDEV_ATTR_DRIVER_U64
)

// DriverAttr is one attribute of a driver's own.
type DriverAttr struct {
	Name   string
	Kind   DriverKind
	Hex    bool   // the driver would have the number printed in hexadecimal
	Text   string // the value of a DriverString
	Number uint64 // the value of the others; signed ones have their sign extended
}

// String gives the value, without the name.
func (d DriverAttr) String() string {
	switch {
	case d.Kind == DriverString:
		return d.Text
	case d.Hex && d.Kind == DriverS32:
		return fmt.Sprintf("%#x", uint32(d.Number))
	case d.Hex:
		return fmt.Sprintf("%#x", d.Number)
	case d.Kind == DriverS32 || d.Kind == DriverS64:
		return strconv.FormatInt(int64(d.Number), 10)
	}
	return strconv.FormatUint(d.Number, 10)
}

// parseDriver reads the driver's attributes: each is a name, possibly how to
// print it, and a value. A value of an unknown type goes, with its name.
func parseDriver(a *attributes) []DriverAttr {
	var all []DriverAttr
	var d DriverAttr
	named := false
	in := a.inside()
	for in.next() {
		switch {
		case in.typ == abi.RDMA_NLDEV_ATTR_DRIVER_PRINT_TYPE:
			d.Hex = in.uint8() == abi.RDMA_NLDEV_PRINT_TYPE_HEX
		case named:
			if d.value(&in) {
				all = append(all, d)
			}
			d, named = DriverAttr{}, false
		case in.typ == abi.RDMA_NLDEV_ATTR_DRIVER_STRING:
			d.Name, named = in.string(), true
		}
	}
	in.require(!named, abi.RDMA_NLDEV_ATTR_DRIVER_ENTRY)
	a.adopt(&in)
	return all
}

// value reads the value and tells whether it is of a known type.
func (d *DriverAttr) value(a *attributes) bool {
	d.Kind = DriverKind(a.typ)
	switch d.Kind {
	case DriverString:
		d.Text = a.string()
	case DriverS32:
		d.Number = uint64(int64(int32(a.uint32())))
	case DriverU32:
		d.Number = uint64(a.uint32())
	case DriverS64, DriverU64:
		d.Number = a.uint64()
	default:
		return false
	}
	return true
}
