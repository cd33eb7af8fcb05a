package sandbox

import (
	"fmt"
	"os"
	"sort"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/procmaps"
	"github.com/goverbs/goverbs/mmap"
)

// pinned is the memory of a region. Shared pages are mapped here as well, so the device reaches them after the process
// has unmapped them. Nothing can hold the private pages of another process: they are reached by their address.
type pinned struct {
	userMemory
	pieces []heldPages // by address
}

// heldPages are pages that the process shares with the supervisor.
type heldPages struct {
	from, to uint64
	memory   fakeverbs.Memory
	unpin    func()
}

// A process has up to 65,530 mappings, and so has the supervisor. Beyond these numbers pages are reached by their
// address.
const (
	mostHeld     = 4096 // mappings that the supervisor holds for all regions
	mostOpened   = 64   // files that are looked for, for one region
	mostSearched = 256  // descriptors of the process among which a file is looked for
)

var held atomic.Int32

// Pin implements fakeverbs.Memory.
func (m userMemory) Pin(addr, length uint64, write bool) (fakeverbs.Memory, func(), error) {
	p := pinned{userMemory: m}
	files := make(map[fileID]int)
	defer func() {
		for _, fd := range files {
			_ = unix.Close(fd)
		}
	}()
	err := m.walk(addr, length, write, func(o *procmaps.Mapping) {
		if !o.Shared || o.Inode == 0 || strings.HasPrefix(o.Path, m.ours) {
			return
		}
		id := fileID{o.Dev, o.Inode}
		fd, ok := files[id]
		if !ok && len(files) < mostOpened {
			fd = m.openMapped(o, write)
			files[id] = fd
		}
		if fd > 0 {
			p.hold(fd, o, addr, addr+length, write)
		}
	})
	if err != nil {
		p.unpin()
		return nil, nil, err
	}
	return p, p.unpin, nil
}

// hold maps the pages between two addresses of a file that the process has mapped.
func (p *pinned) hold(fd int, o *procmaps.Mapping, from, to uint64, write bool) {
	from, to = max(from&^uint64(os.Getpagesize()-1), o.From), min(to, o.To)
	prot := mmap.ProtRead
	if write {
		prot |= mmap.ProtWrite
	}
	if held.Add(1) <= mostHeld {
		if region, err := mmap.Map(fd, o.Offset+int64(from-o.From), int(to-from), prot); err == nil {
			h := heldPages{from: from, to: to}
			h.memory, h.unpin = fakeverbs.NewMemory(from, region)
			p.pieces = append(p.pieces, h)
			return
		}
	}
	held.Add(-1)
}

func (p *pinned) unpin() {
	for _, h := range p.pieces {
		h.unpin()
		held.Add(-1)
	}
}

// openMapped opens a file that the process has mapped: by the mapping, which needs CAP_CHECKPOINT_RESTORE, by its path,
// or by a descriptor that the process has kept. It returns -1 if it finds none.
func (p *process) openMapped(o *procmaps.Mapping, write bool) (fd int) {
	names := []string{fmt.Sprintf("map_files/%x-%x", o.From, o.To), "root" + o.Path}
	if fds, err := p.open("fd", unix.O_RDONLY|unix.O_DIRECTORY); err == nil {
		numbers, _ := fds.Readdirnames(mostSearched)
		fds.Close()
		for _, n := range numbers {
			names = append(names, "fd/"+n)
		}
	}
	for _, name := range names {
		if fd, err := p.openFile(name, o, write); err == nil {
			return fd
		}
	}
	return -1
}

// openFile opens a file of the process's directory if it is the mapped one. It opens no other, because that could wait,
// or have an effect.
func (p *process) openFile(name string, o *procmaps.Mapping, write bool) (fd int, err error) {
	is := func(st *unix.Stat_t) bool {
		return st.Mode&unix.S_IFMT == unix.S_IFREG && st.Ino == o.Inode && st.Dev == o.Dev
	}
	if st, err := p.status(name, 0); err != nil || !is(&st) {
		return -1, unix.ENOENT
	}
	f, err := p.open(name, unix.O_PATH)
	if err != nil {
		return -1, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil || !is(&st) {
		return -1, unix.ENOENT
	}
	flags := unix.O_RDONLY
	if write {
		flags = unix.O_RDWR
	}
	return unix.Open(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), flags|unix.O_CLOEXEC, 0)
}

// at returns the memory that has the byte at an address, and the number of bytes that it has from there on.
func (p pinned) at(addr uint64) (m fakeverbs.Memory, n uint64) {
	i := sort.Search(len(p.pieces), func(i int) bool { return addr < p.pieces[i].to })
	switch {
	case i == len(p.pieces):
		return p.userMemory, -addr
	case addr < p.pieces[i].from:
		return p.userMemory, p.pieces[i].from - addr
	}
	return p.pieces[i].memory, p.pieces[i].to - addr
}

// each calls do with the pieces of b and the memory that each of them is in.
func (p pinned) each(addr uint64, b []byte, do func(m fakeverbs.Memory, addr uint64, b []byte) error) error {
	for len(b) > 0 {
		m, n := p.at(addr)
		n = min(n, uint64(len(b)))
		if err := do(m, addr, b[:n]); err != nil {
			return err
		}
		addr, b = addr+n, b[n:]
	}
	return nil
}

// Read implements fakeverbs.Memory, as do the methods below.
func (p pinned) Read(addr uint64, b []byte) error {
	return p.each(addr, b, fakeverbs.Memory.Read)
}

func (p pinned) Write(addr uint64, b []byte) error {
	return p.each(addr, b, fakeverbs.Memory.Write)
}

func (p pinned) Load32(addr uint64) (uint32, error) {
	m, _ := p.at(addr)
	return m.Load32(addr)
}

func (p pinned) Store32(addr uint64, v uint32) error {
	m, _ := p.at(addr)
	return m.Store32(addr, v)
}

func (p pinned) Load64(addr uint64) (uint64, error) {
	m, _ := p.at(addr)
	return m.Load64(addr)
}

func (p pinned) Store64(addr uint64, v uint64) error {
	m, _ := p.at(addr)
	return m.Store64(addr, v)
}
