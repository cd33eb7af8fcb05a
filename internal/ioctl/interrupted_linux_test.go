package ioctl

import (
	"syscall"
	"testing"
)

// interrupted is a call that signals interrupt three times before it ends with err.
func interrupted(calls *int, err syscall.Errno) syscall.Errno {
	if *calls++; *calls <= 3 {
		return syscall.EINTR
	}
	return err
}

// A call that a signal interrupts is issued again, and only then.
func TestInterrupted(t *testing.T) {
	for _, want := range []syscall.Errno{0, syscall.EINVAL} {
		calls := 0
		err := repeat(func() syscall.Errno { return interrupted(&calls, want) })
		if calls != 4 || want == 0 && err != nil || want != 0 && err != want {
			t.Errorf("%d calls, %v, want %v", calls, err, want)
		}
	}
}
