package msg

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// registered returns how many bytes are registered for large messages.
func (w *world) registered(c *Conn) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.mems {
		if !m.closed && m.access&verbs.AccessRemoteRead != 0 {
			n += len(m.b)
		}
	}
	return n
}

// watchedLink fails the test when memory is registered under the connection's lock.
type watchedLink struct {
	*fakeEnd
	t *testing.T
}

func (l watchedLink) register(b []byte, access verbs.Access) (memory, error) {
	if c := l.conn; !c.mu.TryLock() {
		l.t.Error("the connection is locked while memory is registered")
	} else {
		c.mu.Unlock()
	}
	return l.fakeEnd.register(b, access)
}

// TestRequestsToSendTakeNoMemory checks that requests to send (RTS), which cost the peer 40
// bytes each, make this side register one first piece of memory at most. It registers more
// only after the peer has proved that it has the message.
func TestRequestsToSendTakeNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := (&Config{EagerSize: 64, Window: 16, MaxMessage: 64 << 20}).shape()
		if err != nil {
			t.Fatal(err)
		}
		w := newWorld(t, s)
		w.open()
		w.settle()
		c := w.ends[0].conn
		c.link = watchedLink{w.ends[0], t}
		c.heap.register = c.link.register
		for i := range uint64(rendezvous) {
			at := make([]byte, rtsSize)
			rts{1 << 40, 64 << 20 >> i, 7}.put(at)
			w.inject(bytesOfFrame(frame{typ: typeRTS, limit: 17, cookie: i + 1}, at...))
		}
		received := make(chan error, 1)
		go func() { _, err := c.Recv(t.Context()); received <- err }()
		synctest.Wait()
		if n := w.registered(c); n != firstPiece {
			t.Errorf("%d bytes are registered", n)
		}
		w.settle()
		if err := <-received; !errors.Is(err, rdmacm.ErrDisconnected) { // the fake link's error for any end
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestLargeMessagesGrow checks that large messages of all sizes arrive whole, in buffers that grow or
// are reused, and their memory stays within the budget.
func TestLargeMessagesGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := (&Config{EagerSize: 64, Window: 16, MaxMessage: 4 << 20, MaxMemory: 4 << 20}).shape()
		if err != nil {
			t.Fatal(err)
		}
		w := newWorld(t, s)
		for _, e := range w.ends {
			e.conn.link = watchedLink{e, t}
			e.conn.heap.register = e.conn.link.register
		}
		w.open()
		stop := w.run()
		defer stop()
		a, b := w.ends[0].conn, w.ends[1].conn
		r := rand.New(rand.NewPCG(1, 2))
		for _, n := range []int{65, firstPiece, firstPiece + 1, 4 << 20, 1 << 20, 3<<20 + 17, 100_000, 4<<20 - 1, 70_000} {
			want := make([]byte, n)
			for i := range want {
				want[i] = byte(r.Uint32())
			}
			if err := a.Send(t.Context(), want); err != nil {
				t.Fatal(err)
			}
			m, err := b.Recv(t.Context())
			if err != nil || !bytes.Equal(m.Bytes(), want) {
				t.Fatal(n, err)
			}
			m.Release()
			g := b.heap.account.budget
			g.mu.Lock()
			if g.used > g.most {
				t.Errorf("%d bytes of %d", g.used, g.most)
			}
			g.mu.Unlock()
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if err := b.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if err := a.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if err := b.heap.Close(); err != nil { // as the connection manager does
			t.Error(err)
		}
		if g := b.heap.account.budget; g.used != 0 {
			t.Errorf("%d bytes are left", g.used)
		}
	})
}

