package valkeyrdma

import (
	"bytes"
	"errors"
	"io"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/nettest"

	"github.com/goverbs/goverbs/internal/netconn"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
)

// TestConn: a connection behaves as a net.Conn, also with the smallest buffers.
func TestConn(t *testing.T) {
	for _, kind := range kinds {
		for name, cfg := range map[string]Config{"default": {}, "least": {SendBuffer: leastBuffer, RecvBuffer: leastBuffer}} {
			t.Run(kind.String()+" "+name, func(t *testing.T) {
				f := newFabric(t, kind)
				cfg.KeepAlive = -1
				nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
					a, b, err := f.pipe(cfg)
					return a, b, func() { a.Close(); b.Close() }, err
				})
			})
		}
	}
}

// write writes b, and read reads n bytes.
func write(c *Conn, b []byte) error {
	_, err := c.Write(b)
	return err
}

func read(c *Conn, n int) ([]byte, error) {
	b := make([]byte, n)
	_, err := io.ReadFull(c, b)
	return b, err
}

// TestBothWays sends values of 0 bytes to 64 MiB in both directions at once. Both ends first write more than fits into
// the buffers, so neither direction may wait for the other.
func TestBothWays(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.String(), func(t *testing.T) {
			f := newFabric(t, kind)
			a, b := f.pair(Config{RecvBuffer: 256 << 10})
			sizes := []int{1, 4095, 1 << 20, 64 << 20}
			if testing.Short() {
				sizes[3] = 4 << 20
			}
			for _, n := range sizes {
				var all sync.WaitGroup
				for i, c := range []*Conn{a, b} {
					data := bytes.Repeat([]byte{byte(i), 1, 2, 3, 5, 7, 11}, n/7+1)[:n]
					all.Go(func() {
						if err := write(c, data); err != nil {
							t.Error(err)
						}
					})
					all.Go(func() {
						got, err := read([]*Conn{b, a}[i], n)
						if err != nil || !bytes.Equal(got, data) {
							t.Errorf("%d bytes: %v", n, err)
						}
					})
				}
				all.Wait()
			}
		})
	}
}

