package perf

import (
	"context"

	"github.com/goverbs/goverbs/internal/farewell"
)

// Leave sends the peer the reason why this end fails, if the peer is still
// connected.
func (w *CM) Leave(why error) {
	if farewell.Is(why) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), wordLimit)
	defer cancel()
	if w.listener != nil && w.control.awaitFirst(ctx) != nil {
		return // the peer has left, or never sends
	}
	_ = w.control.Send(ctx, farewell.Message(why))
}

// watch calls heard when the peer fails or leaves, until the returned function is
// called.
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
