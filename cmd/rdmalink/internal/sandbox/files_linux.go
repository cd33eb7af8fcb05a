package sandbox

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/internal/abi"
)

// file is the object behind a descriptor of the sandbox: a device, a connection manager's
// channel, a socket.
type file interface {
	// node is the type and number that stat(2) returns for it.
	node() node
	// descriptor returns the supervisor's descriptor of the file. It is open until close.
	descriptor() *os.File
	// close is called when the last descriptor and the last mapping are gone.
	close()
}

// files holds the files behind the sandbox's descriptors. Each is a real file, without a name,
// in a directory of the sandbox. So the kernel implements everything that processes do with
// descriptors (fork, dup, exec, passing them on), and inotify reports closes.
//
// Each file of a process is one open file description, which has a lock. The kernel drops the lock when all
// descriptors and mappings of the description are gone, and not when somebody who opened the file
// once more, through /proc, closes that.
type files struct {
	dir string
	own *os.File // the directory, locked

	reserve    *os.File // an empty file, see giveOurs
	reservedID fileID

	inotify int
	closes  *os.File // inotify's events

	mu      sync.Mutex
	last    int
	open    map[fileID]file
	watched map[int32]*watched
}

// watched is a file whose closes inotify reports.
type watched struct {
	id      fileID
	looking bool // closed will look again
}

func newFiles() (*files, error) {
	own, err := lockedDir("/dev/shm")
	if err != nil {
		own, err = lockedDir(os.TempDir())
	}
	if err != nil {
		return nil, err
	}
	dir := own.Name()
	removeOld(filepath.Dir(dir))
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		own.Close()
		_ = os.RemoveAll(dir)
		return nil, os.NewSyscallError("inotify_init1", err)
	}
	f := &files{dir: dir, own: own, inotify: fd, closes: os.NewFile(uintptr(fd), "inotify"), open: make(map[fileID]file), watched: make(map[int32]*watched)}
	if err := f.makeReserve(); err != nil {
		f.remove()
		return nil, err
	}
	go f.watch()
	return f, nil
}

func (f *files) remove() {
	_ = f.closes.Close()
	_ = os.RemoveAll(f.dir)
	f.own.Close()
	f.reserve.Close()
}

func (f *files) makeReserve() error {
	own, theirs, err := f.memory()
	if err != nil {
		return err
	}
	theirs.Close()
	f.reserve = own
	f.reservedID, err = fileOf(int(own.Fd()))
	return err
}

func fileOf(fd int) (fileID, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	return fileID{st.Dev, st.Ino}, err
}

// dirPrefix begins the names of the directories of sandboxes.
const dirPrefix = "rdmalink-sandbox-"

// lockedDir creates a directory for a sandbox. It is locked until it is closed.
func lockedDir(parent string) (*os.File, error) {
	for {
		dir, err := os.MkdirTemp(parent, dirPrefix)
		if err != nil {
			return nil, err
		}
		f, err := lock(dir)
		if err != unix.EWOULDBLOCK && err != unix.ENOENT { // otherwise removeOld of another sandbox took it before
			return f, err
		}
	}
}

// lock locks a directory. It returns EWOULDBLOCK if it is locked, and ENOENT if it was removed meanwhile.
func lock(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	var locked, named unix.Stat_t
	if err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err == nil {
		if err = unix.Fstat(fd, &locked); err == nil {
			err = unix.Lstat(dir, &named)
		}
	}
	switch {
	case err == nil && (named.Ino != locked.Ino || named.Dev != locked.Dev):
		err = unix.ENOENT
	case err == nil && int(locked.Uid) != os.Geteuid():
		err = unix.EPERM
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), dir), nil
}

// removeOld removes the directories of this user's sandboxes that were killed.
func removeOld(parent string) {
	dirs, _ := filepath.Glob(filepath.Join(parent, dirPrefix+"*"))
	for _, dir := range dirs {
		if f, err := lock(dir); err == nil {
			_ = os.RemoveAll(dir)
			f.Close()
		}
	}
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
	if own, err = openRaw(path); err != nil {
		return nil, nil, err
	}
	// Later, because os.NewFile puts a file with O_NONBLOCK into Go's netpoller, which wakes a thread.
	if _, err := unix.FcntlInt(own.Fd(), unix.F_SETFL, unix.O_NONBLOCK); err != nil {
		own.Close()
		return nil, nil, os.NewSyscallError("fcntl(F_SETFL)", err)
	}
	if theirs, err = openRaw(path); err != nil {
		own.Close()
		return nil, nil, err
	}
	return own, theirs, nil
}

