package sandbox

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"iter"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
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
func (p *process) mappings() iter.Seq[mapping] {
	return func(yield func(mapping) bool) {
		f, err := p.open("maps", unix.O_RDONLY)
		if err != nil {
			return
		}
		defer f.Close()
		readMappings(f)(yield)
	}
}

func readMappings(maps io.Reader) iter.Seq[mapping] {
	return func(yield func(mapping) bool) {
		for lines := bufio.NewScanner(maps); lines.Scan(); {
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

// mapping returns the mapping at an address. Linux 6.11 and newer look it up; on older kernels
// all lines before it have to be read.
func (p *process) mapping(addr uint64) (m mapping, ok bool) {
	f, err := p.open("maps", unix.O_RDONLY)
	if err != nil {
		return m, false
	}
	defer f.Close()
	if m, err = queryMapping(f, addr); err != unix.ENOTTY {
		return m, err == nil
	}
	return findMapping(f, addr)
}

func findMapping(maps io.Reader, addr uint64) (m mapping, ok bool) {
	for m := range readMappings(maps) {
		if m.from <= addr && addr < m.to {
			return m, true
		}
	}
	return m, false
}

// queryMapping asks the kernel for the mapping at an address. The kernel does not report the
// mode.
func queryMapping(maps *os.File, addr uint64) (m mapping, err error) {
	var name [unix.PathMax]byte
	q := mapQuery{Addr: addr}
	if err := queryMap(int(maps.Fd()), &q, name[:]); err != nil {
		return m, err
	}
	path, _, _ := bytes.Cut(name[:], []byte{0})
	return mapping{from: q.From, to: q.To, offset: int64(q.Offset), inode: q.Inode, path: string(path)}, nil
}
