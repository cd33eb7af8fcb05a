package rdmacm

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/uverbs"
)

// listenIn listens in the world and has peers ask, of which only those that
// confirm do so.
func (w *world) listenIn(cfg *Config, confirm func(handle uint32) bool) *Listener {
	w.t.Helper()
	w.accepted = func(k *fakeKernel, id uint32) {
		if confirm(id) {
			k.report(id, EventEstablished, nil)
		}
	}
	l, err := Listen("10.1.2.3:1", cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

func (w *world) ask(handle uint32) { sendRequest(w.cms[0], 1, handle) }

func (w *world) closed(l *Listener) {
	w.t.Helper()
	if err := l.Close(); err != nil {
		w.t.Error(err)
	}
	// Handshakes that are given up are freed in the background.
	<-w.cms[0].closed
	eventually(w.t, "freeing all", func() bool { return w.verbs == nil || len(w.verbs.Leaks()) == 0 })
	w.empty()
}

// A peer that never confirms holds up none that comes behind it.
func TestAcceptBesideSilentPeer(t *testing.T) {
	for _, info := range []uverbs.DeviceInfo{aSIW, aRXE} {
		w := newWorld(t, info)
		const silent = 50
		l := w.listenIn(&Config{AcceptTimeout: time.Hour}, func(id uint32) bool { return id != silent })
		for id := range uint32(4) {
			w.ask(silent + id)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var conns []*Conn
		for len(conns) < 3 {
			c, err := l.Accept(ctx)
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, c)
		}
		for _, c := range conns {
			closeConn(t, c)
		}
		w.closed(l)
	}
}

// Accept tells of a peer that does not confirm in time.
func TestAcceptSilentPeer(t *testing.T) {
	w := newWorld(t, aSIW)
	l := w.listenIn(&Config{AcceptTimeout: 50 * time.Millisecond}, func(uint32) bool { return false })
	w.ask(50)
	_, err := l.Accept(t.Context())
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() || errors.Is(err, net.ErrClosed) || !strings.Contains(err.Error(), "wait for the peer's confirmation 10.1.2.3:7471") {
		t.Error(err)
	}
	w.closed(l)
}

// A call that its context ends leaves its handshakes to the next.
func TestAcceptLeavesHandshake(t *testing.T) {
	w := newWorld(t, aSIW)
	confirmed := make(chan uint32, 1)
	l := w.listenIn(nil, func(id uint32) bool { confirmed <- id; return false })
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error)
	go func() { _, err := l.Accept(ctx); left <- err }()
	w.ask(50)
	id := <-confirmed
	cancel()
	if err := <-left; err != context.Canceled {
		t.Error(err)
	}
	w.cms[0].report(id, EventEstablished, nil)
	c, err := l.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	closeConn(t, c)
	w.closed(l)
}

// Close ends handshakes, and connections that nobody has taken.
func TestCloseEndsHandshakes(t *testing.T) {
	w := newWorld(t, aSIW)
	const silent = 50
	accepted := make(chan uint32, 2)
	l := w.listenIn(nil, func(id uint32) bool { accepted <- id; return id != silent })
	ended := make(chan error)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { _, err := l.Accept(ctx); ended <- err }()
	w.ask(silent)
	<-accepted
	cancel()
	<-ended
	go func() { _, err := l.Accept(t.Context()); ended <- err }()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != net.ErrClosed {
		t.Error(err)
	}
	w.closed(l)
}

// As many handshakes go on at a time as the backlog says; the requests behind them
// wait.
func TestAcceptsBounded(t *testing.T) { synctest.Test(t, testAcceptsBounded) }

func testAcceptsBounded(t *testing.T) {
	w := newWorld(t, aSIW)
	begun := make(chan uint32, 8)
	l := w.listenIn(&Config{Backlog: 2}, func(id uint32) bool { begun <- id; return false })
	accepted := make(chan *Conn)
	go func() {
		for {
			c, err := l.Accept(t.Context())
			if err != nil {
				close(accepted)
				return
			}
			accepted <- c
		}
	}()
	w.ask(50)
	w.ask(51)
	first := <-begun
	<-begun
	w.ask(52)
	synctest.Wait()
	select {
	case id := <-begun:
		t.Errorf("%d is let in beside two others", id)
	default:
	}
	w.cms[0].report(first, EventEstablished, nil)
	closeConn(t, <-accepted)
	<-begun // the third one's turn
	if n := w.cms[0].count(abi.RDMA_USER_CM_CMD_REJECT); n != 0 {
		t.Error(n, "rejected")
	}
	w.closed(l)
	if c, ok := <-accepted; ok {
		t.Error("accepted", c)
	}
}
