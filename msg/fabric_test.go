package msg

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"testing"

	"github.com/goverbs/goverbs/internal/conntest"
	"github.com/goverbs/goverbs/oob"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
)

// onFabrics runs a test on a machine of each transport, with connections that have
// everything to themselves, and with connections of a pool.
func onFabrics(t *testing.T, test func(t *testing.T, f *rdmatest.Fabric, cfg Config)) {
	for _, kind := range rdmatest.Kinds {
		t.Run(kind.String(), func(t *testing.T) {
			t.Run("alone", func(t *testing.T) {
				test(t, newFabric(t, kind), small)
			})
			t.Run("pool", func(t *testing.T) {
				f, cfg := newFabric(t, kind), small
				cfg.Pool = newPool(t, f, 4)
				test(t, f, cfg)
			})
		})
	}
}

// anywhere runs a test as onFabrics does, and then with connections over streams, on the devices that can have them.
func anywhere(t *testing.T, test func(t *testing.T, f *rdmatest.Fabric, cfg Config)) {
	onFabrics(t, test)
	for _, kind := range []rdmatest.Kind{rdmatest.RXE, rdmatest.MLX5} {
		t.Run("streams/"+kind.String(), func(t *testing.T) {
			t.Run("alone", func(t *testing.T) {
				f := newFabric(t, kind)
				streams = &oob.Config{PD: conntest.OpenPD(t, f.Host(0).Device(0))}
				defer func() { streams = nil }()
				test(t, f, small)
			})
			t.Run("pool", func(t *testing.T) {
				f, cfg := newFabric(t, kind), small
				cfg.Pool = newPool(t, f, 4)
				streams = &oob.Config{}
				defer func() { streams = nil }()
				test(t, f, cfg)
			})
		})
	}
}

// streams is for the connections of a test of anywhere, and nil while they use the connection manager.
var streams *oob.Config

// pipes are those of the listeners over streams.
var pipes sync.Map

func listenOn(t *testing.T, cfg *Config) (*Listener, error) {
	lc := &ListenConfig{Config: *cfg}
	if streams == nil {
		return lc.Listen(t.Context(), anyPort)
	}
	p := conntest.NewPipes()
	l, err := lc.ListenOver(p, streams)
	pipes.Store(l, p)
	return l, err
}

// dialTo dials a listener of listenOn.
func dialTo(ctx context.Context, l *Listener, cfg *Config) (*Conn, error) {
	d := &Dialer{Config: *cfg}
	if p, ok := pipes.Load(l); ok {
		return d.DialOver(ctx, p.(*conntest.Pipes).Dial(), streams)
	}
	return d.Dial(ctx, l.Addr().String())
}

// small are connections that are quickly made and filled.
var small = Config{EagerSize: 64, Window: 8, MaxMessage: 4096}

// newPool is a pool that is closed, with its device, when the test ends.
func newPool(t *testing.T, f *rdmatest.Fabric, conns int) *Pool {
	t.Helper()
	dev, err := uverbs.Open(f.Host(0).Device(0).Name())
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, dev)
	p, err := NewPool(dev, conns, &small)
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, p)
	return p
}

// closeLater closes an object at the end of the test, unless the test has closed it.
func closeLater(t *testing.T, c interface{ Close() error }) {
	t.Cleanup(func() {
		if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
}

// host is the address of the only host.
const host, anyPort = "198.51.100.1", "198.51.100.1:0"

// newFabric is a fabric of one host, on which no end makes mistakes.
func newFabric(t *testing.T, kind rdmatest.Kind) *rdmatest.Fabric {
	d := rdmatest.DeviceOptions{Addrs: []netip.Addr{netip.MustParseAddr(host)}}
	return rdmatest.NewWith(t, &rdmatest.Options{Kind: kind, Strict: true, Hosts: []rdmatest.HostOptions{{Devices: []rdmatest.DeviceOptions{d}}}})
}

func listen(t *testing.T, cfg *Config) *Listener {
	t.Helper()
	l, err := listenOn(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, l)
	return l
}

// meet dials a listener of both ends' own. One end may fail and the other not; then the
// other is closed.
func meet(t *testing.T, l *Listener, cfg *Config) (dialled, accepted *Conn, dialErr, acceptErr error) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	dialing, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if accepted, acceptErr = l.Accept(ctx); errors.Is(acceptErr, ErrPoolFull) { // the dial is repeated
			_, acceptErr = l.Accept(ctx)
			stop()
		}
	}()
	dialled, dialErr = dialTo(dialing, l, cfg)
	var rejected *rdmacm.RejectedError
	if dialErr != nil && !errors.As(dialErr, &rejected) { // otherwise Accept is about to return the cause
		cancel()
	}
	<-done
	if dialErr != nil && acceptErr == nil {
		acceptErr = accepted.Close()
	}
	if dialErr == nil && acceptErr != nil {
		dialErr = dialled.Close()
	}
	return
}

// connect makes both ends of a connection, which are closed when the test ends.
func connect(t *testing.T, cfg *Config) (dialled, accepted *Conn) {
	t.Helper()
	l, err := listenOn(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	a, b, err1, err2 := meet(t, l, cfg)
	if err := errors.Join(err1, err2, l.Close()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bothFree(t, a, b) })
	return a, b
}

// bothClose waits until all is freed.
func bothClose(t *testing.T, a, b *Conn) {
	t.Helper()
	closed := make(chan error, 1)
	go func() { closed <- a.Shutdown(context.Background()) }()
	if err := errors.Join(b.Shutdown(context.Background()), <-closed); err != nil {
		t.Error(err)
	}
}

// bothFree is bothClose for a connection that may be broken.
func bothFree(t *testing.T, conns ...*Conn) {
	t.Helper()
	for _, c := range conns {
		_ = c.Close() // may be closed already
	}
	for _, c := range conns {
		<-c.closed
		if _, err := c.outcome(); err != nil {
			t.Error(err)
		}
	}
}

// readable is 8 bytes of b's that a may read, and 8 of a's to read them into.
func readable(t *testing.T, a, b *Conn) (theirs, ours *Region) {
	t.Helper()
	theirs, err := b.Register(make([]byte, 8), MayRead)
	if err != nil {
		t.Fatal(err)
	}
	if ours, err = a.Register(make([]byte, 8), 0); err != nil {
		t.Fatal(err)
	}
	return theirs, ours
}
