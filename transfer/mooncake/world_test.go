package mooncake

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/internal/conntest"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/transfer"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

var kinds = map[string]rdmatest.DeviceOptions{
	"rxe":        {Kind: rdmatest.RXE},
	"mlx5":       {Kind: rdmatest.MLX5},
	"erdma-roce": {Kind: rdmatest.ERDMA, RoCE: true},
}

// world is a fabric of hosts with some devices each, listeners by their addresses, and a metadata server.
type world struct {
	t      *testing.T
	fabric *rdmatest.Fabric

	mu        sync.Mutex // guards the fields below
	listeners map[string]*conntest.Pipes
	metadata  map[string][]byte
}

func newWorld(t *testing.T, options rdmatest.DeviceOptions, counts ...int) *world {
	t.Helper()
	t.Cleanup(func() { time.Sleep(time.Minute) }) // of the bubble: nodes leave the metadata server in the background
	o := &rdmatest.Options{}
	for _, n := range counts {
		var h rdmatest.HostOptions
		for range n {
			h.Devices = append(h.Devices, options)
		}
		o.Hosts = append(o.Hosts, h)
	}
	return &world{t: t, fabric: rdmatest.NewWith(t, o), listeners: make(map[string]*conntest.Pipes), metadata: make(map[string][]byte)}
}

// each runs a test on each kind of device, in a bubble.
func each(t *testing.T, f func(*testing.T, rdmatest.DeviceOptions)) {
	for name, options := range kinds {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, options) })
		})
	}
}

func closeLater(t *testing.T, c io.Closer) {
	t.Cleanup(func() {
		if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
}

// engine returns an engine over all devices of a host.
func (w *world) engine(host int) *transfer.Engine {
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
	e, err := transfer.New(all, &transfer.Config{SliceSize: 4 << 10})
	if err != nil {
		w.t.Fatal(err)
	}
	closeLater(w.t, e)
	return e
}

// region registers memory that differs from place to place.
func (w *world) region(e *transfer.Engine, n int, salt byte) *transfer.Region {
	w.t.Helper()
	r, err := e.Register(make([]byte, n), verbs.AccessRemoteRead|verbs.AccessRemoteWrite)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range r.Bytes() {
		r.Bytes()[i] = byte(i*7+i>>8) + salt
	}
	return r
}

func (w *world) listen(address string) *conntest.Pipes {
	l := conntest.NewPipes()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.listeners[address] = l
	return l
}

func (w *world) dial(_ context.Context, address string) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l := w.listeners[address]; l != nil {
		return l.Dial(), nil
	}
	return nil, errors.New("nobody listens at " + address)
}

func (w *world) config() *Config { return &Config{Dial: w.dial} }

// node starts a node.
func (w *world) node(e *transfer.Engine, name string, cfg *Config, regions ...*transfer.Region) *Node {
	w.t.Helper()
	n, err := NewNode(w.t.Context(), e, name, cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	closeLater(w.t, n)
	for _, r := range regions {
		if err := n.Publish(w.t.Context(), r); err != nil {
			w.t.Fatal(err)
		}
	}
	address := name
	if cfg.Address != "" {
		address = cfg.Address
	}
	l := w.listen(address)
	go func() {
		if err := n.Serve(l); !errors.Is(err, net.ErrClosed) {
			w.t.Error(err)
		}
	}()
	return n
}

func (w *world) open(e *transfer.Engine, name string, cfg *Config) *Segment {
	w.t.Helper()
	s, err := Open(w.t.Context(), e, name, cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	closeLater(w.t, s)
	return s
}

// do performs an operation on all of a region and a buffer of the same length.
func do(ctx context.Context, s *Segment, opcode verbs.Opcode, local *transfer.Region, b Buffer) error {
	remote, offset, err := s.At(b.Addr, local.Len())
	if err != nil {
		return err
	}
	batch, err := s.Submit(ctx, []transfer.Op{{Opcode: opcode, Local: local.Span(0, local.Len()), Remote: remote, Offset: offset}})
	if err != nil {
		return err
	}
	return batch.Wait()
}

// verify reads the only buffer of a segment, and writes other bytes to it.
func (w *world) verify(s *Segment, e *transfer.Engine, target []byte) {
	w.t.Helper()
	local := w.region(e, len(target), 99)
	if err := do(w.t.Context(), s, verbs.OpRDMARead, local, s.Buffers()[0]); err != nil || !bytes.Equal(local.Bytes(), target) {
		w.t.Fatalf("READ: %v, equal bytes %v", err, bytes.Equal(local.Bytes(), target))
	}
	for i := range local.Bytes() {
		local.Bytes()[i] ^= 0x5a
	}
	if err := do(w.t.Context(), s, verbs.OpRDMAWrite, local, s.Buffers()[0]); err != nil || !bytes.Equal(local.Bytes(), target) {
		w.t.Fatalf("WRITE: %v, equal bytes %v", err, bytes.Equal(local.Bytes(), target))
	}
}

func newHTTP(w *world) *http.Client { return &http.Client{Transport: w} }

// RoundTrip is a strict metadata server, like Mooncake's in Python: it does not replace the address of a listener.
func (w *world) RoundTrip(q *http.Request) (*http.Response, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := httptest.NewRecorder()
	key := q.URL.Query().Get("key")
	value, found := w.metadata[key]
	switch {
	case q.URL.Path != "/metadata" || key == "":
		a.WriteHeader(http.StatusBadRequest)
	case q.Method == http.MethodPut:
		if found && bytes.HasPrefix([]byte(key), []byte("mooncake/rpc_meta/")) {
			a.WriteHeader(http.StatusBadRequest)
			break
		}
		w.metadata[key], _ = io.ReadAll(q.Body)
	case !found:
		a.WriteHeader(http.StatusNotFound)
	case q.Method == http.MethodDelete:
		delete(w.metadata, key)
	default:
		_, _ = a.Write(value)
	}
	return a.Result(), nil
}
