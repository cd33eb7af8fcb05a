package main

import (
	"bytes"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/s3rdma"
)

var creds = &s3rdma.Credentials{AccessKey: "somebody", SecretKey: "secret"}

// start serves a directory, and returns its URL.
func start(t *testing.T, device string, dcKey uint64, dir string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error)
	go func() { served <- serve(ctx, l, device, dir, creds, dcKey, true) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String()
}

// TestCopy copies a file to a server and back, by RDMA and by plain HTTP.
func TestCopy(t *testing.T) {
	want := bytes.Repeat([]byte("an object "), 5e5) // two pieces
	for _, kind := range []rdmatest.Kind{rdmatest.RXE, rdmatest.MLX5} {
		t.Run(kind.String(), func(t *testing.T) {
			fabric := rdmatest.NewWith(t, &rdmatest.Options{Kind: kind})
			near, far := fabric.Host(0).Device(0).Name(), fabric.Host(1).Device(0).Name()
			tests := []struct {
				server, client, want string
				dcKey                uint64
			}{
				{far, near, "5000000 bytes by RDMA", 0},
				{"", near, "0 bytes by RDMA, 5000000 by plain HTTP", 0},
				{far, "", "5000000 bytes by plain HTTP", 0},
			}
			if kind == rdmatest.MLX5 {
				tests[0].dcKey = s3rdma.DefaultDCKey
			}
			for _, test := range tests {
				dir, local := t.TempDir(), t.TempDir()
				url := start(t, test.server, test.dcKey, dir)
				file := filepath.Join(local, "file")
				if err := os.WriteFile(file, want, 0o600); err != nil {
					t.Fatal(err)
				}
				for _, c := range [][2]string{{file, url + "/bucket/a/key"}, {url + "/bucket/a/key", file + "2"}} {
					if how, err := copyFile(t.Context(), test.client, test.dcKey, creds, c[0], c[1]); err != nil || !strings.HasPrefix(how, test.want) {
						t.Errorf("%s to %s: %s, %v", c[0], c[1], how, err)
					}
				}
				for _, name := range []string{filepath.Join(dir, "bucket/a/key"), file + "2"} {
					if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
						t.Errorf("%s: %d bytes, %v", name, len(got), err)
					}
				}
			}
		})
	}
}

// TestOddServers checks that an answer without a length is an error and no empty file, and that the text of an answer
// does not control the terminal.
func TestOddServers(t *testing.T) {
	for answer, want := range map[string]string{
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n": "no length",
		"HTTP/1.1 403 \x1b[2Jgone\r\nContent-Length: 0\r\n\r\n": `"403 \x1b[2Jgone"`,
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			if c, err := l.Accept(); err == nil {
				_, _ = c.Read(make([]byte, 4096))
				_, _ = c.Write([]byte(answer))
				c.Close()
			}
		}()
		file := filepath.Join(t.TempDir(), "file")
		if how, err := copyFile(t.Context(), "", 0, creds, "http://"+l.Addr().String()+"/b/k", file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %s, %v", answer, how, err)
		}
		if _, err := os.Stat(file); err == nil {
			t.Errorf("%q: a file was written", answer)
		}
	}
}

// TestIncomplete checks that a GET that fails in the middle changes no file.
func TestIncomplete(t *testing.T) {
	sent := false
	l := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Amz-Rdma-Bytes-Transferred", strconv.Itoa(piece)) // which is false
		switch {
		case r.Method == http.MethodHead:
			w.Header().Set("Content-Length", strconv.Itoa(2*piece))
		case !sent:
			sent = true
			w.Header().Set("Content-Length", strconv.Itoa(piece))
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(bytes.Repeat([]byte("new"), piece)[:piece])
		default:
			panic(http.ErrAbortHandler)
		}
	}))
	defer l.Close()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if how, err := copyFile(t.Context(), "", 0, creds, l.URL+"/b/k", file); err == nil || !sent {
		t.Error(how)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "old" {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
		t.Error(names, err)
	}
	l = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(2*piece))
		_, _ = w.Write(make([]byte, 2*piece))
	}))
	defer l.Close()
	if how, err := copyFile(t.Context(), "", 0, creds, l.URL+"/b/k", file); err == nil || !strings.Contains(err.Error(), "ignores ranges") {
		t.Error(how, err)
	}
	l = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Amz-Rdma-Bytes-Transferred", "3")
		w.Header().Set("Content-Length", "3")
		_, _ = w.Write([]byte("new"))
	}))
	defer l.Close()
	if how, err := copyFile(t.Context(), "", 0, creds, l.URL+"/b/k", file); err != nil {
		t.Error(how, err)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "new" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestLog checks that a client's text does not control the server's terminal.
func TestLog(t *testing.T) {
	fabric := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.RXE})
	var logged bytes.Buffer
	log.SetOutput(&logged)
	defer log.SetOutput(os.Stderr)
	t.Run("", func(t *testing.T) { // the server has ended after it
		url := start(t, fabric.Host(1).Device(0).Name(), 0, t.TempDir())
		link, closeLink, err := openLink(fabric.Host(0).Device(0).Name())
		if err != nil {
			t.Fatal(err)
		}
		defer closeLink()
		rdma, err := s3rdma.NewTransport(&s3rdma.TransportConfig{Link: link, Sign: creds.Sign})
		if err != nil {
			t.Fatal(err)
		}
		defer rdma.Close()
		for _, b := range [][]byte{make([]byte, 3), nil} { // by RDMA, and by plain HTTP
			req, err := http.NewRequestWithContext(s3rdma.WithBuffer(t.Context(), b), http.MethodGet, url+"/b/%1b[2Jk", nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := creds.Sign(req); err != nil {
				t.Fatal(err)
			}
			resp, err := rdma.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			if resp.Body.Close(); resp.StatusCode != http.StatusNotFound {
				t.Error(resp.Status)
			}
		}
		if rdma.Stats().Plain != 1 {
			t.Errorf("%+v", rdma.Stats())
		}
	})
	if text := logged.String(); strings.Count(text, "\n") != 2 || strings.Contains(text, "\x1b") {
		t.Errorf("%q", text)
	}
}

