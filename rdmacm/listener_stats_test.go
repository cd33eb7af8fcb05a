package rdmacm

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/rdmatest"
)

// The counts of a Listener follow each way that a request may take.
func TestListenerStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.RXE})
		var refusal error
		l, err := (&ListenConfig{Backlog: 1, Config: Config{Prepare: func(*Conn) error { return refusal }}}).Listen(t.Context(), f.Host(0).Addr()+":0")
		if err != nil {
			t.Fatal(err)
		}
		check := func(want ListenerStats) {
			t.Helper()
			synctest.Wait()
			if got := l.Stats(); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
		}
		dial := func() <-chan error {
			ended := make(chan error, 1)
			go func() {
				c, err := (&Dialer{Timeout: time.Minute}).Dial(context.Background(), l.Addr().String())
				if err == nil {
					err = c.Close()
				}
				ended <- err
			}()
			time.Sleep(time.Second)
			return ended
		}
		first := dial()
		want := ListenerStats{Waiting: 1, Requests: 1}
		check(want)
		second := dial()
		if s := l.Stats(); s.Busy == 0 || s.Requests != s.Busy+1 || s.Waiting != 1 {
			t.Errorf("%+v", s)
		}
		for n, ended := range []<-chan error{first, second} {
			c, err := l.Accept(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			closeConn(t, c)
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if s := l.Stats(); s.Accepted != uint64(n)+1 || s.Handshakes != 0 {
				t.Errorf("%+v", s)
			}
		}
		want = l.Stats()
		refusal = errors.New("no")
		third := dial()
		if _, err := l.Accept(t.Context()); !errors.Is(err, refusal) {
			t.Error(err)
		}
		if err := <-third; err == nil {
			t.Error("accepted")
		}
		want.Requests++
		want.Failed++
		check(want)
		fourth := dial()
		r, err := l.Next(t.Context())
		if err == nil {
			err = r.Reject(nil)
		}
		if err != nil {
			t.Error(err)
		}
		<-fourth
		want.Requests++
		want.Taken++
		check(want)
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Silent peers are counted as evicted if another one took the place, and as expired otherwise.
func TestListenerStatsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, &ListenConfig{Backlog: 1})
		defer c.b.end()
		c.ask("10.0.0.1:1")
		c.b.advance()
		synctest.Wait()
		c.ask("10.0.0.2:2000")
		c.accept()
		c.ask("10.0.0.1:1")
		c.b.advance()
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := c.b.stats; s != (ListenerStats{Requests: 3, Accepted: 1, Evicted: 1, Expired: 1}) {
			t.Errorf("%+v", s)
		}
	})
}
