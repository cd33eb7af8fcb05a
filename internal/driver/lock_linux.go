package driver

import (
	"syscall"
	"time"
)

// sleep blocks the thread. Its time is that of the machine, also where a test has its own.
func sleep(d time.Duration) {
	ts := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&ts, nil) // the caller looks again, however early it wakes
}
