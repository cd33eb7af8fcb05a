package fakeverbs

import (
	"os"

	"github.com/goverbs/goverbs/internal/procmaps"
)

// isWritable reports whether Linux pins this process's memory at an address for writing. A gap is looked at again:
// qemu-user 7.2 leaves a mapping out of the list while another thread maps memory next to it.
func isWritable(addr, length uint64) bool {
	end := addr + length
	for range 10 {
		f, err := os.Open("/proc/self/maps")
		if err != nil {
			return true // /proc is not mounted
		}
		for m := range procmaps.Range(f, addr, end) {
			if !m.Pinnable(true, func() (*os.File, error) { return os.Open("/proc/self/mountinfo") }) {
				f.Close()
				return false
			}
			addr = m.To
		}
		f.Close()
		if addr >= end {
			return true
		}
	}
	return false
}
