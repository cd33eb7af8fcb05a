package rdmacm

import (
	"context"
	"time"
)

// connect is Connect, but returns when ctx ends. On iWARP the kernel makes the
// TCP connection within the call, for two minutes if nobody answers, and the
// Go runtime has interrupted calls begin anew. So the ID is destroyed under the
// call: once interrupted, there is nothing left for it to begin with.
func (id *ID) connect(ctx context.Context, p *ConnParam) error {
	thread := make(chan interrupter, 1)
	result := make(chan error, 1)
	go func() {
		interrupt, done := interruptible()
		defer done()
		thread <- interrupt
		result <- id.Connect(p)
	}()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
	}
	go id.Destroy()
	for interrupt := <-thread; ; interrupt() {
		select {
		case <-result:
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}
