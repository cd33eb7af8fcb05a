package main

import (
	"context"
	"errors"
	"runtime"

	"github.com/goverbs/goverbs/uverbs"
)

var errInterrupted = errors.New("interrupted")

// interrupted puts a word for users where a cancelled context is the cause.
func interrupted(err error) error {
	if errors.Is(err, context.Canceled) {
		return errInterrupted
	}
	return err
}

// pollCQ polls until there is a completion or ctx ends.
func pollCQ(ctx context.Context, cq *uverbs.CQ, wcs []uverbs.WC) (int, error) {
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
