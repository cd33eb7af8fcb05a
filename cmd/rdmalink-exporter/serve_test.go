package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/internal/metrics"
	"github.com/prometheus/exporter-toolkit/web"
)

// certificate writes a certificate for 127.0.0.1 and its key, and returns a pool with it.
func certificate(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "PRIVATE KEY", Bytes: private}} {
		text := pem.EncodeToMemory(block)
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
		pool.AppendCertsFromPEM(text)
	}
	return pool
}

// TestServe serves with TLS and a password, which exporter-toolkit's configuration file sets, until it
// is stopped.
func TestServe(t *testing.T) {
	dir := t.TempDir()
	pool := certificate(t, dir)
	const hash = "$2a$04$U0JLG5Af6Qh9lQ2WIEUKa.UBh1w80vncMSl2IBTBmMS3VBizhuvPi" // bcrypt hash of "secret"
	config := filepath.Join(dir, "web.yml")
	if err := os.WriteFile(config, []byte("tls_server_config: {cert_file: cert.pem, key_file: key.pem}\nbasic_auth_users: {prometheus: "+hash+"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") // the kernel doesn't give this port to others soon
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()

	source, _ := machine()
	log := slog.New(slog.DiscardHandler)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	no := false
	go func() {
		done <- serve(ctx, handler(source, &metrics.Watcher{RDMA: source.RDMA}, new(podResources), log),
			&web.FlagConfig{WebListenAddresses: &[]string{address}, WebSystemdSocket: &no, WebConfigFile: &config}, log)
	}()
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	get := func(password string) (int, string) {
		for {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+"/metrics", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.SetBasicAuth("prometheus", password)
			r, err := client.Do(req)
			if err != nil { // the server does not listen yet
				select {
				case err := <-done:
					t.Fatal(err)
				case <-time.After(10 * time.Millisecond):
					continue
				}
			}
			var body bytes.Buffer
			_, err = body.ReadFrom(r.Body)
			r.Body.Close()
			if err != nil {
				t.Fatal(err)
			}
			return r.StatusCode, body.String()
		}
	}
	if code, body := get("secret"); code != http.StatusOK || !strings.Contains(body, "\nrdma_up 1\n") {
		t.Error(code, body)
	}
	if code, _ := get("guess"); code != http.StatusUnauthorized {
		t.Error(code)
	}
	client.CloseIdleConnections()
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// fakeConn is a connection of a client's address.
type fakeConn struct {
	net.Conn
	from   string
	closed bool
}

func (c *fakeConn) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(c.from), 1))
}

func (c *fakeConn) Close() error {
	c.closed = true
	return nil
}

// TestManyConnections checks that connections which send nothing are bounded, and that those of one address leave room
// for another address.
func TestManyConnections(t *testing.T) {
	state := newServer(nil).ConnState
	var open []*fakeConn
	dial := func(from string) bool {
		c := &fakeConn{from: from}
		state(c, http.StateNew)
		if c.closed {
			state(c, http.StateClosed)
			return false
		}
		open = append(open, c)
		return true
	}
	for range 2 * maxConns {
		dial("192.0.2.1")
	}
	if n := len(open); n > maxConns/2+1 || n < maxConns/2-1 || !dial("2001:db8::1") {
		t.Errorf("%d connections of one address, and none of another", n)
	}
	for i := range 2 * maxConns {
		dial(netip.AddrFrom4([4]byte{198, 51, byte(i >> 8), byte(i)}).String())
	}
	if len(open) != maxConns {
		t.Errorf("%d connections, want %d", len(open), maxConns)
	}
	for _, c := range open {
		state(c, http.StateActive)
		state(c, http.StateClosed)
	}
	if open = nil; !dial("192.0.2.1") {
		t.Error("the connections are counted after their end")
	}
}

