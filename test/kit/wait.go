//go:build vm

package kit

import (
	"bytes"
	"context"
	"errors"
	"regexp"
	"runtime"
	"testing"
	"time"
)

// goroutineWaits matches the stack of a goroutine that waits.
var goroutineWaits = regexp.MustCompile(`^goroutine \d+ \[(IO wait|select|chan receive|syscall)`)

// Parked reports whether a goroutine waits in a function.
func Parked(function string) bool {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for stack := range bytes.SplitSeq(stacks, []byte("\n\n")) {
		if bytes.Contains(stack, []byte(function)) && goroutineWaits.Match(stack) {
			return true
		}
	}
	return false
}

// Cancelled checks that a call, waiting in this function, ends with its context. The kernel
// may answer before the cancellation, but not each time.
func Cancelled(t *testing.T, name, function string, wait func(context.Context) error) {
	t.Helper()
	var err error
	for range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- wait(ctx) }()
		Until(t, "waiting", func() bool { return Parked(function) || len(ended) > 0 })
		cancel()
		if err = <-ended; errors.Is(err, context.Canceled) {
			return
		}
	}
	t.Errorf("%s: %v", name, err)
}

// Patience guards against a hang. The events take milliseconds, on a busy
// machine seconds.
const Patience = 2 * time.Minute

// RetryTimeout is the time limit of C's programs where they hang now and then, by their own
// fault or the kernel's, and are run again. It can't make a test fail.
const RetryTimeout = 30 * time.Second

// Eventually polls until a condition holds or patience is over.
func Eventually(holds func() bool) bool { return InTime(Patience, holds) }

// InTime polls until a condition holds or the limit is over.
func InTime(limit time.Duration, holds func() bool) bool {
	for start := time.Now(); time.Since(start) < limit; time.Sleep(5 * time.Millisecond) {
		if holds() {
			return true
		}
	}
	return holds()
}

// Until waits for a change by the kernel or another process.
func Until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	if !Eventually(holds) {
		t.Fatalf("not %s after %v", what, Patience)
	}
}
