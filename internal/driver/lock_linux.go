package driver

import (
	"syscall"
	"time"
)

// sleep blocks the thread. It uses the machine's time even in a test with fake time.
func sleep(d time.Duration) {
	ts := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&ts, nil) // the caller checks again, even if sleep returns early
}
