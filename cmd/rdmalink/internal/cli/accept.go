package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"
)

// AcceptAll serves connections concurrently, at most most at a time, until ctx is done or
// the listener fails. It then closes the listener, cancels the context that serve got, and
// returns once every serve has returned.
//
// While the limit is reached, no further connection is accepted: clients wait. complain is
// called with errors that the user should see at once: temporary errors, the limit, and
// that a failed listener ends connections.
func AcceptAll(ctx context.Context, l net.Listener, most int, serve func(context.Context, net.Conn), complain func(error)) error {
	serving, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer stop() // before the wait: an idle client must not delay the end
	defer l.Close()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	slots := make(chan struct{}, most)
	var full time.Time // when that was last said
	for {
		select {
		case slots <- struct{}{}:
		default:
			if time.Since(full) >= time.Minute {
				full = time.Now()
				complain(fmt.Errorf("serving %d connections, the limit: other clients wait", most))
			}
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return nil
			}
		}
		conn, err := l.Accept()
		if err == nil {
			all.Go(func() {
				defer func() { <-slots }()
				serve(serving, conn)
			})
			continue
		}
		<-slots
		switch {
		case ctx.Err() != nil:
			return nil
		case temporary(err):
			complain(err)
			if scarce(err) {
				pause(ctx)
			}
		default:
			if n := len(slots); n > 0 {
				complain(fmt.Errorf("the listener failed, which ends %d connections: %w", n, err))
			}
			return err
		}
	}
}

// temporary reports whether the listener continues after the error: it concerned one
// client, or a resource was exhausted.
func temporary(err error) bool {
	var e interface{ Temporary() bool }
	return errors.As(err, &e) && e.Temporary()
}

// scarce reports whether this machine has run out of something. After other errors the next
// client is accepted at once, so that one whose handshakes fail can't hold up the rest.
func scarce(err error) bool {
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS, syscall.EAGAIN} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// pause waits for resources of this machine to become available again.
func pause(ctx context.Context) {
	select {
	case <-time.After(100 * time.Millisecond):
	case <-ctx.Done():
	}
}
