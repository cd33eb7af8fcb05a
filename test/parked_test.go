//go:build vm

package test

import (
	"bytes"
	"context"
	"errors"
	"regexp"
	"runtime"
	"testing"
)

// goroutineWaits is the head of a goroutine's stack that waits for something to
// happen.
var goroutineWaits = regexp.MustCompile(`^goroutine \d+ \[(IO wait|select|chan receive|syscall)`)

// parked reports whether a goroutine waits in a function.
func parked(function string) bool {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for stack := range bytes.SplitSeq(stacks, []byte("\n\n")) {
		if bytes.Contains(stack, []byte(function)) && goroutineWaits.Match(stack) {
			return true
		}
	}
	return false
}

// cancelled checks that a call, waiting in this function, ends with its context. The kernel
// may answer before the cancellation, but not each time.
func cancelled(t *testing.T, name, function string, wait func(context.Context) error) {
	t.Helper()
	var err error
	for range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- wait(ctx) }()
		until(t, "waiting", func() bool { return parked(function) || len(ended) > 0 })
		cancel()
		if err = <-ended; errors.Is(err, context.Canceled) {
			return
		}
	}
	t.Errorf("%s: %v", name, err)
}
