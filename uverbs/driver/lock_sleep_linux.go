package driver

import (
	"time"

	"golang.org/x/sys/unix"
)

// sleep may be cut short by a signal.
func sleep(d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&ts, nil)
}
