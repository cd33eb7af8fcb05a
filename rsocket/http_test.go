package rsocket

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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

// TestHTTP checks that net/http sends bodies of 64 MiB both ways at once, keeps the connection for
// the next request, and hands it over.
func TestHTTP(t *testing.T) {
	size := 64 << 20
	if testing.Short() {
		size >>= 4
	}
	want := (&pattern{size: size}).sum(t)
	anywhere(t, func(t *testing.T, f *fabric) {
		l, err := f.listen(Config{})
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
		transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return f.dial(ctx, l, Config{}) }}
		post := func(path string, size int) (string, string) {
			t.Helper()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://rsocket"+path, &pattern{size: size})
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

// serveHTTP sends the body back while it comes, or takes the connection over.
func serveHTTP(w http.ResponseWriter, r *http.Request) {
	rc := http.NewResponseController(w)
	if r.URL.Path == "/echo" {
		_ = rc.EnableFullDuplex() // the client notices missing data
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

// lateBody is a request's body that ends only after the server has closed the connection.
type lateBody struct{ closed <-chan struct{} }

func (b lateBody) Read([]byte) (int, error) {
	<-b.closed
	return 0, io.EOF
}

// TestHTTPAnswerAndClose checks that net/http gets the answer of a server that closes at once, though
// its client writes once more behind that.
func TestHTTPAnswerAndClose(t *testing.T) {
	anywhere(t, func(t *testing.T, f *fabric) {
		l, err := f.listen(Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		closed := make(chan struct{})
		client := make(chan *Conn, 1)
		served := make(chan error, 1)
		go func() {
			served <- func() error {
				c, err := l.Accept()
				if err != nil {
					return err
				}
				if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
					return err
				}
				if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\nmine"); err != nil {
					return err
				}
				err = c.(*Conn).Shutdown(t.Context())
				<-(<-client).conn.RC.Done()
				close(closed)
				return err
			}()
		}()
		transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			c, err := f.dial(ctx, l, Config{})
			if err != nil {
				return nil, err
			}
			client <- c
			return &writeFirst{Conn: c, closed: closed, wrote: make(chan struct{})}, nil
		}}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://rsocket", lateBody{closed})
		if err != nil {
			t.Fatal(err)
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(errors.Join(err, <-served))
		}
		defer resp.Body.Close()
		if b, err := io.ReadAll(resp.Body); string(b) != "mine" || err != nil {
			t.Errorf("%q, %v", b, err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// writeFirst is a connection whose reader is late. It reads when a Write has succeeded since
// the server closed, or when the connection is given up.
type writeFirst struct {
	net.Conn
	closed <-chan struct{}
	wrote  chan struct{}
	once   sync.Once
}

func (c *writeFirst) Read(b []byte) (int, error) {
	<-c.wrote
	return c.Conn.Read(b)
}

func (c *writeFirst) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	select {
	case <-c.closed:
		if err == nil {
			c.once.Do(func() { close(c.wrote) })
		}
	default:
	}
	return n, err
}

func (c *writeFirst) Close() error {
	c.once.Do(func() { close(c.wrote) })
	return c.Conn.Close()
}

// TestHTTPServerClose checks that net/http's Server.Close waits for none of its connections, though
// the network delivers none of their data.
func TestHTTPServerClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, rdmatest.RXE)
		l, err := Listen(t.Context(), fabricHost+":0")
		if err != nil {
			t.Fatal(err)
		}
		var asked sync.WaitGroup
		answer := make(chan struct{})
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked.Done()
			<-answer
			_, _ = io.WriteString(w, "hello")
		})}
		served := make(chan error, 1)
		go func() { served <- server.Serve(l) }()
		var clients []net.Conn
		for range 4 {
			c, err := Dial(t.Context(), l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			asked.Add(1)
			if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
				t.Error(err)
			}
			clients = append(clients, c)
		}
		asked.Wait()
		_, resume := f.Pause()
		close(answer)
		synctest.Wait()
		start := time.Now()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("Server.Close took %v", took)
		}
		if err := <-served; err != http.ErrServerClosed {
			t.Error(err)
		}
		resume()
		for _, c := range clients {
			if b, err := io.ReadAll(c); !bytes.HasSuffix(b, []byte("hello")) || err != nil {
				t.Errorf("%q, %v", b, err)
			}
			_ = c.Close()
		}
	})
}
