package netlinkrdma

import (
	"errors"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOwnerPID checks that the threads of this process belong to it, and that another
// process's thread does not.
func TestOwnerPID(t *testing.T) {
	tids, end := make(chan int), make(chan bool)
	for range 3 {
		go func() {
			runtime.LockOSThread()
			tids <- unix.Gettid()
			<-end
		}()
	}
	for range 3 {
		o := Owner{TID: uint32(<-tids)}
		if pid, err := o.PID(); err != nil || pid != os.Getpid() || !isOwnThread(o.TID) {
			t.Errorf("thread %d: process %d, %v; want %d", o.TID, pid, err, os.Getpid())
		}
	}
	close(end)
	parent := Owner{TID: uint32(os.Getppid())}
	if pid, err := parent.PID(); isOwnThread(parent.TID) || err == nil && pid != os.Getppid() {
		t.Errorf("the parent, %d: process %d, %v", parent.TID, pid, err)
	}
	for _, o := range []Owner{{TID: 1<<22 + 1}, {TID: 1<<32 - 1}, {}} { // larger than any
		if pid, err := o.PID(); pid != 0 || !errors.Is(err, ErrNoProcess) {
			t.Errorf("%+v: process %d, %v", o, pid, err)
		}
	}
}
