//go:build linux

package rig

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	bootTimeout = 5 * time.Minute
	lastWords   = 3 * time.Minute // for a guest to show stacks and to report its own timeout
)

// watchdog ends a guest that does not come up, or hangs so that it cannot end
// its command by itself.
type watchdog struct {
	timer *time.Timer
	run   time.Duration
	bark  func(phase string, d time.Duration)
}

func newWatchdog(run time.Duration, cancel context.CancelCauseFunc) *watchdog {
	w := &watchdog{run: run + lastWords}
	w.bark = func(phase string, d time.Duration) { cancel(fmt.Errorf("the guest %s within %s", phase, d)) }
	w.timer = time.AfterFunc(bootTimeout, func() { w.bark("did not boot", bootTimeout) })
	return w
}

// ready ends the time to boot and begins the command's.
func (w *watchdog) ready() {
	w.timer.Stop()
	w.timer = time.AfterFunc(w.run, func() { w.bark("hung: it ended no command", w.run) })
}

func (w *watchdog) stop() { w.timer.Stop() }

// lockedWriter takes the emulator's messages and the guest's.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
