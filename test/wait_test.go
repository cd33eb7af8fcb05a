//go:build vm

package test

import (
	"testing"
	"time"
)

// patience guards against a hang. What it waits for takes milliseconds, on a busy
// machine seconds.
const patience = 2 * time.Minute

// aChance is how long C's programs have where they hang now and then, by their own
// fault or the kernel's, and get another chance. It can't make a test fail.
const aChance = 30 * time.Second

// eventually asks until a condition holds, or patience is over.
func eventually(holds func() bool) bool { return inTime(patience, holds) }

func inTime(limit time.Duration, holds func() bool) bool {
	for start := time.Now(); time.Since(start) < limit; time.Sleep(5 * time.Millisecond) {
		if holds() {
			return true
		}
	}
	return holds()
}

// until waits for what the kernel, or another process, does in its own time.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	if !eventually(holds) {
		t.Fatalf("not %s after %v", what, patience)
	}
}
