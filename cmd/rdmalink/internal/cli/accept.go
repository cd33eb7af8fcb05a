package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

// AcceptAll serves connections concurrently, up to most at a time, until ctx is done or
// the listener fails. It then closes the listener, cancels the context that serve got, and
// returns once every serve has returned.
//
// At the limit no further connection is accepted, so clients wait. A connection from an
// address that already has its share of the places ([Places]) is closed. complain is called
// with errors that the user should see at once: temporary errors, a limit that was reached,
// and the end of connections because the listener failed.
func AcceptAll(ctx context.Context, l net.Listener, most int, serve func(context.Context, net.Conn), complain func(error)) error {
	serving, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer stop() // before the wait: an idle client must not delay the end
	defer l.Close()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	places := NewPlaces(most)
	var full, crowded minutely
	for {
		select {
		case places.taken <- struct{}{}:
		default:
			if full.passed() {
				complain(fmt.Errorf("serving %d connections, the limit: other clients wait", most))
			}
			select {
			case places.taken <- struct{}{}:
			case <-ctx.Done():
				return nil
			}
		}
		conn, err := l.Accept()
		if err == nil {
			from := addressOf(conn)
			if err := places.assign(from); err != nil {
				_ = conn.Close()
				if crowded.passed() {
					complain(fmt.Errorf("%v: refused: %w", conn.RemoteAddr(), err))
				}
				continue
			}
			all.Go(func() {
				defer places.Leave(from)
				serve(serving, conn)
			})
			continue
		}
		<-places.taken
		switch {
		case ctx.Err() != nil:
			return nil
		case temporary(err):
			complain(err)
			if scarce(err) {
				pause(ctx)
			}
		default:
			if n := len(places.taken); n > 0 {
				complain(fmt.Errorf("the listener failed, which ends %d connections: %w", n, err))
			}
			return err
		}
	}
}

// minutely limits a complaint to one a minute.
type minutely struct{ last time.Time }

// passed reports whether the last complaint is a minute old. If so, it starts the next minute.
func (g *minutely) passed() bool {
	if time.Since(g.last) < time.Minute {
		return false
	}
	g.last = time.Now()
	return true
}

// addressOf returns the address of a connection's peer. It is not valid for networks without IP addresses.
func addressOf(conn net.Conn) netip.Addr {
	if a, ok := conn.RemoteAddr().(interface{ AddrPort() netip.AddrPort }); ok {
		return a.AddrPort().Addr()
	}
	return netip.Addr{}
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
