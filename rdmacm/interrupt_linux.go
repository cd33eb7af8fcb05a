package rdmacm

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// interrupter interrupts the system call that a thread waits in.
type interrupter func()

// interruptSignal is ignored by the kernel by default, and by the Go runtime unless the program subscribed
// to it.
const interruptSignal = unix.SIGWINCH

// interruptible locks the calling goroutine to its thread until done is called. It also blocks all other
// signals, most importantly those that the Go runtime uses for preemption. Upon a signal, siw's CONNECT
// closes its TCP connection and starts again, and such an early close can end the listener in the peer's
// siw.
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

// unblocked has the signals that are not blocked: the interrupting signal and those that a fault of the
// thread raises. Signals from 32 on are not blocked either, because the Go runtime and libc use them to
// run setuid on all threads.
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
