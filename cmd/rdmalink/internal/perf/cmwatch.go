package perf

import (
	"context"

	"github.com/goverbs/goverbs/internal/farewell"
)

// Leave tells the peer why this end gives up, if the peer is still there.
func (w *CM) Leave(why error) {
	if farewell.Is(why) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), wordLimit)
	defer cancel()
	if w.listener != nil && w.control.awaitFirst(ctx) != nil {
		return // the peer is gone, or it never speaks
	}
	_ = w.control.Send(ctx, farewell.Message(why))
}

// watch calls heard when the peer gives up or goes away, until the returned
// function is called.
func (w *CM) watch(heard func(error)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := w.control.listen(ctx); ctx.Err() == nil {
			heard(err)
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}