// TestHeaders checks that the server refuses headers that it does not support, by RDMA and by plain HTTP.
func TestHeaders(t *testing.T) {
	fabric := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.MLX5})
	dir := t.TempDir()
	url := start(t, fabric.Host(1).Device(0).Name(), s3rdma.DefaultDCKey, dir)
	link, closeLink, err := openLink(fabric.Host(0).Device(0).Name())
	if err != nil {
		t.Fatal(err)
	}
	defer closeLink()
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	rdma, err := s3rdma.NewTransport(&s3rdma.TransportConfig{Link: link, Base: base, Sign: creds.Sign, DCKey: s3rdma.DefaultDCKey})
	if err != nil {
		t.Fatal(err)
	}
	defer rdma.Close()
	ask := func(method, name, value string, b []byte) int {
		t.Helper()
		var body io.Reader
		if method == http.MethodPut {
			body = bytes.NewReader(b)
		}
		req, err := http.NewRequestWithContext(s3rdma.WithBuffer(t.Context(), b), method, url+"/b/k", body)
		if err != nil {
			t.Fatal(err)
		}
		if req.Header.Set(name, value); creds.Sign(req) != nil {
			t.Fatal("not signed")
		}
		resp, err := rdma.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	old := []byte("old")
	if status := ask(http.MethodPut, "Accept", "*/*", old); status != http.StatusOK || rdma.Stats().Puts != 1 {
		t.Fatal(status)
	}
	for _, name := range []string{"If-None-Match", "X-Amz-Copy-Source", "X-Amz-Meta-Colour", "X-Amz-Server-Side-Encryption"} {
		if status := ask(http.MethodPut, name, "*", []byte("new")); status != http.StatusNotImplemented {
			t.Errorf("PUT, %s: %d", name, status)
		}
	}
	if got, err := os.ReadFile(filepath.Join(dir, "b/k")); err != nil || !bytes.Equal(got, old) {
		t.Errorf("%q, %v", got, err)
	}
	if status := ask(http.MethodGet, "If-None-Match", "*", make([]byte, 3)); status != http.StatusNotModified {
		t.Errorf("GET: %d", status)
	}
}

// TestRefused asks for what must not be served.
func TestRefused(t *testing.T) {
	fabric := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.RXE})
	parent := t.TempDir()
	dir := filepath.Join(parent, "served")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(parent, "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(parent, filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	url := start(t, fabric.Host(1).Device(0).Name(), 0, dir)
	for _, device := range []string{"", fabric.Host(0).Device(0).Name()} {
		for _, key := range []string{"/b/..%2F..%2Fsecret", "/out/secret", "/.uploads/x", "/b"} {
			if how, err := copyFile(t.Context(), device, 0, creds, secret, url+key); err == nil {
				t.Errorf("PUT %s: %s", key, how)
			}
			if how, err := copyFile(t.Context(), device, 0, creds, url+key, filepath.Join(t.TempDir(), "x")); err == nil {
				t.Errorf("GET %s: %s", key, how)
			}
		}
		if how, err := copyFile(t.Context(), device, 0, &s3rdma.Credentials{AccessKey: "somebody", SecretKey: "guessed"}, secret, url+"/b/k"); err == nil {
			t.Error(how)
		}
	}
	if resp, err := http.Post(url+"/b/k", "", nil); err != nil || resp.StatusCode != http.StatusForbidden {
		t.Error(resp, err)
	}
	if got, err := os.ReadFile(secret); err != nil || string(got) != "secret" {
		t.Errorf("%q %v", got, err)
	}
}
