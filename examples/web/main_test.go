package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/rsocket"
)

// TestFetch serves a directory on one host and fetches a file of it on another.
func TestFetch(t *testing.T) {
	fabric := rdmatest.NewWith(t, nil)
	address := fabric.Host(1).Addr() + ":8080"
	dir, want := t.TempDir(), strings.Repeat("over RDMA ", 10000)
	if err := os.WriteFile(filepath.Join(dir, "page.txt"), []byte(want), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error)
	var got strings.Builder
	fetched := make(chan error)
	go func() { fetched <- fetch(t.Context(), "http://"+address+"/page.txt", &got) }() // which may come first
	go func() { served <- serve(ctx, address, dir, nil) }()
	if err := <-fetched; err != nil || got.String() != want {
		t.Errorf("%d bytes of %d, %v", got.Len(), len(want), err)
	}
	if err := fetch(t.Context(), "http://"+address+"/nothing.txt", &got); err == nil {
		t.Error("it has what is not there")
	}
	got.Reset()
	if err := fetch(t.Context(), "http://"+address+"/debug/listener", &got); err != nil || !strings.Contains(got.String(), `"Accepted":3`) {
		t.Error(got.String(), err)
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// TestSlowHeader checks that a client that never ends its request loses its connection.
func TestSlowHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		address := rdmatest.NewWith(t, nil).Host(1).Addr() + ":8080"
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- serve(ctx, address, t.TempDir(), nil) }()
		synctest.Wait()
		c, err := rsocket.Dial(t.Context(), address)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		if _, err := io.WriteString(c, "GET /page.txt HTTP/1.1\r\n"); err != nil {
			t.Error(err)
		}
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("still connected after a minute")
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// TestMetrics scrapes a server that has served a file, and checks the page with promtool if that is there, as
// in make exporter-test.
func TestMetrics(t *testing.T) {
	fabric := rdmatest.NewWith(t, nil)
	address := fabric.Host(1).Addr() + ":8080"
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "page.txt"), make([]byte, 100000), 0o600); err != nil {
		t.Fatal(err)
	}
	scraped, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- serve(ctx, address, dir, scraped) }()
	if err := fetch(t.Context(), "http://"+address+"/page.txt", io.Discard); err != nil {
		t.Error(err)
	}
	resp, err := http.Get("http://" + scraped.Addr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	page, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status, err)
	}
	for _, want := range []string{`rsocket_accepted_total 1`, `rsocket_refused_total\{reason="busy"\} 0`, `rsocket_sent_bytes_total 100[0-9]{3}`} {
		if !regexp.MustCompile("(?m)^" + want + "$").Match(page) {
			t.Errorf("no %s in\n%s", want, page)
		}
	}
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Logf("no promtool: %v", err)
		return
	}
	check := exec.Command(promtool, "check", "metrics")
	check.Stdin = strings.NewReader(string(page))
	if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s\n%s", err, out, page)
	}
}
