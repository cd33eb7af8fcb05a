package trace

import (
	"bytes"

	"golang.org/x/sys/unix"
)

// memoryOf reads the memory of a thread.
func memoryOf(tid int) memory {
	return func(addr uint64, size int) []byte {
		if size == 0 {
			return []byte{}
		}
		b := make([]byte, size)
		local := []unix.Iovec{{Base: &b[0]}}
		local[0].SetLen(size)
		n, err := unix.ProcessVMReadv(tid, local, []unix.RemoteIovec{{Base: uintptr(addr), Len: size}}, 0)
		if err != nil || n != size {
			return nil
		}
		return b
	}
}

// cString reads the beginning of a path: as far as RDMA's nodes have any.
func cString(m memory, addr uint64) string {
	const most = 64
	for size := most; size > 0; size /= 2 { // the end may be the end of the memory
		if b := m(addr, size); b != nil {
			text, _, _ := bytes.Cut(b, []byte{0})
			return string(text)
		}
	}
	return ""
}
