package sandbox

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/procmaps"
)

// process is a process of the sandbox, identified by one of its threads, as its open directory in
// /proc. The kernel reuses the number of a process that has ended. The open directory, and files
// opened below it, never refer to another process: calls fail instead. Errors are plain errnos, as
// the process's system calls return them.
type process struct {
	id int // of the thread

	mu     sync.RWMutex
	dir    int // /proc/ID
	closed bool

	once   sync.Once
	memory *os.File // /proc/ID/mem, of the program that the process ran when its memory was first used
	err    error

	tgid atomic.Int64 // the number of the process, once it is known

	// calls means that the thread is in a call, or was before: one goroutine uses this, and the memory is of the
	// program that runs now.
	calls   bool
	environ []byte // of that program, once it is known
}

// openProcess opens the process that has a number now. The caller must check afterwards that the
// number was not reused before.
func openProcess(id int) (*process, error) {
	dir, err := unix.Open(fmt.Sprintf("/proc/%d", id), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT {
		err = unix.ESRCH
	}
	if err != nil {
		return nil, err
	}
	return &process{id: id, dir: dir}, nil
}

// close closes the open directory and files. Later calls fail.
func (p *process) close() {
	p.once.Do(func() { p.err = unix.ESRCH })
	if p.memory != nil {
		_ = p.memory.Close()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.closed = true
		_ = unix.Close(p.dir)
	}
}

// in calls do with the descriptor of the process's directory.
func (p *process) in(do func(dir int) error) error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.closed {
		return unix.ESRCH
	}
	return do(p.dir)
}

// open opens a file of the process's directory.
func (p *process) open(name string, flags int) (f *os.File, err error) {
	err = p.in(func(dir int) error {
		fd, err := unix.Openat(dir, p.living(dir, name), flags|unix.O_CLOEXEC, 0)
		if err == nil {
			f = os.NewFile(uintptr(fd), name)
		}
		return err
	})
	return f, err
}

// openMemory opens the process's memory, a file. Unlike process_vm_readv(2) a file takes no number.
func (p *process) openMemory() error {
	p.once.Do(func() {
		switch p.memory, p.err = p.open("mem", unix.O_RDWR); p.err {
		case nil:
		case unix.ENOENT, unix.ESRCH:
			p.err = unix.ESRCH
		default:
			p.err = unix.EFAULT
		}
	})
	return p.err
}

// read copies memory of the process. ESRCH says that the process, or the program that it
// ran, has ended.
func (p *process) read(addr uint64, b []byte) error { return p.copy((*os.File).ReadAt, addr, b) }

func (p *process) write(addr uint64, b []byte) error { return p.copy((*os.File).WriteAt, addr, b) }

func (p *process) copy(how func(*os.File, []byte, int64) (int, error), addr uint64, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if err := p.openMemory(); err != nil {
		return err
	}
	n, err := how(p.memory, b, int64(addr))
	if p.calls && n == 0 && isEnd(err) { // another program has taken the place of the one whose memory this was
		_ = p.memory.Close()
		p.once, p.environ = sync.Once{}, nil
		if err := p.openMemory(); err != nil {
			return err
		}
		_, err = how(p.memory, b, int64(addr))
	}
	switch {
	case err == nil:
		return nil
	case isEnd(err):
		return unix.ESRCH
	}
	return unix.EFAULT
}

func isEnd(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// mostFile bounds what readFile reads. A program can make its environment as long as its memory (PR_SET_MM_MAP of
// prctl(2)); execve(2) takes 6 MiB.
const mostFile = 8 << 20 // bytes

// readFile reads a file of the process's directory. It returns nothing if the file does not exist.
func (p *process) readFile(name string) []byte {
	f, err := p.open(name, unix.O_RDONLY)
	if err != nil {
		return nil
	}
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, mostFile))
	return b
}

// status returns the result of stat(2) for a file in the process's directory.
func (p *process) status(name string, flags int) (st unix.Stat_t, err error) {
	err = p.in(func(dir int) error { return unix.Fstatat(dir, p.living(dir, name), &st, flags) })
	return st, err
}

// living returns where a file of a process's directory is. The first thread of a process may end before
// the others, and then only their directories show the memory and the descriptors.
func (p *process) living(dir int, name string) string {
	if p.calls || runs(dir, ".") {
		return name
	}
	tasks, err := unix.Openat(dir, "task", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return name
	}
	f := os.NewFile(uintptr(tasks), "task")
	defer f.Close()
	threads, _ := f.Readdirnames(-1)
	for _, thread := range threads {
		if at := "task/" + thread; runs(dir, at) {
			return at + "/" + name
		}
	}
	return name
}

// isThere reports whether the thread has not ended.
func (p *process) isThere() bool {
	return p.in(func(dir int) error {
		if !runs(dir, ".") {
			return unix.ESRCH
		}
		return nil
	}) == nil
}

// runs reports whether a thread has not ended: it has a current directory then.
func runs(dir int, at string) bool {
	_, err := unix.Readlinkat(dir, at+"/cwd", make([]byte, 1))
	return err != unix.ENOENT && err != unix.ESRCH
}

// inode returns the number of the file behind a descriptor of the process.
func (p *process) inode(fd int32) (uint64, error) {
	id, err := p.file(fd)
	return id.ino, err
}

// get reads a struct of the process's.
func get[T any](p *process, addr uint64) (v T, err error) {
	err = p.read(addr, abi.Bytes(&v))
	return v, err
}

func put[T any](p *process, addr uint64, v T) error { return p.write(addr, abi.Bytes(&v)) }

