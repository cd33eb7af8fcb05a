package rdmacm

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/rdmatest"
)

// A peer reads why it was rejected, over each transport. A dial that finds the listener busy is repeated
// until its time is over.
func TestReasons(t *testing.T) {
	for name, test := range map[string]struct {
		prepare error
		answer  func(*Listener, *Request) error
		want    RejectReason
		is      []error
	}{
		"other protocol": {prepare: ErrOtherProtocol, want: RejectOtherProtocol, is: []error{ErrOtherProtocol}},
		"busy":           {prepare: ErrBusy, want: RejectBusy, is: []error{ErrBusy, context.DeadlineExceeded}},
		"failed":         {prepare: io.ErrUnexpectedEOF, want: RejectRefused},
		"refused":        {answer: func(_ *Listener, r *Request) error { return r.Reject(nil) }, want: RejectRefused},
	} {
		for _, kind := range rdmatest.Kinds {
			t.Run(name+" "+kind.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := rdmatest.NewWith(t, &rdmatest.Options{Kind: kind})
					lc := &ListenConfig{Config: Config{Prepare: func(*Conn) error { return test.prepare }}}
					l, err := lc.Listen(t.Context(), f.Host(0).Addr()+":0")
					if err != nil {
						t.Fatal(err)
					}
					served := make(chan struct{})
					go func() {
						defer close(served)
						for {
							r, err := l.Next(t.Context())
							if err != nil {
								if !errors.Is(err, net.ErrClosed) {
									t.Error(err)
								}
								return
							}
							if test.answer != nil {
								err = test.answer(l, r)
							} else if _, err = r.Accept(t.Context(), &lc.Config); errors.Is(err, test.prepare) {
								err = nil
							}
							if err != nil {
								t.Error(err)
							}
						}
					}()
					start := time.Now()
					checkReason(t, l, test.want, test.is...)
					if took := time.Since(start); (took >= 2*time.Second) != (test.want == RejectBusy) {
						t.Error("took", took)
					}
					if err := l.Close(); err != nil {
						t.Error(err)
					}
					<-served
				})
			})
		}
	}
}

func checkReason(t *testing.T, l *Listener, want RejectReason, is ...error) {
	t.Helper()
	_, err := (&Dialer{Timeout: 2 * time.Second}).Dial(context.Background(), l.Addr().String())
	var rejected *RejectedError
	var temporary interface{ Temporary() bool }
	if !errors.As(err, &rejected) || rejected.Reason != want || !errors.As(err, &temporary) || temporary.Temporary() != (want == RejectBusy) {
		t.Errorf("%v, want %v", err, want)
	}
	for _, target := range append(is, syscall.ECONNREFUSED) {
		if !errors.Is(err, target) {
			t.Errorf("%v does not match %v", err, target)
		}
	}
}

// A full Listener says that it is busy, and one that closes says so.
func TestReasonsOfListener(t *testing.T) {
	for _, kind := range rdmatest.Kinds {
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := rdmatest.NewWith(t, &rdmatest.Options{Kind: kind})
				l, err := (&ListenConfig{Backlog: 1}).Listen(t.Context(), f.Host(0).Addr()+":0")
				if err != nil {
					t.Fatal(err)
				}
				waiting := make(chan error)
				go func() { _, err := Dial(context.Background(), l.Addr().String()); waiting <- err }()
				synctest.Wait()
				time.Sleep(time.Second)
				checkReason(t, l, RejectBusy, ErrBusy, context.DeadlineExceeded)
				if err := l.Close(); err != nil {
					t.Error(err)
				}
				var rejected *RejectedError
				if err := <-waiting; !errors.As(err, &rejected) || rejected.Reason != RejectClosing {
					t.Error(err)
				}
			})
		})
	}
}

// Private data that is not a reason belongs to the program.
func TestParseReason(t *testing.T) {
	own := ownReason(RejectClosing)
	for _, test := range []struct {
		private []byte
		want    RejectReason
	}{
		{own, RejectClosing}, {append(own[:len(own):len(own)], make([]byte, 133)...), RejectClosing},
		{append(own[:len(own):len(own)], 1), 0}, {own[:len(own)-1], 0}, {nil, 0}, {make([]byte, 148), 0}, {own[1:], 0},
		{append([]byte(reasonMark), 200), firstOwnReason + 200},
	} {
		e := statusError(EventRejected, 28, test.private).(*RejectedError)
		if want := test.want; want == 0 && (e.Reason != RejectConsumer || len(e.PrivateData) != len(test.private)) || want != 0 && (e.Reason != want || e.PrivateData != nil) {
			t.Errorf("%q: %+v", test.private, e)
		}
	}
}
