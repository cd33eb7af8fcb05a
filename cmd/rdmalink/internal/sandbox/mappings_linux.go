package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"iter"
	"os"
	"strconv"
	"strings"
)

// mapping is a line of /proc/PID/maps.
type mapping struct {
	from, to uint64
	mode     string
	offset   int64 // in the file
	inode    uint64
	path     string
}

// mappings yields those of a process, by address; none if the process is gone.
func (p process) mappings() iter.Seq[mapping] {
	return func(yield func(mapping) bool) {
		f, err := os.Open(fmt.Sprintf("/proc/%d/maps", int(p)))
		if err != nil {
			return
		}
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if m, ok := parseMapping(lines.Text()); !ok || !yield(m) {
				return
			}
		}
	}
}

func parseMapping(line string) (m mapping, ok bool) {
	words := strings.Fields(line)
	if len(words) < 5 {
		return m, false
	}
	from, to, _ := strings.Cut(words[0], "-")
	var bad [4]error
	m.from, bad[0] = strconv.ParseUint(from, 16, 64)
	m.to, bad[1] = strconv.ParseUint(to, 16, 64)
	m.offset, bad[2] = strconv.ParseInt(words[2], 16, 64)
	m.inode, bad[3] = strconv.ParseUint(words[4], 10, 64)
	m.mode = words[1]
	if i := strings.IndexByte(line, '/'); i >= 0 {
		m.path = line[i:]
	}
	return m, errors.Join(bad[:]...) == nil
}

// mapping finds the one at an address.
func (p process) mapping(addr uint64) (m mapping, ok bool) {
	for m := range p.mappings() {
		if m.from <= addr && addr < m.to {
			return m, true
		}
	}
	return m, false
}
