//go:build vm

package stream

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/rpc"
	"testing"
	"time"

	"github.com/goverbs/goverbs/rsocket"
	"github.com/goverbs/goverbs/test/kit"
)

// rsocketListen listens on a host and a port.
func rsocketListen(host, port string) (net.Listener, error) {
	return rsocket.Listen(context.Background(), kit.HostPort(host, port))
}

// listenRsocket listens until the test ends.
func listenRsocket(t *testing.T, host string) net.Listener {
	t.Helper()
	l := kit.Must(rsocketListen(host, "0"))(t)
	t.Cleanup(func() { l.Close() })
	return l
}

// TestRsocketHTTP checks that net/http's client and server keep a connection for several requests, send large bodies
// both ways, and hand a connection over.
func TestRsocketHTTP(t *testing.T) {
	kit.Only612(t)
	eachRsocketHost(t, func(t *testing.T, host string) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*kit.Patience)
		defer cancel()
		mux := http.NewServeMux()
		mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.Copy(w, r.Body); err != nil {
				t.Error(err)
			}
		})
		mux.HandleFunc("/hijack", func(w http.ResponseWriter, r *http.Request) {
			c, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			_, _ = io.WriteString(rw, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nmine")
			_ = rw.Flush()
		})
		l := listenRsocket(t, host)
		server := &http.Server{Handler: mux}
		go server.Serve(l)
		defer server.Close()
		dials := 0
		var d rsocket.Dialer
		transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			dials++
			return d.DialContext(ctx, network, address)
		}}
		defer transport.CloseIdleConnections()
		client := &http.Client{Transport: transport}
		do := func(path string, body []byte) []byte {
			t.Helper()
			req := kit.Must(http.NewRequestWithContext(ctx, "POST", "http://"+l.Addr().String()+path, bytes.NewReader(body)))(t)
			resp := kit.Must(client.Do(req))(t)
			defer resp.Body.Close()
			return kit.Must(io.ReadAll(resp.Body))(t)
		}
		for _, size := range []int{0, 1, 100, largestBody(host)} {
			body := bytes.Repeat([]byte{byte(size), 1, 2, 3, 5}, (size+4)/5)[:size]
			if got := do("/echo", body); !bytes.Equal(got, body) {
				t.Errorf("%d bytes came back of %d", len(got), size)
			}
		}
		if dials != 1 {
			t.Error(dials, "connections for requests one after the other")
		}
		if got := do("/hijack", nil); string(got) != "mine" {
			t.Errorf("%q", got)
		}
	})
}

// largestBody is 64 MiB, each way, once: over siw on 6.12.
func largestBody(host string) int {
	if kit.OnKernel("6.12") && host == kit.DummyIPv4 {
		return 64 << 20
	}
	return 1 << 20
}

// TestRsocketTLS runs crypto/tls over byte streams, until its close_notify.
func TestRsocketTLS(t *testing.T) {
	kit.Only612(t)
	eachRsocketHost(t, func(t *testing.T, host string) {
		cert, roots := selfSigned(t, host)
		l := tls.NewListener(listenRsocket(t, host), &tls.Config{Certificates: []tls.Certificate{cert}})
		served := make(chan error, 1)
		go func() {
			c, err := l.Accept()
			if err == nil {
				_, err = io.Copy(c, c)
				c.Close()
			}
			served <- err
		}()
		ctx, cancel := context.WithTimeout(t.Context(), kit.Patience)
		defer cancel()
		raw := kit.Must(rsocket.Dial(ctx, l.Addr().String()))(t)
		c := tls.Client(raw, &tls.Config{RootCAs: roots, ServerName: host})
		defer c.Close()
		kit.OK(t, c.HandshakeContext(ctx))
		sent := bytes.Repeat([]byte("0123456789"), 20000)
		go func() {
			if _, err := c.Write(sent); err != nil {
				t.Error(err)
			}
			if err := c.CloseWrite(); err != nil {
				t.Error(err)
			}
		}()
		if got := kit.Must(io.ReadAll(c))(t); !bytes.Equal(got, sent) {
			t.Errorf("%d bytes came back", len(got))
		}
		kit.OK(t, <-served)
	})
}

func selfSigned(t *testing.T, host string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key := kit.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.ParseIP(host)}, IsCA: true, BasicConstraintsValid: true}
	der := kit.Must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	roots := x509.NewCertPool()
	roots.AddCert(kit.Must(x509.ParseCertificate(der))(t))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots
}

// Sum is a service of net/rpc.
type Sum struct{}

// Add adds numbers.
func (Sum) Add(args []int, reply *int) error {
	for _, n := range args {
		*reply += n
	}
	return nil
}

// TestRsocketRPC runs net/rpc with concurrent calls.
func TestRsocketRPC(t *testing.T) {
	kit.Only612(t)
	eachRsocketHost(t, func(t *testing.T, host string) {
		server := rpc.NewServer()
		kit.OK(t, server.Register(Sum{}))
		l := listenRsocket(t, host)
		go func() {
			if c, err := l.Accept(); err == nil {
				server.ServeConn(c)
			}
		}()
		d := rsocket.Dialer{Timeout: kit.Patience}
		client := rpc.NewClient(kit.Must(d.Dial(t.Context(), l.Addr().String()))(t))
		defer client.Close()
		var calls []*rpc.Call
		for i := range 50 {
			calls = append(calls, client.Go("Sum.Add", []int{i, 1}, new(int), nil))
		}
		for i, call := range calls {
			if <-call.Done; call.Error != nil || *call.Reply.(*int) != i+1 {
				t.Errorf("call %d: %v, %v", i, *call.Reply.(*int), call.Error)
			}
		}
	})
}
