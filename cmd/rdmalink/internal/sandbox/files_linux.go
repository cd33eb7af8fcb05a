package sandbox

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/internal/abi"
)

// file is the object behind a descriptor of the sandbox: a device, a connection manager's
// channel, a socket.
type file interface {
	// node is the type and number that stat(2) returns for it.
	node() node
	// close is called when the last descriptor and the last mapping are gone.
	close()
}

// files holds the files behind the sandbox's descriptors. Each is a real file, without a name,
// in a directory of the sandbox. So the kernel implements everything that processes do with
// descriptors (fork, dup, exec, passing them on), and inotify reports the last close.
type files struct {
	dir     string
	inotify int
	closes  *os.File // inotify's events

	mu      sync.Mutex
	last    int
	open    map[fileID]file
	watched map[int32]fileID
}

func newFiles() (*files, error) {
	dir, err := os.MkdirTemp("/dev/shm", "rdmalink-sandbox-")
	if err != nil {
		dir, err = os.MkdirTemp("", "rdmalink-sandbox-")
	}
	if err != nil {
		return nil, err
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("inotify_init1", err)
	}
	f := &files{dir: dir, inotify: fd, closes: os.NewFile(uintptr(fd), "inotify"), open: make(map[fileID]file), watched: make(map[int32]fileID)}
	go f.watch()
	return f, nil
}

func (f *files) remove() {
	_ = f.closes.Close()
	_ = os.RemoveAll(f.dir)
}

// memory creates a file that can be mapped, and pipe one that can be polled. Both return the
// supervisor's descriptor and the process's.
func (f *files) memory() (own, theirs *os.File, err error) {
	return f.make(func(path string) error {
		return os.WriteFile(path, nil, 0o600)
	})
}

func (f *files) pipe() (own, theirs *os.File, err error) {
	return f.make(func(path string) error { return unix.Mkfifo(path, 0o600) })
}

func (f *files) make(create func(path string) error) (own, theirs *os.File, err error) {
	f.mu.Lock()
	f.last++
	path := filepath.Join(f.dir, fmt.Sprint(f.last))
	f.mu.Unlock()
	if err := create(path); err != nil {
		return nil, nil, err
	}
	defer os.Remove(path)
	if own, err = openRaw(path, unix.O_RDWR|unix.O_NONBLOCK); err != nil {
		return nil, nil, err
	}
	if theirs, err = openRaw(path, unix.O_RDWR); err != nil {
		own.Close()
		return nil, nil, err
	}
	return own, theirs, nil
}

