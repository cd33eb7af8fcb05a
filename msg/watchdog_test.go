package msg

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/verbs"
)

// TestDeadLink checks that a dead link ends the connection with the status of the send that was not
// acknowledged, not with that of the flushed receives. A side that only receives detects it by a
// probe.
func TestDeadLink(t *testing.T) {
	for _, kind := range []rdmatest.Kind{rdmatest.RXE, rdmatest.MLX5} {
		for _, pooled := range []bool{false, true} {
			f, cfg := newFabric(t, kind), small
			if pooled {
				cfg.Pool = newPool(t, f, 4)
			}
			silent, asks := cfg, cfg
			silent.MaxIdleTimeout, asks.MaxIdleTimeout = -1, time.Hour
			a, b, err1, err2 := meet(t, listen(t, &silent), &asks)
			if err := errors.Join(err1, err2); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { bothFree(t, a, b) })
			if err := a.Send(t.Context(), []byte("hello")); err != nil {
				t.Fatal(err)
			}
			receiveOne(t, b, 5)
			f.Host(0).Device(0).FailSend(0, verbs.StatusRetryExcErr)
			a.check() // notes that something was heard
			a.check()
			if _, err := a.Recv(t.Context()); !errors.Is(err, verbs.StatusRetryExcErr) {
				t.Errorf("%v, pool %v: %v", kind, pooled, err)
			}
			if err := a.Send(t.Context(), nil); !errors.Is(err, verbs.StatusRetryExcErr) {
				t.Errorf("%v, pool %v: %v", kind, pooled, err)
			}
		}
	}
}

// TestDeadLinkUnsignaled checks that the failure of an unsignaled message is the cause too.
func TestDeadLinkUnsignaled(t *testing.T) {
	for _, kind := range []rdmatest.Kind{rdmatest.RXE, rdmatest.MLX5} {
		f := newFabric(t, kind)
		a, b := connect(t, &small)
		if err := b.Send(t.Context(), []byte("hello")); err != nil { // so b has nothing more to send
			t.Fatal(err)
		}
		receiveOne(t, a, 5)
		f.Host(0).Device(0).FailSend(0, verbs.StatusRetryExcErr)
		if err := a.Send(t.Context(), []byte("hello")); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Recv(t.Context()); !errors.Is(err, verbs.StatusRetryExcErr) {
			t.Errorf("%v: %v", kind, err)
		}
	}
}

// TestCauseOutOfOrder checks that the cause is that of the send, whichever completion is polled
// first.
func TestCauseOutOfOrder(t *testing.T) {
	_, c := hostile(t)
	c.mu.Lock()
	for _, s := range []verbs.Status{verbs.StatusWRFlushErr, verbs.StatusRetryExcErr, verbs.StatusRemAccessErr} {
		c.failWith(&verbs.WC{Status: s})
	}
	first := c.ending.first
	c.mu.Unlock()
	if !errors.Is(first, verbs.StatusRetryExcErr) {
		t.Error(first)
	}
}

// TestProbe checks that only an idle connection probes its peer.
func TestProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := hostile(t)
		c.watchdog.heard = false
		c.startWatch(c.shape.checkTime())
		e := w.ends[0]
		asked := func() (n int) {
			w.mu.Lock()
			defer w.mu.Unlock()
			for i := range e.sends.len() {
				s := e.sends.ring[(e.sends.next+i)%len(e.sends.ring)]
				if wrid(s.WRID).kind() == kindKeepAlive && s.Opcode == verbs.OpRDMAWrite && s.sge == (verbs.SGE{}) {
					n++
				}
			}
			return n
		}
		wait := func() { time.Sleep(c.shape.checkTime()); synctest.Wait() }
		wait()
		if asked() != 1 {
			t.Error("after one period:", asked())
		}
		wait()
		if asked() != 1 {
			t.Error("while one is under way:", asked())
		}
		w.settle()
		wait()
		if asked() != 0 {
			t.Error("right after an answer:", asked())
		}
		wait()
		if asked() != 1 {
			t.Error("again:", asked())
		}
		w.settle()
		w.cut()
		w.settle()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestFirstFrameLimit checks that a peer that connects and never sends a frame loses its connection.
func TestFirstFrameLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, testShape(t))
		c := w.ends[0].conn
		c.open(w.ends[1].conn.shape.hello(), false)
		c.startWatch(firstFrameLimit)
		begun := time.Now()
		if err := c.Send(t.Context(), []byte("hello")); !errors.Is(err, syscall.ETIMEDOUT) || time.Since(begun) != firstFrameLimit {
			t.Error(err, "after", time.Since(begun))
		}
		synctest.Wait() // for the disconnect
		w.settle()
		if _, err := c.Recv(t.Context()); !errors.Is(err, syscall.ETIMEDOUT) {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestReadLimit checks that a peer that announces a message and does not let it be read loses its
// connection.
func TestReadLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := hostile(t)
		c.startWatch(c.shape.checkTime())
		at := make([]byte, rtsSize)
		rts{1 << 20, 1000, 1}.put(at)
		w.inject(bytesOfFrame(frame{typ: typeRTS, limit: 9, cookie: 1}, at...))
		received := make(chan error, 1)
		begun := time.Now()
		go func() { _, err := c.Recv(t.Context()); received <- err }()
		for len(received) == 0 && time.Since(begun) < time.Hour {
			time.Sleep(time.Second)
			c.mu.Lock()
			failing := c.ending.failing
			c.mu.Unlock()
			if synctest.Wait(); failing {
				w.settle()
			}
		}
		if err := <-received; !errors.Is(err, syscall.ETIMEDOUT) || !strings.Contains(err.Error(), "large message") {
			t.Error(err)
		}
		if took := time.Since(begun); took < readLimit || took > 3*readLimit {
			t.Error("after", took)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}
