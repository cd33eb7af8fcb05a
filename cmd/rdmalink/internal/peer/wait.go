// Package peer has the common parts of commands that move data between two ends:
// finding the peer, the device and the GID, and waiting.
package peer

import (
	"context"
	"errors"
	"runtime"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

var ErrInterrupted = errors.New("interrupted")

// Interrupted puts a word for users where a cancelled context is the cause.
func Interrupted(err error) error {
	if errors.Is(err, context.Canceled) {
		return ErrInterrupted
	}
	return err
}

// Poll polls until it gets a completion or ctx ends.
func Poll(ctx context.Context, cq *uverbs.CQ, wcs []verbs.WC) (int, error) {
	for {
		if n, err := cq.Poll(wcs); n > 0 || err != nil {
			return n, err
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		runtime.Gosched()
	}
}