// openRaw keeps the file out of Go's netpoller.
func openRaw(path string, flags int) (*os.File, error) {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// add registers the object of a descriptor, before the process gets the descriptor.
func (f *files) add(theirs *os.File, is file) error {
	var st unix.Stat_t
	fd := int(theirs.Fd())
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	w, err := unix.InotifyAddWatch(f.inotify, fmt.Sprintf("/proc/self/fd/%d", fd), unix.IN_CLOSE)
	if err != nil {
		return os.NewSyscallError("inotify_add_watch", err)
	}
	id := fileID{st.Dev, st.Ino}
	f.open[id], f.watched[int32(w)] = is, id
	return nil
}

// find returns the object behind a descriptor of a process.
func (f *files) find(p *process, fd int32) (file, error) {
	id, err := p.file(fd)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open[id], nil
}

// mapped returns the object that a process has mapped at an address, and the offset in its
// file.
func (f *files) mapped(p *process, addr uint64) (is file, at int64, ok bool) {
	m, ok := p.mapping(addr)
	if !ok || !strings.HasPrefix(m.path, f.dir+"/") {
		return nil, 0, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, is := range f.open {
		if id.ino == m.inode {
			return is, int64(addr-m.from) + m.offset, true
		}
	}
	return nil, 0, false
}

// watch closes files of which the last opening was closed.
func (f *files) watch() {
	b := make([]byte, 64*unix.SizeofInotifyEvent)
	for {
		n, err := f.closes.Read(b)
		if err != nil {
			return
		}
		for e := b[:n]; len(e) >= unix.SizeofInotifyEvent; e = e[unix.SizeofInotifyEvent+binary.NativeEndian.Uint32(e[12:]):] {
			f.closed(int32(binary.NativeEndian.Uint32(e)))
		}
	}
}

func (f *files) closed(watch int32) {
	f.mu.Lock()
	id, ok := f.watched[watch]
	is := f.open[id]
	if ok {
		delete(f.watched, watch)
		delete(f.open, id)
		_, _ = unix.InotifyRmWatch(f.inotify, uint32(watch))
	}
	f.mu.Unlock()
	if is != nil {
		is.close()
	}
}

// find finds the file of ours that a call is about. A descriptor of that number may be
// another's.
func find[T any](c *call, fd int32) (is T, ok bool) {
	f, err := c.files.find(c.process, fd)
	if err != nil {
		return is, false
	}
	is, ok = f.(T)
	return is, ok
}

func (c *call) fstat() result { return c.fstatTo(1) }

func (c *call) fstatTo(to int) result {
	f, ok := find[file](c, c.fd(0))
	if !ok {
		return resume
	}
	var st unix.Stat_t
	f.node().stat(&st)
	return done(0, c.write(c.Args[to], abi.Bytes(&st)))
}

func (c *call) statxFile() result {
	f, ok := find[file](c, c.fd(0))
	if !ok {
		return resume
	}
	st := unix.Statx_t{Mask: unix.STATX_BASIC_STATS}
	f.node().statx(&st)
	return done(0, c.write(c.Args[4], abi.Bytes(&st)))
}

// writer is a file that takes write(2).
type writer interface {
	take(c *call, b []byte) result
}

// longest is as much as one write may carry: more than any command.
const longest = 1 << 20

func (c *call) writeFile() result {
	f, ok := find[file](c, c.fd(0))
	if !ok {
		return resume
	}
	w, ok := f.(writer)
	if !ok || c.Args[2] > longest {
		return result{errno: syscall.EINVAL}
	}
	b := make([]byte, c.Args[2])
	if err := c.read(c.Args[1], b); err != nil {
		return failed(err)
	}
	c.look()
	return w.take(c, b)
}

func (c *call) writevFile() result {
	f, ok := find[file](c, c.fd(0))
	if !ok {
		return resume
	}
	w, ok := f.(writer)
	if !ok {
		return result{errno: syscall.EINVAL}
	}
	b, err := c.gather(c.Args[1], c.Args[2])
	if err != nil {
		return failed(err)
	}
	c.look()
	return w.take(c, b)
}

// gather reads the data that a vector of n pieces describes.
func (c *call) gather(addr, n uint64) (b []byte, err error) {
	if n > maxVectors {
		return nil, syscall.EINVAL
	}
	for range n {
		v, err := get[vector](c.process, addr)
		if err != nil {
			return nil, err
		}
		if v.Length > longest-uint64(len(b)) {
			return nil, syscall.EINVAL
		}
		piece := make([]byte, v.Length)
		if err := c.read(v.Base, piece); err != nil {
			return nil, err
		}
		b, addr = append(b, piece...), addr+16
	}
	return b, nil
}

// maxVectors is IOV_MAX.
const maxVectors = 1024

// vector is struct iovec.
type vector struct{ Base, Length uint64 }

func (c *call) readFile() result {
	f, ok := find[file](c, c.fd(0))
	if !ok {
		return resume
	}
	switch f := f.(type) {
	case *socket:
		return f.receive(c, message{base: c.Args[1], room: c.Args[2]})
	case *umadFile:
		return f.read(c, c.Args[2])
	}
	return result{errno: syscall.EINVAL}
}

// mmap lets the kernel map the file, if the device has these pages there.
func (c *call) mmap() result {
	d, ok := find[*device](c, c.fd(4))
	if !ok {
		return resume
	}
	if err := d.mapped(int64(c.Args[5]), int(c.Args[1])); err != nil {
		return failed(err)
	}
	return resume
}

// dup gives the copy a number whose calls the supervisor sees.
func (c *call) dup() result {
	if _, ok := find[file](c, c.fd(0)); !ok {
		return resume
	}
	pidfd, err := unix.PidfdOpen(c.leader(), 0)
	if err != nil {
		return failed(err)
	}
	defer unix.Close(pidfd)
	if !c.waits() {
		return result{errno: syscall.ESRCH} // the number may be another's by now
	}
	fd, err := unix.PidfdGetfd(pidfd, int(c.fd(0)), 0)
	if err != nil {
		return failed(err)
	}
	defer unix.Close(fd)
	return done(c.giveOurs(fd, c.Nr == unix.SYS_FCNTL && c.Args[1] == unix.F_DUPFD_CLOEXEC))
}