// stuck is a kernel that does not answer until release is closed.
func stuck(release <-chan struct{}) http.Handler {
	source, kernel := machine()
	source.RDMA.Kernel = changing{kernel, func(uint16) { <-release }}
	return handler(source, &metrics.Watcher{RDMA: source.RDMA}, new(podResources), slog.New(slog.DiscardHandler))
}

// TestScrapeTimeout checks that a scrape ends though the kernel does not answer.
func TestScrapeTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		h := stuck(release)
		w, begin := httptest.NewRecorder(), time.Now()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		if w.Code != http.StatusServiceUnavailable || time.Since(begin) != scrapeTimeout { // of the bubble's clock
			t.Error(w.Code, time.Since(begin))
		}
		close(release)
		synctest.Wait()
	})
}

// TestHealthTimeout checks that /healthz fails in time though the kernel does not answer.
func TestHealthTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		h := stuck(release)
		for i := range 2 {
			w, begin := httptest.NewRecorder(), time.Now()
			h.ServeHTTP(w, httptest.NewRequest("GET", "/healthz", nil))
			if took := time.Since(begin); w.Code != http.StatusServiceUnavailable || took != scrapeTimeout { // of the bubble's clock
				t.Error(i, w.Code, took)
			}
		}
		close(release)
		synctest.Wait()
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, httptest.NewRequest("GET", "/healthz", nil)); w.Code != http.StatusOK {
			t.Error(w.Code, w.Body)
		}
	})
}

// TestCrowd checks that requests that wait for the kernel share one collection and one answer, and that none of them
// is refused, however many they are.
func TestCrowd(t *testing.T) {
	for _, path := range []string{"/metrics", "/healthz"} {
		// questions returns how many questions a crowd costs the kernel.
		questions := func(crowd int) int64 {
			var asked atomic.Int64
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				source, kernel := machine()
				source.RDMA.Kernel = changing{kernel, func(uint16) { <-release; asked.Add(1) }}
				h := handler(source, &metrics.Watcher{RDMA: source.RDMA}, new(podResources), slog.New(slog.DiscardHandler))
				var all sync.WaitGroup
				for range crowd {
					all.Go(func() {
						w := httptest.NewRecorder()
						if h.ServeHTTP(w, httptest.NewRequest("GET", path, nil)); w.Code != http.StatusOK {
							t.Error(path, w.Code, w.Body)
						}
					})
				}
				synctest.Wait()
				close(release)
				all.Wait()
			})
			return asked.Load()
		}
		if one, many := questions(1), questions(200); one == 0 || one != many {
			t.Errorf("%s: one request asks the kernel %d times, 200 ask %d times", path, one, many)
		}
	}
}

// TestClientLeaves checks that clients that leave during a collection do not fill the log.
func TestClientLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		source, kernel := machine()
		source.RDMA.Kernel = changing{kernel, func(uint16) { <-release }}
		var lines bytes.Buffer
		h := handler(source, &metrics.Watcher{RDMA: source.RDMA}, new(podResources), slog.New(slog.NewTextHandler(&lines, nil)))
		ctx, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, leave)
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/metrics", nil).WithContext(ctx))
		synctest.Wait()
		if lines.Len() > 0 {
			t.Error(lines.String())
		}
		close(release)
		synctest.Wait()
	})
}

// TestCommandLine checks the exit codes.
func TestCommandLine(t *testing.T) {
	for line, want := range map[string]struct {
		code int
		text string
	}{
		"-h":                               {0, "-web.config.file"},
		"-x":                               {2, "-x"},
		"word":                             {2, "unexpected argument"},
		"-interval 0s":                     {2, "a positive duration"},
		"-web.listen-address 256.0.0.1:x":  {1, "listen tcp"},
		"-web.config.file /nowhere/at.all": {1, "/nowhere/at.all"},
	} {
		var stderr bytes.Buffer
		if code := run(t.Context(), strings.Fields(line), &stderr); code != want.code || !strings.Contains(stderr.String(), want.text) {
			t.Errorf("%s: %d %s", line, code, &stderr)
		}
	}
}
