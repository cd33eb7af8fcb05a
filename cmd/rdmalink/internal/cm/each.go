package cm

import (
	"context"
	"errors"
	"sync"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/peer"
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
	return peer.Interrupted(context.Cause(ctx))
}
