package rtnetlink

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
)

// TestUntilWhole checks that a list that changed while the kernel wrote it is requested again,
// that other errors are returned at once, and that a list that never settles ends in the error.
func TestUntilWhole(t *testing.T) {
	interrupted := fmt.Errorf("interrupted: %w", syscall.EINTR)
	other := errors.New("other")
	for _, c := range []struct {
		answers []error
		calls   int
		want    error
	}{
		{[]error{nil}, 1, nil},
		{[]error{interrupted, interrupted, nil}, 3, nil},
		{[]error{interrupted, other}, 2, other},
		{[]error{interrupted}, wholeTries, interrupted},
	} {
		calls := 0
		got, err := UntilWhole(func() (int, error) {
			answer := c.answers[min(calls, len(c.answers)-1)]
			calls++
			return calls, answer
		})
		if calls != c.calls || err != c.want || err == nil && got != calls {
			t.Errorf("%v: %d calls, want %d; error %v, want %v", c.answers, calls, c.calls, err, c.want)
		}
	}
}
