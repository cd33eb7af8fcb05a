package rdmacm

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// interrupter gets a thread out of the system call it waits in.
type interrupter func()

// interruptible ties the calling goroutine to its thread until done. The signal
// is the one by which the Go runtime itself interrupts threads, so it does no
// harm when the thread has gone on to other work.
func interruptible() (interrupt interrupter, done func()) {
	runtime.LockOSThread()
	pid, tid := os.Getpid(), unix.Gettid()
	return func() { _ = unix.Tgkill(pid, tid, unix.SIGURG) }, runtime.UnlockOSThread
}