// openRaw keeps the file out of Go's netpoller.
func openRaw(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// add registers the object of a descriptor, before the process gets the descriptor.
func (f *files) add(theirs *os.File, is file) error {
	fd := int(theirs.Fd())
	id, err := fileOf(fd)
	if err != nil {
		return err
	}
	if err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, descriptionLock()); err != nil {
		return os.NewSyscallError("fcntl(F_OFD_SETLK)", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	w, err := unix.InotifyAddWatch(f.inotify, fmt.Sprintf("/proc/self/fd/%d", fd), unix.IN_CLOSE)
	if err != nil {
		return os.NewSyscallError("inotify_add_watch", err)
	}
	f.open[id], f.watched[int32(w)] = is, &watched{id: id}
	return nil
}

// descriptionLock returns a lock behind the bytes that a program may lock.
func descriptionLock() *unix.Flock_t {
	return &unix.Flock_t{Type: unix.F_WRLCK, Start: math.MaxInt64 - 1, Len: 1}
}

// isLocked reports whether the process's description of a file is open. own is another description of the file.
func isLocked(own *os.File) bool {
	lock := descriptionLock()
	return unix.FcntlFlock(own.Fd(), unix.F_OFD_GETLK, lock) == nil && lock.Type != unix.F_UNLCK
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
	if !ok || !strings.HasPrefix(m.Path, f.dir+"/") {
		return nil, 0, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, is := range f.open {
		if id.ino == m.Inode {
			return is, int64(addr-m.From) + m.Offset, true
		}
	}
	return nil, 0, false
}

// watch closes files whose description was closed.
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

// closed handles the close of a description of a file, which may not be the process's. The kernel reports a close
// shortly before it drops the lock, so as long as the lock is there closed looks again, in longer and
// longer intervals.
func (f *files) closed(watch int32) {
	f.mu.Lock()
	w := f.watched[watch]
	if w == nil || w.looking {
		f.mu.Unlock()
		return
	}
	w.looking = true
	f.mu.Unlock()
	f.look(watch, w, time.Millisecond)
}

func (f *files) look(watch int32, w *watched, again time.Duration) {
	f.mu.Lock()
	is := f.open[w.id]
	if isLocked(is.descriptor()) {
		f.mu.Unlock()
		time.AfterFunc(again, func() { f.look(watch, w, min(2*again, time.Second)) })
		return
	}
	delete(f.watched, watch)
	delete(f.open, w.id)
	_, _ = unix.InotifyRmWatch(f.inotify, uint32(watch))
	f.mu.Unlock()
	is.close()
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

// longest is as much as one write may carry: more than any command, and than subnet administration's
// answer about 48 k LIDs.
const longest = 16 << 20

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

// ftruncate and fallocate fail as they do for the files that ours stand for. Otherwise the process could cut off pages
// that are mapped here.
func (c *call) ftruncate() result { return c.refuse(syscall.EINVAL) }
func (c *call) fallocate() result { return c.refuse(syscall.ENODEV) }

func (c *call) refuse(errno syscall.Errno) result {
	if _, ok := find[file](c, c.fd(0)); !ok {
		return resume
	}
	return result{errno: errno}
}

// dup gives the copy a number whose calls the supervisor sees.
func (c *call) dup() result {
	if _, ok := find[file](c, c.fd(0)); !ok {
		return resume
	}
	return c.copy(c.fd(0), c.Nr == unix.SYS_FCNTL && c.Args[1] == unix.F_DUPFD_CLOEXEC)
}

// dupLow refuses to copy a file to a number whose calls the supervisor does not see: the kernel would carry them out,
// and they would seem to succeed. Processes read events by themselves.
func (c *call) dupLow() result {
	f, ok := find[file](c, c.fd(0))
	if _, events := f.(*events); !ok || events {
		return resume
	}
	return result{errno: syscall.EOPNOTSUPP}
}

// reopen answers a call that opens one of the process's own descriptors by a path in /proc or /dev, if it is of a
// file of the sandbox: the process gets a copy. isOne is false if the path is another.
func (c *call) reopen(arg, flags int) (r result, isOne bool) {
	path, err := c.text(c.Args[arg])
	if err != nil || flags&unix.O_PATH != 0 {
		return r, false
	}
	dir, name := filepath.Split(path)
	number, err := strconv.ParseInt(name, 10, 32)
	if err != nil {
		return r, false
	}
	switch dir {
	case "/proc/self/fd/", "/proc/thread-self/fd/", "/dev/fd/", fmt.Sprintf("/proc/%d/fd/", c.leader()):
	default:
		return r, false
	}
	if _, ok := find[file](c, int32(number)); !ok {
		return r, false
	}
	return c.copy(int32(number), flags&unix.O_CLOEXEC != 0), true
}

// copy gives the process another descriptor of a file.
func (c *call) copy(fd int32, closeOnExec bool) result {
	pidfd, err := unix.PidfdOpen(c.leader(), 0)
	if err != nil {
		return failed(err)
	}
	defer unix.Close(pidfd)
	if !c.waits() {
		return result{errno: syscall.ESRCH} // the number may be another's by now
	}
	own, err := unix.PidfdGetfd(pidfd, int(fd), 0)
	if err != nil {
		return failed(err)
	}
	defer unix.Close(own)
	return done(c.giveOurs(own, closeOnExec))
}
