package transfer

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/internal/conntest"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

var devices = map[string]rdmatest.DeviceOptions{
	"rxe":        {Kind: rdmatest.RXE},
	"mlx5":       {Kind: rdmatest.MLX5},
	"efa":        {Kind: rdmatest.EFA},
	"erdma-roce": {Kind: rdmatest.ERDMA, RoCE: true},
}

// world is a fabric of two hosts with some devices each, and a name service.
type world struct {
	t      *testing.T
	fabric *rdmatest.Fabric

	mu    sync.Mutex // guards the fields below
	names map[string]*conntest.Pipes
	gate  <-chan struct{} // dials wait for it, unless it is nil
}

func newWorld(t *testing.T, options rdmatest.DeviceOptions, counts ...int) *world {
	t.Helper()
	t.Cleanup(func() { time.Sleep(time.Minute) }) // of the bubble: connections say good-bye in the background
	o := &rdmatest.Options{}
	for _, n := range counts {
		var h rdmatest.HostOptions
		for range n {
			h.Devices = append(h.Devices, options)
		}
		o.Hosts = append(o.Hosts, h)
	}
	return &world{t: t, fabric: rdmatest.NewWith(t, o), names: make(map[string]*conntest.Pipes)}
}

// smallSlice is the size of slices in tests, most of which want many slices and few bytes.
const smallSlice = 4 << 10

// engine returns an engine over all devices of a host, which serves peers under a name unless that is empty.
func (w *world) engine(host int, name string, cfg *Config) *Engine {
	w.t.Helper()
	var all []*uverbs.Device
	for _, d := range w.fabric.Host(host).Devices() {
		dev, err := uverbs.Open(d.Name())
		if err != nil {
			w.t.Fatal(err)
		}
		closeLater(w.t, dev)
		all = append(all, dev)
	}
	var c Config
	if cfg != nil {
		c = *cfg
	}
	c.Dial = w.dial
	c.SliceSize = cmp.Or(c.SliceSize, smallSlice)
	e, err := New(all, &c)
	if err != nil {
		w.t.Fatal(err)
	}
	closeLater(w.t, e)
	if name != "" {
		w.serve(e, name)
	}
	return e
}

func (w *world) serve(e *Engine, name string) {
	l := conntest.NewPipes()
	w.name(name, l)
	go func() {
		if err := e.Serve(l); !errors.Is(err, net.ErrClosed) {
			w.t.Error(err)
		}
	}()
}

var errNobody = errors.New("nobody has this name")

// name gives a name to a listener, or to nobody.
func (w *world) name(name string, l *conntest.Pipes) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.names[name] = l
}

func (w *world) dial(ctx context.Context, name string) (net.Conn, error) {
	w.mu.Lock()
	l, gate := w.names[name], w.gate
	w.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if l == nil {
		return nil, errNobody
	}
	return l.Dial(), nil
}

func closeLater(t *testing.T, c io.Closer) {
	t.Cleanup(func() {
		if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
}

func (w *world) open(e *Engine, name string) *Peer {
	w.t.Helper()
	p, err := e.Open(w.t.Context(), name)
	if err != nil {
		w.t.Fatal(err)
	}
	closeLater(w.t, p)
	return p
}

func (w *world) register(e *Engine, n int) *Region {
	w.t.Helper()
	r, err := e.Register(make([]byte, n), verbs.AccessRemoteRead|verbs.AccessRemoteWrite)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *world) remote(r *Region) *Remote {
	w.t.Helper()
	remote, err := ParseDescriptor(r.Descriptor())
	if err != nil {
		w.t.Fatal(err)
	}
	return remote
}

// fill fills memory with bytes that differ from place to place.
func fill(b []byte, salt int) {
	for i := range b {
		b[i] = byte(i*7 + i>>8 + salt)
	}
}

// each runs a test on each kind of device, in a bubble.
func each(t *testing.T, f func(*testing.T, rdmatest.DeviceOptions)) {
	for name, options := range devices {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, options) })
		})
	}
}

// do performs a batch.
func do(ctx context.Context, p *Peer, ops ...Op) error {
	b, err := p.Submit(ctx, ops)
	if err != nil {
		return err
	}
	return b.Wait()
}