// text reads a string up to its NUL, a page at most at a time.
func (p *process) text(addr uint64) (string, error) {
	const longest = unix.PathMax
	var s []byte
	for len(s) < longest {
		page := uint64(os.Getpagesize())
		b := make([]byte, min(page-addr%page, 256))
		if err := p.read(addr, b); err != nil {
			return "", err
		}
		if i := bytes.IndexByte(b, 0); i >= 0 {
			return string(append(s, b[:i]...)), nil
		}
		s, addr = append(s, b...), addr+uint64(len(b))
	}
	return "", syscall.ENAMETOOLONG
}

// file returns the file behind a descriptor of the process.
func (p *process) file(fd int32) (fileID, error) {
	st, err := p.status(fmt.Sprintf("fd/%d", fd), 0)
	if err != nil {
		return fileID{}, syscall.EBADF
	}
	return fileID{st.Dev, st.Ino}, nil
}

// fileID names a file.
type fileID struct{ dev, ino uint64 }

// has reports whether the process has a descriptor of that number.
func (p *process) has(fd int) bool {
	_, err := p.status(fmt.Sprintf("fd/%d", fd), unix.AT_SYMLINK_NOFOLLOW)
	return err == nil
}

// freeFD returns a number from first on that no descriptor has. The numbers of those that have one mostly follow
// each other, so their end is found in few looks.
func (p *process) freeFD(first int) int {
	if !p.has(first) {
		return first
	}
	used, step := first, 1
	for ; p.has(used + step); step *= 2 {
		used += step
	}
	free := used + step
	for free-used > 1 {
		if middle := (used + free) / 2; p.has(middle) {
			used = middle
		} else {
			free = middle
		}
	}
	return free
}

// threads returns the number of threads of the process.
func (p *process) threads() int {
	const others = 2 // links to a directory without directories
	st, err := p.status("task", 0)
	if err != nil {
		return 0
	}
	return int(st.Nlink) - others
}

// leader returns the number of the process that a thread belongs to.
func (p *process) leader() int {
	if id := p.tgid.Load(); id != 0 {
		return int(id)
	}
	tgid := p.id
	for line := range bytes.Lines(p.readFile("status")) {
		if _, err := fmt.Sscanf(string(line), "Tgid: %d", &tgid); err == nil {
			p.tgid.Store(int64(tgid))
			break
		}
	}
	return tgid
}

// getenv reads a variable of the environment that the process was started with.
func (p *process) getenv(name string) string {
	environ := p.environ
	if environ == nil {
		environ = p.readFile("environ")
	}
	if p.calls {
		p.environ = environ
	}
	for v := range bytes.SplitSeq(environ, []byte{0}) {
		if value, ok := bytes.CutPrefix(v, []byte(name+"=")); ok {
			return string(value)
		}
	}
	return ""
}

// directory returns the directory to which a relative path of the process refers, by the name of its link.
func (p *process) directory(name string) string { return cmp.Or(p.link(name), "/") }

// link returns where a symbolic link of the process's directory leads, or nothing if the process is gone.
func (p *process) link(name string) (to string) {
	_ = p.in(func(dir int) error {
		b := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(dir, name, b)
		if err == nil {
			to = string(b[:n])
		}
		return err
	})
	return to
}

// maps opens the list of the process's mappings.
func (p *process) maps() (*os.File, error) { return p.open("maps", unix.O_RDONLY) }

// mounts opens the list of the mounts that the process sees.
func (p *process) mounts() (*os.File, error) { return p.open("mountinfo", unix.O_RDONLY) }

// mapping returns the mapping at an address; none if the process is gone.
func (p *process) mapping(addr uint64) (m procmaps.Mapping, ok bool) {
	f, err := p.maps()
	if err != nil {
		return m, false
	}
	defer f.Close()
	return procmaps.Find(f, addr)
}

// userMemory is the memory of a process as a device accesses it. It implements
// fakeverbs.Memory. The kernel copies words for loads and stores. The system calls order
// them: a store is visible to the accesses after it.
type userMemory struct {
	*process
	ours string // the directory of the sandbox's own files
}

// Check checks for mappings without a gap.
func (m userMemory) Check(addr, length uint64) error { return m.walk(addr, length, false, nil) }

// walk calls do, if it is set, with the mappings that contain a piece of memory. It returns EFAULT if a device may not
// hold all of it, to read or, with write, to write it.
func (m userMemory) walk(addr, length uint64, write bool, do func(*procmaps.Mapping)) error {
	end := addr + length
	if end < addr {
		return syscall.EFAULT
	}
	f, err := m.maps()
	if err != nil {
		return syscall.EFAULT
	}
	defer f.Close()
	for o := range procmaps.Range(f, addr, end) {
		if !o.Pinnable(write, m.mounts) {
			break
		}
		if do != nil {
			do(&o)
		}
		addr = o.To
	}
	if addr < end {
		return syscall.EFAULT
	}
	return nil
}

func (m userMemory) Read(addr uint64, b []byte) error  { return m.read(addr, b) }
func (m userMemory) Write(addr uint64, b []byte) error { return m.write(addr, b) }

func (m userMemory) Load32(addr uint64) (uint32, error) {
	var b [4]byte
	err := m.read(addr, b[:])
	return binary.NativeEndian.Uint32(b[:]), err
}

func (m userMemory) Store32(addr uint64, v uint32) error {
	return m.write(addr, binary.NativeEndian.AppendUint32(nil, v))
}

func (m userMemory) Load64(addr uint64) (uint64, error) {
	var b [8]byte
	err := m.read(addr, b[:])
	return binary.NativeEndian.Uint64(b[:]), err
}

func (m userMemory) Store64(addr uint64, v uint64) error {
	return m.write(addr, binary.NativeEndian.AppendUint64(nil, v))
}
