package redial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/msg"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/rsocket"
	"github.com/goverbs/goverbs/valkeyrdma"
)

// fakeConn is a connection that ends when it is told to.
type fakeConn struct {
	done   chan struct{}
	closes int
}

func (c *fakeConn) Close() error          { c.closes++; return nil }
func (c *fakeConn) Done() <-chan struct{} { return c.done }

// fakeServer counts dials, and lets them fail.
type fakeServer struct {
	t     *testing.T
	dials int
	at    []time.Duration // of each dial
	start time.Time
	fail  func(n int) error
	conns []*fakeConn
}

func (s *fakeServer) dial(context.Context) (*fakeConn, error) {
	s.dials++
	s.at = append(s.at, time.Since(s.start))
	if s.fail != nil {
		if err := s.fail(s.dials); err != nil {
			return nil, err
		}
	}
	c := &fakeConn{done: make(chan struct{})}
	s.conns = append(s.conns, c)
	return c, nil
}

func newFake(t *testing.T, fail func(n int) error) (*fakeServer, *Redialer[*fakeConn]) {
	s := &fakeServer{t: t, start: time.Now(), fail: fail}
	return s, New(s.dial)
}

func works(*fakeConn) error { return nil }

var errWork = errors.New("the work fails")

func fails(*fakeConn) error { return errWork }

// One connection serves all work until it ends, whether work, the peer or this end notices.
func TestKeepsConnection(t *testing.T) {
	s, r := newFake(t, nil)
	for range 3 {
		if err := r.Do(t.Context(), works); err != nil {
			t.Fatal(err)
		}
	}
	if s.dials != 1 {
		t.Error(s.dials, "dials for work that succeeds")
	}
	var failed *Error
	if err := r.Do(t.Context(), fails); !errors.As(err, &failed) || !failed.MayHaveRun || !errors.Is(err, errWork) {
		t.Error(err)
	}
	if s.conns[0].closes != 1 {
		t.Error("a connection whose work failed stays open")
	}
	if err := r.Do(t.Context(), works); err != nil || s.dials != 2 {
		t.Error(s.dials, err)
	}
	close(s.conns[1].done) // while it is idle
	if err := r.Do(t.Context(), works); err != nil || s.dials != 3 || s.conns[1].closes != 1 {
		t.Error(s.dials, err)
	}
	if err := r.Close(); err != nil || s.conns[2].closes != 1 {
		t.Error(err)
	}
	if err := r.Do(t.Context(), works); !errors.As(err, &failed) || failed.MayHaveRun || !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if err := r.Close(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// Work that panics leaves the connection in an unknown state, so the next work gets another one.
func TestPanic(t *testing.T) {
	s, r := newFake(t, nil)
	func() {
		defer func() { _ = recover() }()
		_ = r.Do(t.Context(), func(*fakeConn) error { panic("half an answer") })
	}()
	if err := r.Do(t.Context(), works); err != nil || s.dials != 2 || s.conns[0].closes != 1 {
		t.Error(s.dials, "dials:", err)
	}
	_ = r.Close()
}

// Concurrent work shares one dial. The end of one caller's context ends only its own wait.
func TestSharesDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := newFake(t, func(n int) error {
			if n < 5 {
				return syscall.ECONNREFUSED
			}
			return nil
		})
		impatient, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() {
				ctx := t.Context()
				if i%2 == 0 {
					ctx = impatient
				}
				err := r.Do(ctx, works)
				if ended := errors.Is(err, context.DeadlineExceeded); ended != (i%2 == 0) || err != nil && !ended {
					t.Error(i, err)
				}
				if timeout, ok := err.(interface{ Timeout() bool }); err != nil && (!ok || !timeout.Timeout()) {
					t.Errorf("%v is no timeout", err)
				}
			})
		}
		all.Wait()
		if s.dials != 5 || len(s.conns) != 1 {
			t.Error(s.dials, "dials,", len(s.conns), "connections")
		}
	})
}

