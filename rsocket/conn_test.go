package rsocket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/nettest"

	"github.com/goverbs/goverbs/internal/conntest"
	"github.com/goverbs/goverbs/internal/netconn"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
)

// TestConn checks that a connection is a net.Conn, over both transports, also with the least queues
// and buffers.
func TestConn(t *testing.T) {
	anywhere(t, func(t *testing.T, f *fabric) {
		for name, z := range map[string]Config{"default": {}, "least": {SendBuffer: leastBuffer, RecvBuffer: leastBuffer, SendQueue: leastQueue, RecvQueue: leastQueue}} {
			t.Run(name, func(t *testing.T) {
				nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) { return f.pipe(z) })
			})
		}
	})
}

// TestConnERDMARoCE is TestConn for eRDMA on RoCE v2.
func TestConnERDMARoCE(t *testing.T) {
	f := newFabricOf(t, rdmatest.DeviceOptions{Kind: rdmatest.ERDMA, RoCE: true})
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) { return f.pipe(Config{}) })
}

// TestIdle checks that connections that nobody uses have no goroutine, also while they check that
// their peers are there. (test/stream counts their descriptors.)
func TestIdle(t *testing.T) {
	const n = 300
	for _, kind := range []rdmatest.Kind{rdmatest.RXE, rdmatest.SIW} {
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				newFabric(t, kind)
				least := Config{SendBuffer: leastBuffer, RecvBuffer: leastBuffer, SendQueue: leastQueue, RecvQueue: leastQueue}
				l, err := (&ListenConfig{Config: least}).Listen(t.Context(), fabricHost+":0")
				if err != nil {
					t.Fatal(err)
				}
				accepted := make(chan net.Conn)
				go func() {
					for {
						c, err := l.Accept()
						if err != nil {
							close(accepted)
							return
						}
						accepted <- c
					}
				}()
				var conns []net.Conn
				connect := func() {
					c, err := (&Dialer{Config: least}).Dial(t.Context(), l.Addr().String())
					if err != nil {
						t.Fatal(err)
					}
					conns = append(conns, c, <-accepted)
				}
				connect() // what all connections share
				synctest.Wait()
				goroutines := runtime.NumGoroutine()
				for range n {
					connect()
				}
				time.Sleep(defaultMaxIdle)
				synctest.Wait()
				// Others of this process, such as those of timers, come and go.
				if more := runtime.NumGoroutine() - goroutines; more > n/10 {
					t.Errorf("%d goroutines more for %d connections", more, n)
				}
				for _, c := range conns {
					if err := errors.Join(c.(*Conn).SetLinger(0), c.Close()); err != nil {
						t.Error(err)
					}
				}
				if err := l.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestTend checks that a call that waits for events notices sends of other calls, so that a send that
// fails ends its wait.
func TestTend(t *testing.T) {
	f := newFabric(t, rdmatest.RXE)
	a, _ := f.pair(Config{})
	stuck, resume := f.Pause()
	defer resume()
	alone := func() { // as if a call waited that had nothing under way when it began
		a.conn.Mu.Lock()
		defer a.conn.Mu.Unlock()
		a.conn.Waiting, a.conn.Sends.Armed = true, netconn.ArmedForNone
	}
	for name, call := range map[string]func() (int, error){
		"Write": func() (int, error) { return a.Write([]byte("hello")) },
		"Read":  func() (int, error) { n, _, err := a.conn.TryRead(make([]byte, 1)); return n, err },
	} {
		if name == "Read" {
			a.conn.Mu.Lock()
			a.stream.keepAlive() // what Read might send
			a.conn.Mu.Unlock()
		}
		alone()
		if _, err := call(); err != nil {
			t.Error(err)
		}
		a.conn.Mu.Lock()
		if a.stream.sent == 0 || a.conn.Sends.Armed != netconn.ArmedForFailures {
			t.Errorf("after %s: %d slots in use, armed %v", name, a.stream.sent, a.conn.Sends.Armed)
		}
		a.conn.Waiting = false
		a.conn.Mu.Unlock()
	}
	<-stuck
}

// TestArmForRoom checks that a call that waits for room in the send queue or the send buffer is woken
// by each send that completes. A call that waits for the peer is not.
func TestArmForRoom(t *testing.T) {
	for name, tc := range map[string]struct {
		kind rdmatest.Kind
		cfg  Config
		want netconn.Armed
	}{
		"offer":      {rdmatest.RXE, Config{RecvBuffer: leastBuffer}, netconn.ArmedForFailures},
		"offer, siw": {rdmatest.SIW, Config{RecvBuffer: leastBuffer}, netconn.ArmedForNone}, // which has no events for failures
		"buffer":     {rdmatest.RXE, Config{SendBuffer: leastBuffer}, netconn.ArmedForAll},
		"queue":      {rdmatest.RXE, Config{SendQueue: leastQueue}, netconn.ArmedForAll},
	} {
		f := newFabric(t, tc.kind)
		a, _ := f.pair(tc.cfg)
		stuck, resume := f.Pause()
		a.conn.Mu.Lock()
		a.conn.Waiting = true // as if a Read waited
		a.conn.Mu.Unlock()
		size := 4 * leastBuffer
		if name == "queue" {
			size = 1
		}
		for range leastQueue + 1 {
			if _, _, err := a.conn.TrySend(make([]byte, size), 0, netconn.Protocol.Write); err != nil {
				t.Fatal(err)
			}
		}
		a.conn.Mu.Lock()
		if a.conn.Sends.Armed != tc.want {
			t.Errorf("%s: armed for %v, want %v", name, a.conn.Sends.Armed, tc.want)
		}
		a.conn.Waiting = false
		a.conn.Mu.Unlock()
		<-stuck
		resume()
	}
}

// TestArmIgnored checks that an event of the send queue may be unread when the queue is armed again.
// Some devices ignore that arm. Shutdown arms it once more behind the event, and so hears of the last
// completion.
func TestArmIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, rdmatest.ERDMA)
		a, _ := f.pair(Config{})
		post := func() {
			a.conn.Mu.Lock()
			defer a.conn.Mu.Unlock()
			a.conn.Progress()
			a.stream.keepAlive()
			a.conn.Watch()
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

// TestKeepAliveArms checks that a keep-alive arms the send queue only if a call waits for events. An
// idle connection pays for no system call on rxe, and its end wakes nobody.
func TestKeepAliveArms(t *testing.T) {
	f := newFabric(t, rdmatest.RXE)
	a, _ := f.pair(Config{})
	_, resume := f.Pause()
	defer resume()
	for _, waiting := range []bool{false, true} {
		a.conn.Mu.Lock()
		a.conn.Waiting = waiting
		a.stream.keepAlive()
		a.conn.Tend()
		want := netconn.ArmedForNone
		if waiting {
			want = netconn.ArmedForFailures
		}
		if a.stream.sent == 0 || a.conn.Sends.Armed != want {
			t.Errorf("waiting %v: %d slots in use, armed %v", waiting, a.stream.sent, a.conn.Sends.Armed)
		}
		a.conn.Waiting = false
		a.conn.Mu.Unlock()
	}
}

// TestKeepAliveSilent checks that over iWARP the side that accepted sends keep-alives to a peer that
// has never spoken, but not before that peer has the answer to its connect request.
func TestKeepAliveSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, rdmatest.SIW)
		l, err := (&ListenConfig{Config: Config{MaxIdleTimeout: 4 * time.Second}}).Listen(t.Context(), fabricHost+":0")
		if err != nil {
			t.Fatal(err)
		}
		accepted := acceptAndHold(l)
		z, err := new(Config).withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		peer := newConn()
		d := rdmacm.Dialer{Config: z.rdmacm()}
		d.Prepare = func(rc *rdmacm.Conn) error { return peer.prepare(rc, &z) }
		rc, err := d.Dial(t.Context(), l.Addr().String())
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

// TestCycles connects, talks and closes, again and again, over each kind of device: no
// goroutine and no memory is left.
func TestCycles(t *testing.T) {
	anywhere(t, func(t *testing.T, f *fabric) {
		l, err := f.listen(Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		conntest.Cycles(t, 1, func() error { return f.cycle(l) })
	})
}

// cycle is the life of a connection.
func (f *fabric) cycle(l *Listener) error {
	said := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, err = io.Copy(c, c)
			err = errors.Join(err, c.Close())
		}
		said <- err
	}()
	c, err := f.dial(context.Background(), l, Config{})
	if err != nil {
		return err
	}
	text := make([]byte, 5)
	if _, err = c.Write([]byte("hello")); err == nil {
		_, err = io.ReadFull(c, text)
	}
	if err == nil && string(text) != "hello" {
		err = fmt.Errorf("%q came back", text)
	}
	return errors.Join(err, c.Close(), <-said)
}
