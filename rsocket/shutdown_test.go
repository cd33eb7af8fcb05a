package rsocket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
)

// TestListenerShutdown checks that Shutdown of a listener waits for what closed connections still
// send, and for open ones until its context ends.
func TestListenerShutdown(t *testing.T) {
	f := newFabric(t, rdmatest.MLX5)
	l, err := Listen(t.Context(), fabricHost+":0")
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan *Conn, 1)
	go func() {
		c, err := l.AcceptConn(t.Context())
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}()
	a, err := Dial(t.Context(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b := <-accepted
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Shutdown(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("with an open connection: %v", err)
	}
	_, resume := f.Pause()
	if _, err := b.Write([]byte("last")); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.Shutdown(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("while data is under way: %v", err)
	}
	resume()
	if err := l.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if _, canceled := b.conn.Freed(ended); canceled != nil {
		t.Error("the connection is still being closed")
	}
	if got, err := io.ReadAll(a); string(got) != "last" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// TestShutdownHTTPS checks that a server of HTTP over TLS, which sees no Conn, loses nothing of its
// responses if it shuts down the listener after itself.
func TestShutdownHTTPS(t *testing.T) {
	newFabric(t, rdmatest.RXE)
	l, err := Listen(t.Context(), fabricHost+":0")
	if err != nil {
		t.Fatal(err)
	}
	body := bytes.Repeat([]byte("response "), 100_000)
	var begun sync.WaitGroup
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		begun.Done()
		_, _ = w.Write(body)
	}))
	server.Listener.Close()
	server.Listener = l
	server.StartTLS()
	transport := server.Client().Transport.(*http.Transport)
	transport.DialContext = new(Dialer).DialContext
	transport.TLSClientConfig.ServerName = "example.com"
	transport.DisableKeepAlives = true // the server closes each connection behind its response
	const clients = 8
	errs := make(chan error, clients)
	begun.Add(clients)
	for range clients {
		go func() {
			resp, err := server.Client().Get("https://" + l.Addr().String())
			if err != nil {
				errs <- err
				return
			}
			defer resp.Body.Close()
			if got, err := io.ReadAll(resp.Body); err != nil || !bytes.Equal(got, body) {
				err = fmt.Errorf("%d bytes of %d: %w", len(got), len(body), err)
				errs <- err
				return
			}
			errs <- nil
		}()
	}
	begun.Wait()
	if err := server.Config.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := l.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	for range clients {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// TestConfigReachesBothEnds checks that AckTimeout of a Dialer and of a ListenConfig applies to the
// connection.
func TestConfigReachesBothEnds(t *testing.T) {
	f := newFabric(t, rdmatest.RXE)
	a, b := f.pair(Config{TransportOptions: rdmacm.TransportOptions{AckTimeout: 8 * time.Second}})
	for _, c := range []*Conn{a, b} {
		if attr, err := c.conn.RC.QP().Query(); err != nil || attr.AckTimeout != 4096<<21 {
			t.Errorf("%v, %v", attr, err)
		}
	}
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
				if _, err := a.Write([]byte("discarded")); err != nil {
					t.Fatal(err)
				}
				err := a.Close()
				if linger < 0 && err != nil || linger > 0 && !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Error(err)
				}
				resume()
				if _, err := io.ReadAll(b); !errors.Is(err, syscall.ECONNRESET) {
					t.Error(err)
				}
			})
		}
	}
}