// TestManyConnections uses a thousand connections, which must not have a goroutine each.
func TestManyConnections(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	// The time of mlx5's model grows with the square of the number of connections.
	for kind, many := range map[rdmatest.Kind]int{rdmatest.RXE: 1000, rdmatest.MLX5: 100} {
		t.Run(kind.String(), func(t *testing.T) {
			newFabric(t, kind)
			cfg := Config{SendBuffer: leastBuffer, RecvBuffer: leastBuffer}
			l, err := (&ListenConfig{Config: cfg}).Listen(t.Context(), fabricHost+":0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			accepted := make(chan *Conn, many)
			go func() {
				for range many {
					c, err := l.Accept()
					if err != nil {
						t.Error(err)
						break
					}
					accepted <- c.(*Conn)
				}
				close(accepted)
			}()
			var dialled []*Conn
			for range many {
				c, err := (&Dialer{Config: cfg}).Dial(t.Context(), l.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				dialled = append(dialled, c)
			}
			peers := make(map[string]*Conn)
			for c := range accepted {
				t.Cleanup(func() { c.Close() })
				peers[c.RemoteAddr().String()] = c
			}
			if n := runtime.NumGoroutine(); n > 100 {
				t.Errorf("%d goroutines", n)
			}
			for i, c := range dialled {
				text := []byte(strings.Repeat(strconv.Itoa(i), 100))
				if err := write(c, text); err != nil {
					t.Fatal(err)
				}
				if got, err := read(peers[c.LocalAddr().String()], len(text)); err != nil || !bytes.Equal(got, text) {
					t.Fatalf("%q, %v", got, err)
				}
			}
		})
	}
}

// TestArm: a keep-alive of a connection whose calls do not wait raises no event, and one behind which a Read
// waits raises one only if it fails. A Write that waits for room is woken by each send that completes.
func TestArm(t *testing.T) {
	for name, test := range map[string]struct {
		waiting, write bool
		want           netconn.Armed
	}{"nobody": {false, false, netconn.ArmedForNone}, "Read": {true, false, netconn.ArmedForFailures}, "Write": {true, true, netconn.ArmedForAll}} {
		t.Run(name, func(t *testing.T) {
			f := newFabric(t, rdmatest.RXE)
			a, b := f.pair(Config{SendBuffer: leastBuffer})
			for _, c := range []*Conn{a, b} { // each has the other's buffer
				if err := write(c, []byte{1}); err != nil {
					t.Fatal(err)
				}
			}
			for _, c := range []*Conn{a, b} {
				if _, err := read(c, 1); err != nil {
					t.Fatal(err)
				}
			}
			a.mu.Lock()
			for a.stream.outstanding() > 0 {
				a.stream.flush()
				a.progress()
			}
			a.sends.Armed = netconn.ArmedForNone // whatever the Read asked for
			a.calls.Waiting = test.waiting
			a.mu.Unlock()
			stuck, resume := f.Pause()
			if test.write {
				if _, _, err := a.tryWrite(make([]byte, 4*leastBuffer), true); err != nil {
					t.Error(err)
				}
			}
			a.tick(time.Hour, true)
			a.mu.Lock()
			if a.sends.Armed != test.want || a.stream.outstanding() == 0 {
				t.Errorf("armed %v, %d sends", a.sends.Armed, a.stream.outstanding())
			}
			a.calls.Waiting = false
			a.mu.Unlock()
			<-stuck
			resume()
		})
	}
}

// TestBuffersLate: Accept allocates the buffers of a connection, so that peers that do not complete theirs pin
// little. If it fails, the peer is disconnected, the error is a temporary one, and nothing is left.
func TestBuffersLate(t *testing.T) {
	f := newFabric(t, rdmatest.RXE)
	l, err := Listen(fabricHost + ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for buffer := 1; buffer <= 2; buffer++ {
		before := f.Host(0).Device(0).Objects()
		fault := f.Host(0).Device(0).Fail(rdmatest.CallRegMR, buffer, syscall.ENOMEM) // behind the one of prepare
		accepted := make(chan error, 1)
		go func() {
			_, err := l.Accept()
			accepted <- err
		}()
		peer, err := rdmacm.Dial(t.Context(), l.Addr().String())
		if err != nil {
			t.Fatal(err) // it is established before there are buffers
		}
		err = <-accepted
		var op interface{ Temporary() bool }
		if !errors.Is(err, syscall.ENOMEM) || !errors.As(err, &op) || !op.Temporary() {
			t.Error(err)
		}
		<-peer.Done()
		if err := peer.Close(); err != nil {
			t.Error(err)
		}
		if !fault.Struck() {
			t.Error("the buffer is not registered")
		}
		if after := f.Host(0).Device(0).Objects(); len(after) != len(before) {
			t.Errorf("%q, before %q", after, before)
		}
	}
}

// TestRefused: siw has no RDMA WRITE with immediate data. Both ends name the device and the reason. Accept does so
// once: a server waits after each error, which would keep out the peers of other devices.
func TestRefused(t *testing.T) {
	newFabric(t, rdmatest.SIW)
	l, err := Listen(fabricHost + ":0")
	if err != nil {
		t.Fatal(err)
	}
	check := func(err error) {
		t.Helper()
		if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "device siw0") || !strings.Contains(err.Error(), "RDMA WRITE with immediate data") {
			t.Error(err)
		}
	}
	_, err = Dial(t.Context(), l.Addr().String())
	check(err)
	refused := func() {
		t.Helper()
		if c, err := rdmacm.Dial(t.Context(), l.Addr().String()); err == nil {
			c.Close()
			t.Error("the peer is connected")
		}
	}
	accepted := make(chan error)
	go func() {
		for range 2 {
			_, err := l.Accept()
			accepted <- err
		}
	}()
	refused()
	err = <-accepted
	check(err)
	var op interface{ Temporary() bool }
	if !errors.As(err, &op) || !op.Temporary() {
		t.Errorf("%v ends the listener", err)
	}
	for range 3 { // one error is enough to know
		refused()
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := <-accepted; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// TestIdle: an idle connection reposts its receives without any call, so it survives any number of Valkey's
// keep-alives.
func TestIdle(t *testing.T) {
	for name, cfg := range map[string]Config{"keep-alives": {}, "none": {KeepAlive: -1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFabric(t, rdmatest.RXE)
				a, b := f.pair(cfg)
				for range 3 * recvs {
					time.Sleep(3 * time.Second)
					b.mu.Lock()
					b.progress()
					answer := b.stream.own.answer()
					(&command{op: keepAlive}).put(b.stream.own.own[answer.off:])
					b.stream.m = message{control: true, data: [2]piece{answer}}
					if err := b.stream.post(0, true); err != nil {
						t.Fatal(err)
					}
					b.mu.Unlock()
				}
				if err := write(b, []byte("hello")); err != nil {
					t.Error(err)
				}
				if got, err := read(a, 5); string(got) != "hello" || err != nil {
					t.Errorf("%q, %v", got, err)
				}
			})
		})
	}
}

// TestPeerGone: a connection notices that the peer's machine is gone, even if it is idle.
func TestPeerGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.MLX5, Strict: true})
		l, err := Listen(f.Host(1).Addr() + ":0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		accepted := make(chan net.Conn, 1)
		go func() {
			c, err := l.Accept()
			if err != nil {
				t.Error(err)
			}
			accepted <- c
		}()
		c, err := Dial(f.Host(0).Context(t.Context()), l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		defer (<-accepted).Close()
		heal := f.Partition(f.Host(0), f.Host(1))
		defer heal()
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
	})
}

