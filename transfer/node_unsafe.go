//go:build linux

package transfer

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// nodeOf returns the NUMA node of memory, if its first page, its last one and the one between have the same. In
// containers that may not call get_mempolicy(2), as by Docker's default, it is not known.
func nodeOf(b []byte) (node int, known bool) {
	const nodeOfAddress = 3 // C: MPOL_F_NODE | MPOL_F_ADDR
	for i, at := range [...]int{0, len(b) / 2, len(b) - 1} {
		var n int32
		_, _, errno := unix.Syscall6(unix.SYS_GET_MEMPOLICY, uintptr(unsafe.Pointer(&n)), 0, 0, uintptr(unsafe.Pointer(&b[at])), nodeOfAddress, 0)
		if errno != 0 || i > 0 && int(n) != node {
			return 0, false
		}
		node = int(n)
	}
	return node, true
}
