package oob

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"

	"github.com/goverbs/goverbs/internal/dialer"
)

// Listener accepts connections over the streams of a net.Listener. Its methods may be called concurrently.
type Listener struct {
	streams net.Listener
	cfg     *Config
	ready   chan outcome    // of attempts
	ctx     context.Context // its cause is why the listener has ended
	stop    context.CancelCauseFunc
	all     sync.WaitGroup // of attempts, and of run

	mu      sync.Mutex // guards the fields below
	pending []*attempted
	refused int // streams that receive a refusal because the backlog is full
}

// MaxPending is how many connections a [Listener] sets up at a time. Those that wait for Accept count, too.
const MaxPending = 128

// attempted is an attempt of a Listener.
type attempted struct {
	cancel context.CancelCauseFunc
	conn   *Conn // waits for Accept; nil before
}

type outcome struct {
	c   *Conn
	err error
}

// Listen accepts streams from l, and sets up connections over them, [MaxPending] at a time. If there are more, the
// oldest one that is not connected yet is dropped. So silent peers do not keep others out. If all are
// connected and wait for Accept, the newest is refused. The Listener owns l.
func Listen(l net.Listener, cfg *Config) (*Listener, error) {
	if l == nil {
		return nil, failed("listen", "", "", fmt.Errorf("the net.Listener is nil: %w", syscall.EINVAL))
	}
	if err := cfg.Check(); err != nil {
		return nil, failed("listen", "", "", errors.Join(err, l.Close()))
	}
	ln := &Listener{streams: l, ready: make(chan outcome)}
	own := *cfg
	ln.cfg = &own
	ln.ctx, ln.stop = context.WithCancelCause(context.Background())
	ln.all.Go(ln.run)
	return ln, nil
}

// run accepts streams.
func (l *Listener) run() {
	for {
		s, err := l.streams.Accept()
		if err == nil {
			l.begin(s)
			continue
		}
		if !dialer.GoesOn(l.ctx, err) {
			l.stop(fmt.Errorf("%w: %w", net.ErrClosed, err))
			return
		}
	}
}

// begin starts an attempt over a stream. Another one may have to make room for it.
func (l *Listener) begin(s net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pending) == MaxPending && !l.dropOldest() {
		l.refuse(s)
		return
	}
	ctx, cancel := context.WithCancelCause(l.ctx)
	a := &attempted{cancel: cancel}
	l.pending = append(l.pending, a)
	l.all.Go(func() {
		l.deliver(ctx, l.accept(ctx, s, a))
		cancel(nil)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.remove(a)
	})
}

// dropOldest drops the oldest attempt that is no connection, and reports whether there is one. l.mu is held.
func (l *Listener) dropOldest() bool {
	for _, a := range l.pending {
		if a.conn == nil {
			a.cancel(ErrBusy)
			l.remove(a)
			return true
		}
	}
	return false
}

// refuse closes a stream, and says why unless there are too many. l.mu is held.
func (l *Listener) refuse(s net.Conn) {
	if l.refused == MaxPending {
		_ = s.Close()
		return
	}
	l.refused++
	l.all.Go(func() {
		refused := newStream(s)
		refused.leave(&frame{kind: kindRefuse, reason: ErrBusy.Error()})
		<-refused.ended
		l.mu.Lock()
		defer l.mu.Unlock()
		l.refused--
	})
}

// remove removes an attempt, unless it has been dropped. l.mu is held.
func (l *Listener) remove(a *attempted) {
	l.pending = slices.DeleteFunc(l.pending, func(other *attempted) bool { return other == a })
}

func (l *Listener) accept(ctx context.Context, s net.Conn, a *attempted) outcome {
	from := s.RemoteAddr()
	c, err := Accept(ctx, s, l.cfg)
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		a.conn = c
		return outcome{c: c}
	}
	if cause := context.Cause(ctx); cause == ErrBusy {
		err = cause
	}
	return outcome{err: failed("accept", fmt.Sprintf("connection from %v", from), "", dialer.Temporary{Err: err})}
}

// deliver waits for Accept, also with a connection that the peer has closed, because it may have received data. The
// end of the listener ends the wait.
func (l *Listener) deliver(ctx context.Context, o outcome) {
	select {
	case l.ready <- o:
	case <-ctx.Done():
		if o.c != nil {
			_ = o.c.Close()
		}
	}
}

// Accept waits for a connection. The peer may have closed it already. As over TCP, what the peer has sent before can
// still be received: RecvCQ has it. An error that is temporary ([verbs.Error.Temporary]) concerns one peer, and the
// listener continues to accept others. After an error that matches net.ErrClosed it does not. Any other error is caused
// by ctx.
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	select {
	case o := <-l.ready:
		return o.c, o.err
	case <-l.ctx.Done():
		return nil, failed("accept", l.object(), "", context.Cause(l.ctx))
	case <-ctx.Done():
		return nil, failed("accept", l.object(), "", ctx.Err())
	}
}

func (l *Listener) object() string { return "listener at " + l.Addr().String() }

// Addr returns the address of the net.Listener.
func (l *Listener) Addr() net.Addr { return l.streams.Addr() }

// Close stops listening, closes the connections that wait for Accept, and waits until nothing is left of those
// that are being set up. Accepted connections stay open. A second Close returns an error that matches net.ErrClosed.
func (l *Listener) Close() error {
	if l == nil {
		return failed("close", "listener", "", os.ErrInvalid)
	}
	again := l.ctx.Err() != nil
	err := l.streams.Close()
	l.stop(net.ErrClosed)
	l.all.Wait()
	if again {
		err = net.ErrClosed
	}
	return failed("close", l.object(), "", err)
}

// Format implements [fmt.Formatter]. It prints the address.
func (l *Listener) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "oob listener at %v", l.Addr()) }