// TestHeldBack: data that is held back after many notices is sent without a further call.
func TestHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, rdmatest.RXE)
		a, b := f.pair(Config{})
		const writes = 3 * mostUnheard
		for range writes {
			if err := write(a, []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * holdTime)
		if _, err := read(b, writes); err != nil {
			t.Error(err)
		}
	})
}

// TestEnd: after the peer's end, Read returns all of its data and then io.EOF. The first Write succeeds, the next one
// fails.
func TestEnd(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.String(), func(t *testing.T) {
			f := newFabric(t, kind)
			a, b := f.pair(Config{})
			if err := errors.Join(write(a, []byte("bye")), a.Shutdown(t.Context())); err != nil {
				t.Fatal(err)
			}
			<-b.rc.Done()
			if err := write(b, []byte("late")); err != nil {
				t.Error(err)
			}
			if got, err := io.ReadAll(b); string(got) != "bye" || err != nil {
				t.Errorf("%q, %v", got, err)
			}
			if err := write(b, []byte("late")); !errors.Is(err, syscall.EPIPE) {
				t.Error(err)
			}
			if err := a.Close(); !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
		})
	}
}

// TestSlowReader: an end whose program reads nothing for long is not disconnected, however many notices it gets. It has
// set the peer's RNR retry count to zero, as Valkey's server does.
func TestSlowReader(t *testing.T) {
	f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.MLX5}) // not strict: the receives run out
	ctx := f.Host(0).Context(t.Context())
	cfg, err := new(Config).withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	peer := newConn()
	cm := cfg.rdmacm(peer.verbs.prepare)
	cm.RNRRetryCount = -1
	l, err := (&rdmacm.ListenConfig{Config: cm}).Listen(t.Context(), f.Host(1).Addr()+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan *rdmacm.Conn, 1)
	go func() {
		rc, err := l.Accept(t.Context())
		if err != nil {
			t.Error(err)
		}
		accepted <- rc
	}()
	a, err := Dial(ctx, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	peer.begin(<-accepted, &cfg, false)
	defer peer.Close()
	const notices = 3 * recvs
	written := make(chan error, 1)
	go func() {
		for range notices {
			a.mu.Lock()
			a.stream.unheard = 0 // otherwise it would hold data back
			a.mu.Unlock()
			if err := write(a, []byte("x")); err != nil {
				written <- err
				return
			}
		}
		written <- nil
	}()
	for a.sentSlots() < recvs+dataSlots/2 { // the peer's receives are used up
		runtime.Gosched()
	}
	if _, err := read(peer, notices); err != nil {
		t.Error(err)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
}

func (c *Conn) sentSlots() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int(c.stream.posted >> 32)
}
