package redial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/msg"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/rsocket"
	"github.com/goverbs/goverbs/valkeyrdma"
)

// Work under way when the server is killed may have run. Work while there is no server has not. The next server is found.
// It is the same for the connections of each package.
func TestKilled(t *testing.T) {
	t.Run("msg", func(t *testing.T) {
		listen := func(ctx context.Context, at string) (func() (*msg.Conn, error), io.Closer, error) {
			l, err := msg.Listen(ctx, at)
			return func() (*msg.Conn, error) { return l.Accept(ctx) }, l, err
		}
		killed(t, listen, msg.Dial, func(c *msg.Conn) error {
			if err := c.Send(context.Background(), []byte("x")); err != nil {
				return err
			}
			_, err := c.Recv(context.Background())
			return err
		}, func(c *msg.Conn, stop *atomic.Bool) error {
			_, err := c.Recv(context.Background())
			if err != nil || stop.Load() {
				return err
			}
			return c.Send(context.Background(), []byte("y"))
		})
	})
	t.Run("rsocket", func(t *testing.T) {
		listen := func(ctx context.Context, at string) (func() (*rsocket.Conn, error), io.Closer, error) {
			l, err := rsocket.Listen(ctx, at)
			return func() (*rsocket.Conn, error) { return l.AcceptConn(ctx) }, l, err
		}
		killed(t, listen, rsocket.Dial, asks[*rsocket.Conn], answers[*rsocket.Conn])
	})
	t.Run("valkeyrdma", func(t *testing.T) {
		listen := func(ctx context.Context, at string) (func() (*valkeyrdma.Conn, error), io.Closer, error) {
			l, err := valkeyrdma.Listen(ctx, at)
			return func() (*valkeyrdma.Conn, error) { return l.AcceptConn(ctx) }, l, err
		}
		killed(t, listen, valkeyrdma.Dial, asks[*valkeyrdma.Conn], answers[*valkeyrdma.Conn])
	})
}

func asks[C net.Conn](c C) error {
	if _, err := c.Write([]byte("x")); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, 1))
	return err
}

// answers reads a byte, and answers unless it is to stop.
func answers[C net.Conn](c C, stop *atomic.Bool) error {
	_, err := io.ReadFull(c, make([]byte, 1))
	if err == nil && !stop.Load() {
		_, err = c.Write([]byte("y"))
	}
	return err
}

func killed[C Conn](t *testing.T, listen func(context.Context, string) (func() (C, error), io.Closer, error),
	dial func(context.Context, string) (C, error), ask func(C) error, answer func(C, *atomic.Bool) error) {
	synctest.Test(t, func(t *testing.T) {
		client, server := newHosts(t, rdmatest.ERDMA)
		at := server.Addr() + ":7471"
		var stop atomic.Bool
		received := make(chan struct{}, 1)
		serve := func() {
			accept, l, err := listen(t.Context(), at)
			if err != nil {
				t.Error(err)
				return
			}
			defer l.Close()
			c, err := accept()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			for answer(c, &stop) == nil {
				received <- struct{}{}
			}
		}
		var servers sync.WaitGroup
		servers.Go(serve)
		r := New(func(ctx context.Context) (C, error) { return dial(client.Context(ctx), at) })
		for range 3 {
			if err := r.Do(t.Context(), ask); err != nil {
				t.Fatal(err)
			}
			<-received
		}
		stop.Store(true)
		servers.Go(func() {
			<-received
			server.Kill()
		})
		var failed *Error
		if err := r.Do(t.Context(), ask); !errors.As(err, &failed) || !failed.MayHaveRun {
			t.Errorf("under way: %v", err)
		}
		servers.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Do(ctx, ask); !errors.As(err, &failed) || failed.MayHaveRun || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without a server: %v", err)
		}
		stop.Store(false)
		servers.Go(serve)
		if err := r.Do(t.Context(), ask); err != nil {
			t.Error(err)
		}
		<-received
		server.Kill() // while the connection is idle
		servers.Wait()
		synctest.Wait()
		servers.Go(serve)
		if err := r.Do(t.Context(), ask); err != nil {
			t.Errorf("idle while the server was killed: %v", err)
		}
		<-received
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		servers.Wait()
	})
}

// Over rsocket with TLS and HTTP/2, requests that may be repeated all succeed although the server is killed each second
// for a minute, of the bubble's time.
func TestKilledHTTP2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.RXE, Hosts: make([]rdmatest.HostOptions, 2)})
		f.SetLatency(20 * time.Millisecond)
		at := f.Host(1).Addr() + ":7471"
		var mu sync.Mutex
		stored := make(map[string]int)
		put := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil || r.ProtoMajor != 2 {
				http.Error(w, "no body, or not HTTP/2", http.StatusBadRequest)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			stored[string(body)]++
		})
		serve := func() *httptest.Server {
			s := httptest.NewUnstartedServer(put)
			_ = s.Listener.Close()
			l, err := rsocket.Listen(t.Context(), at)
			if err != nil {
				t.Fatal(err)
			}
			s.Listener, s.EnableHTTP2 = l, true
			s.Config.ErrorLog = log.New(io.Discard, "", 0)
			s.StartTLS()
			return s
		}
		s := serve()
		transport := s.Client().Transport.(*http.Transport).Clone()
		transport.TLSClientConfig.ServerName = "example.com"
		transport.ForceAttemptHTTP2 = true
		transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			return Dial(f.Host(0).Context(ctx), func(ctx context.Context) (net.Conn, error) {
				return (&rsocket.Dialer{Config: rsocket.Config{MaxIdleTimeout: time.Second}}).DialContext(ctx, network, address)
			})
		}
		lasts := time.Minute
		if testing.Short() {
			lasts = 5 * time.Second
		}
		running, cancel := context.WithTimeout(t.Context(), lasts)
		defer cancel()
		var all sync.WaitGroup
		var requests, again atomic.Int64
		for i := range 4 {
			all.Go(func() {
				for n := 0; running.Err() == nil; n++ {
					requests.Add(1)
					for !putOnce(t, transport, at, fmt.Sprintf("%d/%d", i, n)) {
						again.Add(1)
					}
				}
			})
		}
		kills := 0
		for ; running.Err() == nil; kills++ {
			time.Sleep(time.Second)
			f.Host(1).Kill()
			_ = s.Config.Close()
			s = serve()
		}
		all.Wait()
		transport.CloseIdleConnections()
		_ = s.Config.Close()
		t.Logf("%d kills, %d requests, %d sent again", kills, requests.Load(), again.Load())
		if len(stored) != int(requests.Load()) {
			t.Errorf("%d bodies are stored, of %d requests", len(stored), requests.Load())
		}
	})
}

// putOnce reports whether the server has answered.
func putOnce(t *testing.T, transport *http.Transport, at, body string) bool {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, "https://"+at, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Error(err)
		return true
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return false
	}
	if resp.StatusCode != http.StatusOK {
		t.Error(resp.Status)
	}
	return true
}
