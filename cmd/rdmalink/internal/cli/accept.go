package cli

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// AcceptAll serves connections side by side until ctx is over, and then waits until all are
// served. It closes the listener. complain is told of errors that pass.
func AcceptAll(ctx context.Context, l net.Listener, serve func(net.Conn), complain func(error)) error {
	defer context.AfterFunc(ctx, func() { l.Close() })()
	defer l.Close()
	var all sync.WaitGroup
	defer all.Wait()
	for {
		conn, err := l.Accept()
		switch {
		case err == nil:
			all.Go(func() { serve(conn) })
		case ctx.Err() != nil:
			return nil
		case temporary(err):
			complain(err)
			pause(ctx)
		default:
			return err
		}
	}
}

// temporary tells of errors after which a listener goes on, for want of descriptors.
func temporary(err error) bool {
	var e interface{ Temporary() bool }
	return errors.As(err, &e) && e.Temporary()
}

// pause gives this machine time to have again what it ran out of.
func pause(ctx context.Context) {
	select {
	case <-time.After(100 * time.Millisecond):
	case <-ctx.Done():
	}
}
