package fakeverbs

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/mmap"
)

// exported maps a file from the page at start on. The file must contain all bytes of the region, because
// an access beyond its end would kill the program.
func exported(fd int, start, within, length uint64) (*mmap.Region, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, syscall.EBADF
	}
	size := uint64(st.Size)
	if length == 0 || start > size || within > size-start || length > size-start-within {
		return nil, syscall.EINVAL
	}
	region, err := mmap.Map(fd, int64(start), int(within+length), mmap.ProtRead|mmap.ProtWrite)
	if err != nil {
		return nil, syscall.EINVAL
	}
	return region, nil
}
