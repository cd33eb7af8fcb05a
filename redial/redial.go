// Package redial connects to servers that come and go. It dials until a server answers, with pauses that grow
// and are random, and makes another connection when one has broken. The connections are those of packages msg, rsocket
// and valkeyrdma.
//
// The shortest whole program sends questions to a server, and survives that server's restarts:
//
//	package main
//
//	import (
//		"context"
//		"errors"
//		"fmt"
//		"log"
//		"time"
//
//		"github.com/goverbs/goverbs/msg"
//		_ "github.com/goverbs/goverbs/provider/all"
//		"github.com/goverbs/goverbs/redial"
//	)
//
//	func main() {
//		server := redial.New(func(ctx context.Context) (*msg.Conn, error) { return msg.Dial(ctx, "10.0.0.1:7471") })
//		defer server.Close()
//		for {
//			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
//			err := server.Do(ctx, func(c *msg.Conn) error {
//				if err := c.Send(ctx, []byte("question")); err != nil {
//					return err
//				}
//				answer, err := c.Recv(ctx)
//				if err == nil {
//					fmt.Printf("%s\n", answer.Bytes())
//					answer.Release()
//				}
//				return err
//			})
//			cancel()
//			var failed *redial.Error
//			switch {
//			case errors.As(err, &failed) && failed.MayHaveRun:
//				fmt.Println("the server may have seen the question:", err)
//			case err != nil:
//				log.Fatal(err)
//			}
//		}
//	}
//
// # Errors that end it
//
// Most errors of a dial may pass: nobody listens yet, the machine does not answer, the server is busy or refuses. A
// dial is not repeated after an error that the same dial would meet again. Such an error matches
// [errors.ErrUnsupported], verbs.ErrNoProvider, [io/fs.ErrPermission], [net.ErrClosed] or rdmacm.ErrOtherProtocol,
// names an option out of bounds or a malformed address, or is marked by [Permanent].
//
// # Pauses
//
// The first dial is made at once, and so is the next one after work that succeeded. Each further one follows a pause of
// 5 to 10 milliseconds, then 10 to 20, and so on up to a second. A Redialer counts across calls, so a server that
// accepts connections and then fails is not dialled more often either.
package redial

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync"
	"sync/atomic"

	"github.com/goverbs/goverbs/internal/dialer"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/verbs"
)

// Dial calls dial until it succeeds, fails with a permanent error, or ctx ends. The error then matches ctx.Err() and
// that of the last dial. Use it where something else keeps the connections, such as an http.Transport.
func Dial[C any](ctx context.Context, dial func(context.Context) (C, error)) (C, error) {
	c, err := dialer.Retry(ctx, patience, dial)
	return c, failed(err)
}

// failed makes sure that there is a *verbs.Error in what a program's own dial or work has returned.
func failed(err error) error {
	if err == nil || errors.As(err, new(*verbs.Error)) {
		return err
	}
	return &verbs.Error{Err: err}
}

// Permanent marks an error of a dial that must not be repeated. The result matches err.
func Permanent(err error) error { return &permanent{err} }

type permanent struct{ error }

func (e *permanent) Unwrap() error { return e.error }

func patience(err error) dialer.Patience {
	for _, cause := range []error{errors.ErrUnsupported, verbs.ErrNoProvider, fs.ErrPermission, net.ErrClosed, rdmacm.ErrOtherProtocol, dialer.ErrOption} {
		if errors.Is(err, cause) {
			return dialer.Never
		}
	}
	if errors.As(err, new(*permanent)) || errors.As(err, new(*net.AddrError)) || errors.As(err, new(*net.ParseError)) {
		return dialer.Never
	}
	return dialer.Always
}

// Conn is a connection, such as a *msg.Conn or an *rsocket.Conn.
type Conn interface {
	Close() error
	// Done returns a channel that is closed when the connection has ended.
	Done() <-chan struct{}
}

// Redialer keeps one connection to a server, and dials when it needs another one. Its methods may be called
// concurrently.
type Redialer[C Conn] struct {
	dial  func(context.Context) (C, error)
	life  context.Context // ends with Close
	close context.CancelFunc
	turn  chan struct{} // holds a token while somebody dials

	series dialer.Series // guarded by turn

	mu      sync.Mutex // guards the field below
	current *kept[C]   // nil before the first dial
}

// kept is a connection that a Redialer keeps.
type kept[C Conn] struct {
	conn   C
	worked atomic.Bool // some work has succeeded
	once   sync.Once
	closed atomic.Bool
}

// end closes the connection.
func (k *kept[C]) end() (err error) {
	k.once.Do(func() {
		k.closed.Store(true)
		err = k.conn.Close()
	})
	return err
}

