package rdmacm

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// interrupter gets a thread out of the system call it waits in.
type interrupter func()

// interruptSignal is one that the kernel ignores by default and the Go runtime
// unless somebody asked for it.
const interruptSignal = unix.SIGWINCH

// interruptible ties the calling goroutine to its thread until done, and keeps
// all other signals off it, above all those by which the Go runtime preempts:
// siw's CONNECT answers a signal by closing its TCP connection and beginning
// again, and to be closed so early can kill the listener in the peer's siw.
func interruptible() (interrupt interrupter, done func()) {
	runtime.LockOSThread()
	pid, tid := os.Getpid(), unix.Gettid()
	restore := blockSignals()
	done = func() {
		restore()
		runtime.UnlockOSThread()
	}
	return func() { _ = unix.Tgkill(pid, tid, interruptSignal) }, done
}

// unblocked stay as they are: besides the interrupting signal what a fault of the
// thread itself raises. So do those from 32 on, by which the Go runtime and libc
// run a setuid on every thread.
var unblocked = []unix.Signal{interruptSignal, unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGILL, unix.SIGTRAP}

func blockSignals() (restore func()) {
	var set, old unix.Sigset_t
	set.Val[0] = 1<<31 - 1
	for _, sig := range unblocked {
		set.Val[0] &^= 1 << (sig - 1)
	}
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &set, &old); err != nil {
		return func() {}
	}
	return func() { _ = unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil) }
}
