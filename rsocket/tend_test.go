package rsocket

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
)

// TestTend: while a call waits for events, it hears of what other calls send, so that a send
// that fails ends its wait.
func TestTend(t *testing.T) {
	f := newFabric(t, rdmatest.RXE)
	a, _ := f.pair(Sizes{})
	stuck, resume := f.Pause()
	defer resume()
	alone := func() { // as if a call waited that had nothing under way when it began
		a.mu.Lock()
		defer a.mu.Unlock()
		a.waiting, a.armed = true, false
	}
	for name, call := range map[string]func() (int, error){
		"Write": func() (int, error) { return a.Write([]byte("hello")) },
		"Read":  func() (int, error) { n, _, err := a.tryRead(make([]byte, 1)); return n, err },
	} {
		if name == "Read" {
			a.mu.Lock()
			a.stream.keepAlive() // what Read might send
			a.mu.Unlock()
		}
		alone()
		if _, err := call(); err != nil {
			t.Error(err)
		}
		a.mu.Lock()
		if a.stream.sent == 0 || !a.armed {
			t.Errorf("after %s: %d slots in use, armed %v", name, a.stream.sent, a.armed)
		}
		a.waiting = false
		a.mu.Unlock()
	}
	<-stuck
}

// TestArmIgnored: an event of the send queue may be unread when the queue is armed again.
// Some devices ignore that arm. Shutdown arms it once more behind the event, and so hears of
// the last completion.
func TestArmIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, rdmatest.ERDMA)
		a, _ := f.pair(Sizes{})
		post := func() {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.progress()
			a.stream.keepAlive()
			a.watch()
		}
		_, resume := f.Pause()
		post()
		resume() // it completes, with an event that nobody reads
		_, resume = f.Pause()
		post()
		closed := make(chan error)
		start := time.Now()
		go func() { closed <- a.Shutdown(t.Context()) }()
		synctest.Wait()
		resume()
		if err := <-closed; err != nil || time.Since(start) > 0 { // the bubble's time
			t.Errorf("%v, after %v", err, time.Since(start))
		}
	})
}

// TestKeepAliveSilent: over iWARP the side that accepted sends keep-alives to a peer that has
// never spoken, but not before that peer has the answer to its connect request.
func TestKeepAliveSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, rdmatest.SIW)
		l, err := (&ListenConfig{KeepAlive: 4 * time.Second}).Listen(t.Context(), "tcp", fabricHost+":0")
		if err != nil {
			t.Fatal(err)
		}
		accepted := acceptAndHold(l)
		z, err := new(Sizes).withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		peer, cfg := newConn(), z.config()
		cfg.Prepare = func(rc *rdmacm.Conn) error {
			err := peer.verbs.prepare(rc, &z)
			rc.SetPrivateData(peer.verbs.hello(&z).marshal())
			return err
		}
		rc, err := rdmacm.DialAddrPort(t.Context(), l.Addr().(Addr).AddrPort(), &cfg)
		if err != nil {
			t.Fatal(err)
		}
		c := <-accepted
		stuck, resume := f.Pause()
		time.Sleep(mpaTimeout - 1)
		synctest.Wait()
		select {
		case <-stuck:
			t.Error("something is sent too soon")
		default:
		}
		time.Sleep(4 * time.Second)
		synctest.Wait()
		select {
		case <-stuck:
		default:
			t.Error("no keep-alive")
		}
		resume()
		_ = rc.Close()
		_ = c.Close()
		_ = l.Close()
	})
}

// acceptAndHold returns the connection that is accepted.
func acceptAndHold(l net.Listener) <-chan net.Conn {
	accepted := make(chan net.Conn, 1)
	go func() {
		if c, err := l.Accept(); err == nil {
			accepted <- c
		}
	}()
	return accepted
}
