package rsocket

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/goverbs/goverbs/rdmatest"
)

// pattern is a body that is made as it is read, and known by its sum. Its period is no
// multiple of any buffer's size.
type pattern struct{ at, size int }

var period = func() []byte {
	b := make([]byte, 65521)
	for i := range b {
		b[i] = byte(uint32(i) * 2654435761 >> 24)
	}
	return b
}()

func (p *pattern) Read(b []byte) (int, error) {
	if p.at == p.size {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), p.size-p.at)], period[p.at%len(period):])
	p.at += n
	return n, nil
}

func (p *pattern) sum(t *testing.T) string {
	t.Helper()
	h := crc32.NewIEEE()
	if _, err := io.Copy(h, p); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%08x", h.Sum32())
}

// TestHTTP: net/http sends bodies of 64 MiB both ways at once, keeps the connection for the
// next request, and hands it over.
func TestHTTP(t *testing.T) {
	size := 64 << 20
	if testing.Short() {
		size >>= 4
	}
	want := (&pattern{size: size}).sum(t)
	for _, kind := range rdmatest.Kinds {
		t.Run(kind.String(), func(t *testing.T) {
			newFabric(t, kind)
			l, err := Listen("rsocket", fabricHost+":0")
			if err != nil {
				t.Fatal(err)
			}
			var conns atomic.Int32
			server := &http.Server{Handler: http.HandlerFunc(serveHTTP), ConnState: func(_ net.Conn, s http.ConnState) {
				if s == http.StateNew {
					conns.Add(1)
				}
			}}
			served := make(chan error)
			go func() { served <- server.Serve(l) }()
			transport := &http.Transport{DialContext: new(Dialer).DialContext}
			post := func(path string, size int) (string, string) {
				t.Helper()
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+l.Addr().String()+path, &pattern{size: size})
				if err != nil {
					t.Fatal(err)
				}
				resp, err := (&http.Client{Transport: transport}).Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				h := crc32.NewIEEE()
				n, err := io.Copy(h, resp.Body)
				if err != nil {
					t.Fatal(err)
				}
				return fmt.Sprint(n), fmt.Sprintf("%08x", h.Sum32())
			}
			for _, size := range []int{size, 0, 100} {
				n, sum := post("/echo", size)
				if n != fmt.Sprint(size) || size > 100 && sum != want {
					t.Errorf("%s of %d bytes came back, with the sum %s", n, size, sum)
				}
			}
			if conns.Load() != 1 {
				t.Error(conns.Load(), "connections for requests one after the other")
			}
			if n, _ := post("/hijack", 0); n != "4" {
				t.Error(n, "bytes by a hijacked connection")
			}
			transport.CloseIdleConnections()
			if err := server.Shutdown(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
			if err := <-served; err != http.ErrServerClosed {
				t.Error(err)
			}
		})
	}
}

// serveHTTP sends the body back while it comes, or takes the connection over.
func serveHTTP(w http.ResponseWriter, r *http.Request) {
	rc := http.NewResponseController(w)
	if r.URL.Path == "/echo" {
		_ = rc.EnableFullDuplex() // the client sees what is missing
		_, _ = io.Copy(w, r.Body)
		return
	}
	c, rw, err := rc.Hijack()
	if err != nil {
		return
	}
	_, _ = io.WriteString(rw, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nmine")
	_ = rw.Flush()
	_ = c.Close()
}
