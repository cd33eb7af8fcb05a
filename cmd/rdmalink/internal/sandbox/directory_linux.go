package sandbox

import (
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// chdir leads a process into a directory that the sandbox shows, or out of one. The current directory is the kernel's,
// and children inherit it, so the process has to make a call itself.
func (c *call) chdir() result {
	path, ok := c.path(unix.AT_FDCWD, 0)
	if !ok || !canTrap {
		return resume
	}
	fd, err := unix.Open(c.behind(path), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return failed(err)
	}
	go func() {
		defer unix.Close(fd)
		runtime.LockOSThread() // only the tracer may give orders
		defer runtime.UnlockOSThread()
		c.enter(fd)
	}()
	return result{later: true}
}

// enter answers a call, and has the caller call fchdir(2) in its place. The caller is traced for as long as that takes.
func (c *call) enter(fd int) {
	thread := c.id
	if err := seize(thread, unix.PTRACE_O_TRACESYSGOOD); err != nil {
		c.answer(failed(err))
		return
	}
	n, err := c.give(fd, true)
	_ = order(unix.PTRACE_INTERRUPT, thread, 0)
	c.answer(done(0, err)) // before Linux 5.19 the interruption has ended the call already
	stop, ended := stopOf(thread)
	var signal syscall.Signal
	switch {
	case ended != nil:
	case stop>>16 != unix.PTRACE_EVENT_STOP: // before Linux 5.19 a signal comes first, after which the call is made again
		signal = stop.StopSignal()
	case err == nil:
		callFchdir(thread, n)
	}
	for ended == nil && order(unix.PTRACE_DETACH, thread, uintptr(signal)) != nil {
		_, ended = stopOf(thread) // it is being killed, and nobody else can wait for its end
	}
}

// callFchdir makes a stopped thread call fchdir(2) with a descriptor, and close it.
func callFchdir(thread, fd int) {
	mask, err := signalMask(thread)
	if err != nil {
		return
	}
	_ = setSignalMask(thread, ^uint64(0))
	_ = callInstead(thread, []int{unix.SYS_FCHDIR, unix.SYS_CLOSE}, fd, func() error {
		var signal syscall.Signal
		for {
			if err := order(unix.PTRACE_SYSCALL, thread, uintptr(signal)); err != nil {
				return err
			}
			s, err := stopOf(thread)
			if err != nil || s.StopSignal() == unix.SIGTRAP|0x80 {
				return err
			}
			// SIGSTOP can't be blocked. The thread makes its calls nevertheless, and stops once it has no tracer.
			signal = 0
			if s>>16 == 0 {
				signal = s.StopSignal()
			}
		}
	})
	_ = setSignalMask(thread, mask)
}

// stopOf waits until a traced thread stops. It is an error if the thread ends.
func stopOf(thread int) (s unix.WaitStatus, err error) {
	for {
		_, err = unix.Wait4(thread, &s, unix.WALL, nil)
		switch {
		case err == unix.EINTR:
		case err == nil && !s.Stopped():
			return s, unix.ESRCH
		default:
			return s, err
		}
	}
}

// getcwd names a directory as the sandbox shows it.
func (c *call) getcwd() result {
	path, ours := c.shownAt(c.directory("cwd"))
	switch {
	case !ours:
		return resume
	case uint64(len(path)) >= c.Args[1]:
		return result{errno: syscall.ERANGE}
	}
	return done(len(path)+1, c.write(c.Args[0], append([]byte(path), 0)))
}

// shownAt returns the path at which the sandbox shows a directory, if it is one of the sandbox's own.
func (c *call) shownAt(dir string) (path string, ours bool) {
	below, ours := strings.CutPrefix(dir, c.files.dir+"/")
	if !ours {
		return dir, false
	}
	_, path, _ = strings.Cut(below, "/") // behind the host's directory
	return filepath.Clean("/" + path), true
}
