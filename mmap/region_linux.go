package mmap

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Every page size of amd64 and arm64 offers 2 MiB huge pages; asking for them
// by size spares a look into /proc, which a container may lack, for the default.
const (
	hugePage      = 2 << 20
	mapHuge2MByte = 21 << unix.MAP_HUGE_SHIFT
)

func mapFile(fd int, offset int64, size int, prot Prot) ([]byte, error) {
	p := unix.PROT_NONE
	if prot&ProtRead != 0 {
		p |= unix.PROT_READ
	}
	if prot&ProtWrite != 0 {
		p |= unix.PROT_WRITE
	}
	return mapMemory(fd, offset, size, p, unix.MAP_SHARED)
}

// mapMemory does not use unix.Mmap, which keeps a table of all mappings.
func mapMemory(fd int, offset int64, size, prot, flags int) ([]byte, error) {
	start, err := unix.MmapPtr(fd, offset, nil, uintptr(size), prot, flags)
	if err != nil {
		return nil, err
	}
	return memoryAt(start, size), nil
}

func mapAnonymous(size int, opts *AnonymousOptions) ([]byte, error) {
	flags := unix.MAP_ANONYMOUS | unix.MAP_PRIVATE
	if opts.Huge {
		flags |= unix.MAP_HUGETLB | mapHuge2MByte
	}
	slack := 0 // huge pages have the largest alignment, and mappings that of a page
	if page := os.Getpagesize(); !opts.Huge && opts.Align > page {
		slack = opts.Align - page
	}
	data, err := mapMemory(-1, 0, size+slack, unix.PROT_READ|unix.PROT_WRITE, flags)
	if err == nil && slack > 0 {
		data, err = align(data, size, opts.Align)
	}
	if err == nil && opts.DontFork {
		if err = unix.Madvise(data, unix.MADV_DONTFORK); err != nil {
			return nil, errors.Join(err, unmapMemory(data))
		}
	}
	return data, err
}

// align unmaps all of a mapping except size bytes at a multiple of alignment.
func align(data []byte, size, alignment int) ([]byte, error) {
	skip := int(-address(data) & uintptr(alignment-1))
	for _, rest := range [][]byte{data[:skip], data[skip+size:]} {
		if len(rest) == 0 {
			continue
		}
		if err := unmapMemory(rest); err != nil {
			return nil, errors.Join(err, unmapMemory(data)) // the gap does not matter
		}
	}
	return data[skip:][:size:size], nil
}

func unmapMemory(data []byte) error { return unix.MunmapPtr(pointer(data), uintptr(len(data))) }