// Pauses grow to a second while nothing succeeds, across calls and although dials succeed. Work that succeeds ends them.
func TestPauses(t *testing.T) {
	for name, fail := range map[string]error{"dials fail": syscall.ECONNREFUSED, "work fails": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, r := newFake(t, func(int) error { return fail })
				for time.Since(s.start) < time.Minute {
					ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
					err := r.Do(ctx, fails)
					cancel()
					var failed *Error
					if !errors.As(err, &failed) || failed.MayHaveRun && fail != nil {
						t.Fatal(err)
					}
				}
				for i, at := range s.at[1:] {
					most := min(10*time.Millisecond<<min(i, 10), time.Second)
					if pause := at - s.at[i]; pause < most/2 || pause > most {
						t.Errorf("pause %d: %v", i, pause)
					}
				}
				if s.dials < 60 || s.dials > 140 {
					t.Error(s.dials, "dials in a minute")
				}
				s.fail = nil
				if err := r.Do(t.Context(), works); err != nil {
					t.Fatal(err)
				}
				_ = r.Do(t.Context(), fails)
				before := time.Now()
				if err := r.Do(t.Context(), works); err != nil || time.Since(before) != 0 {
					t.Error("after success:", err, time.Since(before))
				}
			})
		})
	}
}

// A permanent error is returned at once. A context that ends names the last dial's error.
func TestPermanent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := errors.New("wrong password")
		for _, err := range []error{Permanent(own), fmt.Errorf("dial: %w", rdmacm.ErrOtherProtocol), syscall.EACCES, syscall.EOPNOTSUPP, net.ErrClosed,
			&net.AddrError{Err: "missing port"}} {
			s, r := newFake(t, func(int) error { return err })
			var failed *Error
			if got := r.Do(t.Context(), works); !errors.As(got, &failed) || failed.MayHaveRun || !errors.Is(got, err) || s.dials != 1 {
				t.Errorf("%v: %v, %d dials", err, got, s.dials)
			}
		}
		if !errors.Is(Permanent(own), own) {
			t.Error("it hides the error")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := Dial(ctx, func(context.Context) (*fakeConn, error) { return nil, syscall.EHOSTUNREACH })
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, syscall.EHOSTUNREACH) {
			t.Error(err)
		}
	})
}

// An option out of bounds and a malformed address end the dials of each package.
func TestPermanentOfPackages(t *testing.T) {
	newHosts(t, rdmatest.SIW)
	for name, dial := range map[string]func(context.Context) (io.Closer, error){
		"msg option": func(ctx context.Context) (io.Closer, error) {
			return (&msg.Dialer{Config: msg.Config{Window: 1}}).Dial(ctx, "10.0.0.1:1")
		},
		"rsocket option": func(ctx context.Context) (io.Closer, error) {
			return (&rsocket.Dialer{Config: rsocket.Config{SendBuffer: 1}}).Dial(ctx, "10.0.0.1:1")
		},
		"valkeyrdma option": func(ctx context.Context) (io.Closer, error) {
			return (&valkeyrdma.Dialer{Config: valkeyrdma.Config{SendBuffer: 1}}).Dial(ctx, "10.0.0.1:1")
		},
		"rdmacm option": func(ctx context.Context) (io.Closer, error) {
			return (&rdmacm.Dialer{Timeout: -1}).Dial(ctx, "10.0.0.1:1")
		},
		"msg address":     func(ctx context.Context) (io.Closer, error) { return msg.Dial(ctx, "10.0.0.1") },
		"rsocket address": func(ctx context.Context) (io.Closer, error) { return rsocket.Dial(ctx, "10.0.0.1") },
	} {
		dials := 0
		if _, err := Dial(t.Context(), func(ctx context.Context) (io.Closer, error) { dials++; return dial(ctx) }); err == nil || dials != 1 {
			t.Errorf("%s: %v, %d dials", name, err, dials)
		}
	}
}

// Close ends a dial that waits.
func TestCloseEndsDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(func(ctx context.Context) (*fakeConn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		results := make(chan error)
		for range 2 { // one dials, the other waits for it
			go func() { results <- r.Do(context.Background(), works) }()
		}
		synctest.Wait()
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		for range 2 {
			if err := <-results; !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
		}
	})
	if err := (*Redialer[*fakeConn])(nil).Close(); err == nil {
		t.Error("Close of nil")
	}
}

// newHosts makes a fabric of a client and a server.
func newHosts(t *testing.T, kind rdmatest.Kind) (client, server *rdmatest.Host) {
	t.Helper()
	f := rdmatest.NewWith(t, &rdmatest.Options{Kind: kind, Hosts: make([]rdmatest.HostOptions, 2)})
	return f.Host(0), f.Host(1)
}
