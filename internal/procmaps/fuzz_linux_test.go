package procmaps

import (
	"bufio"
	"strings"
	"testing"
)

// FuzzScan looks for an address in a list of mappings, whose paths a process chooses.
func FuzzScan(f *testing.F) {
	f.Add("7fa7038b5000-7fa7038b6000 rw-s 00002000 00:1b 49580                      /dev/shm/rdmalink-sandbox-1/8 (deleted)\n", uint64(0x7fa7038b5001))
	f.Add("ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n", uint64(0xffffffffff600000))
	f.Add("1-2 r 0 0 0\n- - - - -\n\n", uint64(1))
	f.Fuzz(func(t *testing.T, maps string, addr uint64) {
		if m, err := scan(bufio.NewScanner(strings.NewReader(maps)), addr); err == nil && (addr < m.From || addr >= m.To) {
			t.Errorf("%#x is not in %+v", addr, m)
		}
	})
}
