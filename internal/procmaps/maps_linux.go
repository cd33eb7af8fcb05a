package procmaps

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Mapping is a mapping of a process, a line of /proc/PID/maps.
type Mapping struct {
	From, To                   uint64
	Readable, Writable, Shared bool
	Offset                     int64 // in the file
	Dev, Inode                 uint64
	Path                       string
}

func parse(line string) (m Mapping, ok bool) {
	words := strings.Fields(line)
	if len(words) < 5 || len(words[1]) < 4 {
		return m, false
	}
	from, to, _ := strings.Cut(words[0], "-")
	major, minor, _ := strings.Cut(words[3], ":")
	var bad [6]error
	var dev [2]uint64
	m.From, bad[0] = strconv.ParseUint(from, 16, 64)
	m.To, bad[1] = strconv.ParseUint(to, 16, 64)
	m.Offset, bad[2] = strconv.ParseInt(words[2], 16, 64)
	m.Inode, bad[3] = strconv.ParseUint(words[4], 10, 64)
	dev[0], bad[4] = strconv.ParseUint(major, 16, 32)
	dev[1], bad[5] = strconv.ParseUint(minor, 16, 32)
	m.Dev = unix.Mkdev(uint32(dev[0]), uint32(dev[1]))
	m.Readable, m.Writable, m.Shared = words[1][0] == 'r', words[1][1] == 'w', words[1][3] == 's'
	if i := strings.IndexByte(line, '/'); i >= 0 {
		m.Path = line[i:]
	}
	return m, errors.Join(bad[:]...) == nil
}

// Find returns the mapping at an address. maps is the file /proc/PID/maps, opened anew. ok is false if nothing
// is mapped there, or the process has ended.
func Find(maps *os.File, addr uint64) (m Mapping, ok bool) {
	for m := range Range(maps, addr, addr+1) {
		return m, true
	}
	return m, false
}

// Range yields the mappings from an address on, up to end or the first gap. maps is the file /proc/PID/maps, opened
// anew. Linux 6.11 and newer look them up; on older kernels all lines before them have to be read.
func Range(maps *os.File, addr, end uint64) iter.Seq[Mapping] {
	return func(yield func(Mapping) bool) {
		var lines *bufio.Scanner
		for addr < end {
			m, err := query(maps, addr)
			if err == unix.ENOTTY || err == unix.ENOSYS { // the latter from qemu-user
				if lines == nil {
					lines = bufio.NewScanner(maps)
				}
				m, err = scan(lines, addr)
			}
			if err != nil || !yield(m) {
				return
			}
			addr = m.To
		}
	}
}

// scan reads lines up to that of the mapping at an address.
func scan(lines *bufio.Scanner, addr uint64) (Mapping, error) {
	for lines.Scan() {
		if m, ok := parse(lines.Text()); ok && addr < m.To {
			if addr < m.From {
				break
			}
			return m, nil
		}
	}
	return Mapping{}, unix.ENOENT
}

// query asks the kernel for the mapping at an address.
func query(maps *os.File, addr uint64) (m Mapping, err error) {
	var name [unix.PathMax]byte
	q := procmapQuery{Addr: addr}
	if err := queryMap(int(maps.Fd()), &q, name[:]); err != nil {
		return m, err
	}
	path, _, _ := bytes.Cut(name[:], []byte{0})
	return Mapping{From: q.From, To: q.To, Readable: q.MapFlags&readable != 0, Writable: q.MapFlags&writable != 0, Shared: q.MapFlags&shared != 0,
		Offset: int64(q.Offset), Dev: unix.Mkdev(q.DevMajor, q.DevMinor), Inode: q.Inode, Path: string(path)}, nil
}

// Pinnable reports whether a device may hold the pages of a mapping, to read and, with write, to write them.
// It may not write shared pages of a file system that has to notice writes, because it writes when no one expects it.
// mounts opens the file /proc/PID/mountinfo.
//
// C: check_vma_flags
func (m *Mapping) Pinnable(write bool, mounts func() (*os.File, error)) bool {
	if !write {
		return m.Readable
	}
	if !m.Writable || !m.Shared || m.Inode == 0 {
		return m.Writable
	}
	f, err := mounts()
	if err != nil {
		return true
	}
	defer f.Close()
	return inMemory(f, m.Dev)
}

// longestMounts is how many bytes of a list of mounts are read.
const longestMounts = 4 << 20

// inMemory reports whether the file system of a device number keeps its files in memory alone. The kernel's own mounts,
// of memfd_create(2) and shared anonymous memory, are not listed.
func inMemory(mounts io.Reader, dev uint64) bool {
	number := fmt.Sprintf("%d:%d", unix.Major(dev), unix.Minor(dev))
	for lines := bufio.NewScanner(io.LimitReader(mounts, longestMounts)); lines.Scan(); {
		front, back, _ := strings.Cut(lines.Text(), " - ")
		words := strings.Fields(front)
		if len(words) < 3 || words[2] != number {
			continue
		}
		kind, _, _ := strings.Cut(back, " ")
		return inMemoryKinds[kind]
	}
	return unix.Major(dev) == 0
}

var inMemoryKinds = map[string]bool{"tmpfs": true, "ramfs": true, "hugetlbfs": true, "devtmpfs": true}