// isOver reports whether the connection can't be used for further work.
func (k *kept[C]) isOver() bool {
	select {
	case <-k.conn.Done():
		return true
	default:
		return k.closed.Load()
	}
}

// New creates a Redialer that connects with dial. What belongs to a new connection, such as a greeting or a
// registration, belongs into dial too. The first call of Do dials.
func New[C Conn](dial func(context.Context) (C, error)) *Redialer[C] {
	r := &Redialer[C]{dial: dial, turn: make(chan struct{}, 1)}
	r.life, r.close = context.WithCancel(context.Background())
	return r
}

// Do calls work with the connection, at most once. If there is no connection, or it has ended, Do dials first, and
// again until it succeeds, a permanent error occurs, or ctx ends. Concurrent calls wait for one dial and share its
// connection.
//
// If work returns an error or panics, Do closes the connection, because its state is unknown. The calls of others that
// use it then fail too. Work that fails and leaves the connection in order, such as a READ that its context ended,
// returns nil and reports its error otherwise.
//
// Errors are of type *Error.
func (r *Redialer[C]) Do(ctx context.Context, work func(C) error) error {
	k, err := r.connection(ctx)
	if err != nil {
		return &Error{Err: failed(err)}
	}
	done := false
	defer func() {
		if !done {
			_ = k.end()
		}
	}()
	if err := work(k.conn); err != nil {
		return &Error{MayHaveRun: true, Err: failed(err)}
	}
	done = true
	k.worked.Store(true)
	return nil
}

// connection returns a connection that has not ended, as far as this end knows.
func (r *Redialer[C]) connection(ctx context.Context) (*kept[C], error) {
	if k, err := r.look(); k != nil || err != nil {
		return k, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.life, cancel)()
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return nil, r.whyEnded(ctx.Err())
	}
	if k, err := r.look(); k != nil || err != nil {
		return k, err
	}
	if old := r.current; old != nil { // nobody else changes it now
		_ = old.end()
		if old.worked.Load() {
			r.series = dialer.Series{}
		}
	}
	c, err := dialer.RetryIn(ctx, &r.series, patience, r.dial)
	if err != nil {
		return nil, r.whyEnded(err)
	}
	k := &kept[C]{conn: c}
	r.mu.Lock()
	r.current = k
	r.mu.Unlock()
	if r.life.Err() != nil {
		_ = k.end()
		return nil, net.ErrClosed
	}
	return k, nil
}

// look returns the connection, or nil if a dial is needed.
func (r *Redialer[C]) look() (*kept[C], error) {
	if r.life.Err() != nil {
		return nil, net.ErrClosed
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.current; k != nil && !k.isOver() {
		return k, nil
	}
	return nil, nil
}

// whyEnded returns net.ErrClosed in place of an error that Close has caused.
func (r *Redialer[C]) whyEnded(err error) error {
	if r.life.Err() != nil {
		return net.ErrClosed
	}
	return err
}

// Close closes the connection and ends dials. Work that uses the connection fails. A second Close returns an error that
// matches net.ErrClosed.
func (r *Redialer[C]) Close() error {
	if r == nil {
		return &verbs.Error{Op: "close", Object: "redialer", Err: os.ErrInvalid, Hint: "the pointer is nil"}
	}
	r.mu.Lock()
	again, k := r.life.Err() != nil, r.current
	r.close()
	r.mu.Unlock()
	switch {
	case again:
		return &verbs.Error{Op: "close", Object: "redialer", Err: net.ErrClosed}
	case k == nil:
		return nil
	}
	return k.end() // which may wait for the peer, so r.mu is not held
}

// Format implements [fmt.Formatter]. It prints the connection, never memory.
func (r *Redialer[C]) Format(f fmt.State, _ rune) {
	if k, err := r.look(); err != nil {
		fmt.Fprint(f, "redialer, closed")
	} else if k == nil {
		fmt.Fprint(f, "redialer, not connected")
	} else {
		fmt.Fprintf(f, "redialer: %v", k.conn)
	}
}

// Error is the error of work on a connection that can break. errors.Is matches the error of the dial or of the work,
// ctx.Err(), or net.ErrClosed after Close. There is a *verbs.Error within.
type Error struct {
	// MayHaveRun means that the work was called, so the server may have carried out some or all of it. It is false if
	// there was no connection, so the work was not called.
	MayHaveRun bool
	Err        error
}

func (e *Error) Error() string {
	if e.MayHaveRun {
		return "the work failed, and may have run: " + e.Err.Error()
	}
	return "the work has not run, for want of a connection: " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// Timeout reports whether a deadline passed.
func (e *Error) Timeout() bool {
	return errors.Is(e.Err, context.DeadlineExceeded) || errors.Is(e.Err, os.ErrDeadlineExceeded)
}
