package valkeyrdma

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
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

// TestConn checks that a connection behaves as a net.Conn, also with the smallest buffers.
func TestConn(t *testing.T) {
	for _, kind := range kinds {
		for name, cfg := range map[string]Config{"default": {}, "least": {SendBuffer: leastBuffer, RecvBuffer: leastBuffer}} {
			t.Run(kind.String()+" "+name, func(t *testing.T) {
				f := newFabric(t, kind)
				cfg.MaxIdleTimeout = -1
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

// TestArm checks that a keep-alive of a connection whose calls do not wait raises no event, and one
// behind which a Read waits raises one only if it fails. A Write that waits for room is woken by each
// send that completes.
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
			a.conn.Mu.Lock()
			for a.stream.outstanding() > 0 {
				a.stream.flush()
				a.conn.Progress()
			}
			a.conn.Sends.Armed = netconn.ArmedForNone // whatever the Read asked for
			a.conn.Waiting = test.waiting
			a.conn.Mu.Unlock()
			stuck, resume := f.Pause()
			if test.write {
				if _, _, err := a.conn.TrySend(make([]byte, 4*leastBuffer), 0, netconn.Protocol.Write); err != nil {
					t.Error(err)
				}
			}
			a.conn.Mu.Lock()
			a.stream.keepAlive()
			a.conn.Tend()
			if a.conn.Sends.Armed != test.want || a.stream.outstanding() == 0 {
				t.Errorf("armed %v, %d sends", a.conn.Sends.Armed, a.stream.outstanding())
			}
			a.conn.Waiting = false
			a.conn.Mu.Unlock()
			<-stuck
			resume()
		})
	}
}

// TestNoMemory checks that if this machine has no memory for a connection, the peer is refused, the
// error of Accept is a temporary one, and nothing is left. Only a peer that has completed its
// connection costs a receive buffer: if there is none, the connection ends. If memory is lacking
// later, a Write fails, and may be repeated.
func TestNoMemory(t *testing.T) {
	f := newFabric(t, rdmatest.RXE)
	l, err := Listen(t.Context(), fabricHost+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan any, 1)
	accept := func() {
		c, err := l.Accept()
		if err != nil {
			accepted <- err
		} else {
			accepted <- c
		}
	}
	before := f.Host(0).Device(0).Objects()
	for region := range 3 {
		fault := f.Host(0).Device(0).Fail(rdmatest.CallRegMR, region, syscall.ENOMEM)
		go accept()
		peer, err := rdmacm.Dial(t.Context(), l.Addr().String())
		if isBuffer := region == 2; isBuffer != (err == nil) || !isBuffer && !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("region %d: %v", region, err)
		}
		if peer != nil {
			<-peer.Done()
			peer.Close()
		}
		err, _ = (<-accepted).(error)
		var op interface{ Temporary() bool }
		if !errors.Is(err, syscall.ENOMEM) || !errors.As(err, &op) || !op.Temporary() {
			t.Error(err)
		}
		if !fault.Struck() {
			t.Errorf("region %d is not registered", region)
		}
		if after := f.Host(0).Device(0).Objects(); len(after) != len(before) {
			t.Errorf("%q, before %q", after, before)
		}
	}
	if s := l.Stats(); s.Requests != 3 || s.Accepted != 0 || s.Failed != 3 {
		t.Errorf("%+v", s)
	}
	go accept()
	a, err := Dial(t.Context(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b := (<-accepted).(*Conn)
	defer b.Close()
	f.Host(0).Device(0).Fail(rdmatest.CallRegMR, 0, syscall.ENOMEM)
	data := bytes.Repeat([]byte("large"), 100)
	if n, err := a.Write(data); n != 0 || !errors.Is(err, syscall.ENOMEM) {
		t.Errorf("%d, %v", n, err)
	}
	if err := write(a, data); err != nil {
		t.Error(err)
	}
	if got, err := read(b, len(data)); !bytes.Equal(got, data) || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// TestPinned checks that an idle connection pins no more than its documentation says, and one that
// receives much no more than its configuration says.
func TestPinned(t *testing.T) {
	f := newFabric(t, rdmatest.RXE)
	a, b := f.pair(Config{})
	size := func(c *Conn) (n int) {
		c.conn.Mu.Lock()
		defer c.conn.Mu.Unlock()
		r := &c.conn.Receives
		for _, size := range []int{r.Count * len(r.Bytes(0)), len(c.verbs.control.Bytes()), len(c.verbs.shared.Bytes()), len(c.stream.own.data)} {
			n += (size + 4095) &^ 4095
		}
		return n
	}
	idle := len(f.Host(0).Device(0).Objects())
	for _, c := range []*Conn{a, b} {
		if n := size(c); n != 36<<10+defaultRecvBuffer {
			t.Errorf("an idle connection pins %d bytes", n)
		}
	}
	data := make([]byte, 3<<20)
	written := make(chan error, 1)
	go func() { written <- write(a, data) }()
	if _, err := read(b, len(data)); err != nil {
		t.Error(err)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
	if n := size(b); n != 36<<10+defaultRecvBuffer {
		t.Errorf("a connection that has received much pins %d bytes", n)
	}
	if n := size(a); n != 36<<10+defaultRecvBuffer+defaultSendBuffer {
		t.Errorf("a connection that has sent much pins %d bytes", n)
	}
	if n := len(f.Host(0).Device(0).Objects()); n != idle+1 { // the send buffer
		t.Errorf("%d objects, and there were %d when it was idle", n, idle)
	}
}

// TestRefused checks that siw has no RDMA WRITE with immediate data. Both ends name the device and
// the reason. Accept does so once: a server waits after each error, which would keep out the peers of
// other devices.
func TestRefused(t *testing.T) {
	newFabric(t, rdmatest.SIW)
	l, err := Listen(t.Context(), fabricHost+":0")
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

// TestIdle checks that an idle connection reposts its receives without any call, so it survives any
// number of Valkey's keep-alives.
func TestIdle(t *testing.T) {
	for name, cfg := range map[string]Config{"keep-alives": {}, "none": {MaxIdleTimeout: -1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFabric(t, rdmatest.RXE)
				a, b := f.pair(cfg)
				for range 3 * recvs {
					time.Sleep(3 * time.Second)
					b.conn.Mu.Lock()
					b.conn.Progress()
					(&command{op: keepAlive}).put(b.stream.own.control[answerAt.off:])
					b.stream.m = message{control: true, data: [2]piece{answerAt}}
					if err := b.stream.post(0, true); err != nil {
						t.Fatal(err)
					}
					b.conn.Mu.Unlock()
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

// TestPeerGone checks that a connection notices that the peer's machine is gone, even if it is idle.
func TestPeerGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.MLX5, Strict: true})
		l, err := Listen(t.Context(), f.Host(1).Addr()+":0")
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

// TestHeldBack checks that data that is held back after many notices is sent without a further call.
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

// TestEnd checks that after the peer's end, Read returns all of its data and then io.EOF. The first
// Write succeeds, the next one fails.
func TestEnd(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.String(), func(t *testing.T) {
			f := newFabric(t, kind)
			a, b := f.pair(Config{})
			if err := errors.Join(write(a, []byte("bye")), a.Shutdown(t.Context())); err != nil {
				t.Fatal(err)
			}
			<-b.conn.RC.Done()
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

// TestSlowReader checks that an end whose program reads nothing for long is not disconnected, however
// many notices it gets. It has set the peer's RNR retry count to zero, as Valkey's server does.
func TestSlowReader(t *testing.T) {
	f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.MLX5}) // not strict: the receives run out
	ctx := f.Host(0).Context(t.Context())
	cfg, err := new(Config).withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	peer := newConn(&cfg)
	cm := cfg.rdmacm()
	cm.Prepare = func(rc *rdmacm.Conn) error { return peer.prepare(rc) }
	cm.PeerRNRRetryCount = -1
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
	if err := peer.begin(<-accepted, false); err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	const notices = 3 * recvs
	written := make(chan error, 1)
	go func() {
		for range notices {
			a.conn.Mu.Lock()
			a.stream.unheard = 0 // otherwise it would hold data back
			a.conn.Mu.Unlock()
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
	c.conn.Mu.Lock()
	defer c.conn.Mu.Unlock()
	return int(c.stream.posted >> 32)
}

// TestConfigLinger checks that Linger of a Dialer and of a ListenConfig applies to the connection. If
// positive, Close waits for data that is stuck, and if negative, Close discards it.
func TestConfigLinger(t *testing.T) {
	for _, dialled := range []bool{true, false} {
		for _, linger := range []time.Duration{time.Millisecond, -1} {
			t.Run(fmt.Sprintf("dialled %v, %v", dialled, linger), func(t *testing.T) {
				f := newFabric(t, rdmatest.RXE)
				a, b := f.pair(Config{Linger: linger})
				if !dialled {
					a, b = b, a
				}
				_, resume := f.Pause()
				if err := write(a, []byte("discarded")); err != nil {
					t.Fatal(err)
				}
				err := a.Close()
				if linger < 0 && err != nil || linger > 0 && !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Error(err)
				}
				resume()
				if got, err := io.ReadAll(b); len(got) > 0 {
					t.Errorf("%q, %v", got, err)
				}
			})
		}
	}
}
