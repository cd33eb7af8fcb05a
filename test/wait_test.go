//go:build vm

package test

import (
	"testing"
	"time"
)

// patience guards against a hang. The events take milliseconds, on a busy
// machine seconds.
const patience = 2 * time.Minute

// aChance is the time limit of C's programs where they hang now and then, by their own
// fault or the kernel's, and are run again. It can't make a test fail.
const aChance = 30 * time.Second

// eventually polls until a condition holds or patience is over.
func eventually(holds func() bool) bool { return inTime(patience, holds) }

func inTime(limit time.Duration, holds func() bool) bool {
	for start := time.Now(); time.Since(start) < limit; time.Sleep(5 * time.Millisecond) {
		if holds() {
			return true
		}
	}
	return holds()
}

// until waits for a change by the kernel or another process.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	if !eventually(holds) {
		t.Fatalf("not %s after %v", what, patience)
	}
}
