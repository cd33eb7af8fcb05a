package s3rdma

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
)

var devices = map[string]rdmatest.DeviceOptions{
	"rxe":        {Kind: rdmatest.RXE},
	"mlx5":       {Kind: rdmatest.MLX5},
	"erdma-roce": {Kind: rdmatest.ERDMA, RoCE: true},
}

// each runs a test on each kind of device.
func each(t *testing.T, f func(*testing.T, *world)) {
	for _, name := range slices.Sorted(maps.Keys(devices)) {
		t.Run(name, func(t *testing.T) { f(t, newWorld(t, devices[name])) })
	}
}

// world is two hosts and a store of objects.
type world struct {
	t      *testing.T
	fabric *rdmatest.Fabric
	pds    [2]*uverbs.PD // of the client's host and of the server's

	mu      sync.Mutex // guards the fields below
	objects map[string][]byte
	plain   []string // requests that came by plain HTTP
	ends    []error  // of the server's transfers
	ended   chan struct{}
}

func newWorld(t *testing.T, options rdmatest.DeviceOptions) *world {
	t.Helper()
	host := rdmatest.HostOptions{Devices: []rdmatest.DeviceOptions{options}}
	w := &world{t: t, fabric: rdmatest.NewWith(t, &rdmatest.Options{Hosts: []rdmatest.HostOptions{host, host}}),
		objects: make(map[string][]byte), ended: make(chan struct{}, 1000)}
	for i := range w.pds {
		dev, err := uverbs.Open(w.fabric.Host(i).Device(0).Name())
		if err != nil {
			t.Fatal(err)
		}
		closeLater(t, dev)
		if w.pds[i], err = dev.AllocPD(); err != nil {
			t.Fatal(err)
		}
		closeLater(t, w.pds[i])
	}
	return w
}

func closeLater(t *testing.T, c io.Closer) {
	t.Cleanup(func() {
		if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
}

var alice = &Credentials{AccessKey: "alice", SecretKey: "secret of alice"}
var bob = &Credentials{AccessKey: "bob", SecretKey: "secret of bob"}

func (w *world) authorize(r *http.Request, t *Transfer) (string, error) {
	for _, c := range []*Credentials{alice, bob} {
		if strings.Contains(r.Header.Get("Authorization"), "="+c.AccessKey+"/") {
			return c.AccessKey, c.Verify(r)
		}
	}
	return "", fs.ErrPermission
}

func (w *world) open(_ context.Context, t *Transfer) (io.ReadCloser, *Info, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b, ok := w.objects[t.Bucket+"/"+t.Key+t.Query.Encode()]
	if !ok {
		return nil, nil, fmt.Errorf("open: %w", fs.ErrNotExist)
	}
	return io.NopCloser(bytes.NewReader(b[min(t.Offset, int64(len(b))):])), &Info{Size: int64(len(b)), ETag: etag(b)}, nil
}

func (w *world) store(_ context.Context, t *Transfer, data []byte) (*Info, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.objects[t.Bucket+"/"+t.Key+t.Query.Encode()] = bytes.Clone(data)
	return &Info{ETag: etag(data), VersionID: "7", Modified: time.Unix(1e9, 0)}, nil
}

func etag(b []byte) string { return strconv.Quote(crc32Of(b)) }

func (w *world) object(name string) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.objects[name]
}

func (w *world) put(name string, b []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.objects[name] = b
}

// ServeHTTP is S3 by plain HTTP, but for errors and ranges.
func (w *world) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	w.plain = append(w.plain, r.Method+" "+r.URL.RequestURI())
	w.mu.Unlock()
	name := strings.TrimPrefix(r.URL.Path, "/")
	switch r.Method {
	case http.MethodPut:
		b, err := io.ReadAll(r.Body)
		if err != nil {
			w.t.Error(err)
		}
		w.put(name, b)
	case http.MethodGet:
		b := w.object(name)
		if b == nil {
			http.NotFound(rw, r)
			return
		}
		_, _ = rw.Write(b)
	default:
		rw.WriteHeader(http.StatusMethodNotAllowed)
	}
}

// serve returns the URL of a server.
func (w *world) serve(edit func(*ServerConfig)) (*Server, string) {
	w.t.Helper()
	cfg := &ServerConfig{Link: Link{PD: w.pds[1]}, Authorize: w.authorize, Open: w.open, Store: w.store, Next: w,
		PrepareTimeout: time.Minute, TransferTimeout: time.Minute, // a busy machine may need longer than the defaults
		AllowPeer: func(*http.Request, netip.Addr) error { return nil },
		Done: func(_ *Transfer, _ int64, err error) {
			w.mu.Lock()
			w.ends = append(w.ends, err)
			w.mu.Unlock()
			w.ended <- struct{}{}
		}}
	if edit != nil {
		edit(cfg)
	}
	s, err := NewServer(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	closeLater(w.t, s)
	return s, w.listen(s)
}

// listen returns the URL of a handler.
func (w *world) listen(h http.Handler) string {
	l := httptest.NewServer(h)
	w.t.Cleanup(l.Close)
	return l.URL
}

func (w *world) transport(edit func(*TransportConfig)) *Transport {
	w.t.Helper()
	base := &http.Transport{}
	w.t.Cleanup(base.CloseIdleConnections)
	cfg := &TransportConfig{Link: Link{PD: w.pds[0]}, Base: base, Sign: alice.Sign}
	if edit != nil {
		edit(cfg)
	}
	t, err := NewTransport(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	closeLater(w.t, t)
	return t
}

// request returns a signed request with a buffer.
func (w *world) request(method, url string, b []byte, header ...string) *http.Request {
	w.t.Helper()
	var body io.Reader
	if method == http.MethodPut {
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(WithBuffer(w.t.Context(), b), method, url, body)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	if err := alice.Sign(req); err != nil {
		w.t.Fatal(err)
	}
	return req
}

// do returns a response and its body.
func (w *world) do(t *Transport, req *http.Request) (*http.Response, []byte) {
	w.t.Helper()
	resp, err := t.RoundTrip(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp, b
}

func fill(n, salt int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8 + salt)
	}
	return b
}

// post sends a control request with headers, signed by somebody.
func (w *world) post(url, name string, who *Credentials, h http.Header) *http.Response {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, url+pathPrefix+name, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header = h.Clone()
	if err := who.Sign(req); err != nil {
		w.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		w.t.Fatal(err)
	}
	return resp
}

func hexOf(n uint64) string { return strconv.FormatUint(n, 16) }