// TestPoolBudget checks that if the messages that a program has not released use all memory of a
// pool, further large messages wait, but small ones do not. Releasing a message lets the connection
// continue that has waited longest.
func TestPoolBudget(t *testing.T) {
	for _, kind := range rdmatest.Kinds {
		t.Run(kind.String(), func(t *testing.T) {
			f := newFabric(t, kind)
			dev, err := uverbs.Open(f.Host(0).Device(0).Name())
			if err != nil {
				t.Fatal(err)
			}
			closeLater(t, dev)
			cfg := small
			cfg.MaxMemory = 8192
			if cfg.Pool, err = NewPool(dev, 4, &cfg); err != nil {
				t.Fatal(err)
			}
			closeLater(t, cfg.Pool)
			var clients, servers []*Conn
			for range 4 {
				l := listen(t, &cfg)
				a, b, err1, err2 := meet(t, l, &small)
				if err := errors.Join(err1, err2); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { bothFree(t, a, b) })
				clients, servers = append(clients, a), append(servers, b)
				if err := a.Send(t.Context(), make([]byte, 4000)); err != nil {
					t.Fatal(err)
				}
			}
			kept := make([]*Message, 2)
			for i := range kept {
				if kept[i], err = servers[i].Recv(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			got := make(chan *Message, 2)
			var waits sync.WaitGroup
			for _, c := range servers[2:] {
				waits.Go(func() {
					m, err := c.Recv(patiently(t))
					if err != nil {
						t.Error(err)
					}
					got <- m
				})
			}
			if err := clients[0].Send(t.Context(), []byte("small")); err != nil {
				t.Fatal(err)
			}
			receiveOne(t, servers[0], 5)
			if len(got) > 0 {
				t.Error("it did not wait")
			}
			for _, m := range kept {
				m.Release()
				next := <-got
				g := &cfg.Pool.budget
				g.mu.Lock()
				if g.used > g.most {
					t.Errorf("%d bytes of %d", g.used, g.most)
				}
				g.mu.Unlock()
				next.Release()
			}
			waits.Wait()
		})
	}
}

// TestBudgetRefused checks that Listen refuses a budget that is too small for the longest message.
func TestBudgetRefused(t *testing.T) {
	f := newFabric(t, rdmatest.RXE)
	pooled := Config{MaxMessage: 1 << 30, Pool: newPool(t, f, 1)}
	for name, cfg := range map[string]Config{
		"less than a message": {MaxMessage: 5000, MaxMemory: 8191}, "negative": {MaxMemory: -1}, "a small pool": pooled,
	} {
		if _, err := (&ListenConfig{Config: cfg}).Listen(t.Context(), anyPort); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBudgetLeave checks that a connection that closes while it waits for memory leaves the queue and
// releases its memory.
func TestBudgetLeave(t *testing.T) {
	g := &budget{most: 8}
	var woken []string
	join := func(name string) *account {
		return &account{budget: g, wake: func() { woken = append(woken, name) }}
	}
	a, b, c := join("a"), join("b"), join("c")
	for _, x := range []*account{a, b, c} {
		x.toReceive(8)
	}
	b.close()
	if _, _, ok := c.toReceive(8); ok || len(woken) > 0 {
		t.Error("it did not wait", woken)
	}
	a.close()
	if _, _, ok := c.toReceive(8); !ok || len(woken) != 1 || woken[0] != "c" || g.used != 8 {
		t.Error(ok, woken, g.used)
	}
	c.giveUp(8)
	if c.close(); g.used != 0 {
		t.Error("left:", g.used)
	}
}

// TestHeapClosedWhileRegistering checks that Close of a heap waits for a registration in progress,
// and then closes the registered memory.
func TestHeapClosedWhileRegistering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, goOn := make(chan struct{}), make(chan struct{})
		e := newWorld(t, testShape(t)).ends[0]
		h := &heap{register: func(b []byte, a verbs.Access) (memory, error) {
			close(begun)
			<-goOn
			return e.register(b, a)
		}}
		added := make(chan memory, 1)
		go func() {
			m, err := h.add(make([]byte, 8), 0)
			if err != nil {
				t.Error(err)
			}
			added <- m
		}()
		<-begun
		closed := make(chan error, 1)
		go func() { closed <- h.Close() }()
		synctest.Wait()
		if len(closed) > 0 {
			t.Error("it did not wait")
		}
		close(goOn)
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if m := (<-added).(*fakeMem); !m.closed {
			t.Error("a registration is left")
		}
		if _, err := h.add(make([]byte, 8), 0); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
}
