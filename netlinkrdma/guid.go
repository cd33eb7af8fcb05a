package netlinkrdma

import "fmt"

// GUID is a 64-bit EUI: of a node, or of a system image.
//
// The kernel sends it as a number in native byte order, so this is the number
// and not the bytes that stand on the wire or in a GID.
type GUID uint64

// String gives the form of sysfs and iproute2: 0c76:80ff:febf:e77b.
func (g GUID) String() string {
	return fmt.Sprintf("%04x:%04x:%04x:%04x", uint16(g>>48), uint16(g>>32), uint16(g>>16), uint16(g))
}
