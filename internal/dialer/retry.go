package dialer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"
)

// Patience is how often Retry repeats a dial that failed.
type Patience int

const (
	// Never is for errors that would occur again.
	Never Patience = iota
	// Briefly is for errors that may be of a peer that is busy, or may be final.
	Briefly
	// Patiently is for a peer that asks to try again.
	Patiently
	// Always is for a program that waits for its peer.
	Always
)

// OfError returns the patience for an error of package rdmacm, which sets it.
var OfError func(error) Patience

const (
	// mostBriefly is how many dials fail before Retry gives up Briefly, after a third of a second.
	mostBriefly = 6
	// mostPatiently is how long Retry goes on Patiently without a deadline, from the peer's first answer on: a dial may
	// have waited long for its turn before.
	mostPatiently = 10 * time.Second

	firstPause, longestPause = 10 * time.Millisecond, time.Second
)

type retrying struct{}

// Retry dials until it succeeds or fails for good. It pauses between two dials, for twice as long each
// time and with jitter. If ctx ends in a pause, the error matches ctx.Err() and that of the last dial. Of
// nested calls only the outermost repeats its dial.
func Retry[T any](ctx context.Context, patience func(error) Patience, dial func(context.Context) (T, error)) (T, error) {
	if ctx.Value(retrying{}) != nil {
		return dial(ctx)
	}
	return RetryIn(ctx, new(Series), patience, dial)
}

// Series counts dials that do not lead to success. The pauses grow with each. The zero value has none.
type Series struct {
	dials int
	due   time.Time // the next dial
	last  error     // of the last dial; nil if it succeeded
}

// RetryIn is Retry as a part of a series that several calls make, one after the other.
func RetryIn[T any](ctx context.Context, s *Series, patience func(error) Patience, dial func(context.Context) (T, error)) (none T, _ error) {
	own := context.WithValue(ctx, retrying{}, true)
	var asked time.Time // when the peer first asked to try again
	for n := 1; ; n++ {
		if ended := sleepUntil(ctx, s.due); ended != nil {
			return none, s.explain(ended)
		}
		c, err := dial(own)
		if err != nil && ctx.Err() != nil {
			return c, s.explain(err)
		}
		s.dialled(err)
		if err == nil {
			return c, nil
		}
		_, limited := ctx.Deadline()
		switch patience(err) {
		case Never:
			return c, err
		case Briefly:
			if n == mostBriefly {
				return c, err
			}
		case Patiently:
			if asked.IsZero() {
				asked = time.Now()
			}
			if !limited && time.Since(asked) > mostPatiently {
				return c, err
			}
		}
	}
}

// dialled notes a dial, and chooses the time of the next.
func (s *Series) dialled(err error) {
	s.last = err
	pause := min(firstPause<<min(s.dials, 16), longestPause)
	s.dials++
	s.due = time.Now().Add(pause/2 + rand.N(pause/2))
}

// explain adds the error of the last dial to one that means that a context has ended.
func (s *Series) explain(err error) error {
	if s.last == nil {
		return err
	}
	return fmt.Errorf("%w (attempt %d failed: %w)", err, s.dials, s.last)
}

func sleepUntil(ctx context.Context, due time.Time) error {
	d := time.Until(due)
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ErrOption is syscall.EINVAL for an option of a dial or of its connection. The same dial would fail again.
var ErrOption error = optionError{}

type optionError struct{}

func (optionError) Error() string { return syscall.EINVAL.Error() }
func (optionError) Unwrap() error { return syscall.EINVAL }
