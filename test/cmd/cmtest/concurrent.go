package main

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
)

// closeAll closes connections concurrently, because closing mostly waits for the kernel.
func closeAll(conns []*conn) error {
	errs := make([]error, len(conns))
	var all sync.WaitGroup
	for i, n := range conns {
		if n != nil {
			all.Go(func() { errs[i] = n.close() })
		}
	}
	all.Wait()
	return errors.Join(errs...)
}

// each calls do for 0 to n-1, all at the same time. It returns the first error, and ends
// ctx for the others then.
func each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if err := do(ctx, i); err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// closers are objects that go in the opposite order of their making.
type closers []io.Closer

func (c *closers) add(one io.Closer) { *c = append(*c, one) }

func (c *closers) close() (err error) {
	for i := len(*c) - 1; i >= 0; i-- {
		err = errors.Join(err, (*c)[i].Close())
	}
	*c = nil
	return err
}

// countdown signals when the last of a number of operations is done.
type countdown struct {
	left atomic.Int64
	zero chan struct{} // closed then
}

func newCountdown(n int) *countdown {
	c := &countdown{zero: make(chan struct{})}
	c.left.Store(int64(n))
	return c
}

func (c *countdown) down() {
	if c.left.Add(-1) == 0 {
		close(c.zero)
	}
}
