package main

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/internal/metrics"
)

// TestFailuresLogged checks that the log has the cause of what a scrape lacks, once an hour.
func TestFailuresLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, kernel := machine()
		var out bytes.Buffer
		h := handler(source, &metrics.Watcher{RDMA: source.RDMA}, new(podResources), slog.New(slog.NewTextHandler(&out, nil)))
		lines := func() string {
			out.Reset()
			for range 3 {
				h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/metrics", nil))
			}
			return out.String()
		}
		const details = `part=details device=siw0 err="permission denied"`
		if got := lines(); strings.Count(got, "\n") != 1 || !strings.Contains(got, details) {
			t.Error(got)
		}
		kernel.Fail = map[uint16]error{1: syscall.EPROTONOSUPPORT} // the list of devices
		if got := lines(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "part=devices") || !strings.Contains(got, syscall.EPROTONOSUPPORT.Error()) {
			t.Error(got)
		}
		kernel.Fail = nil
		if got := lines(); got != "" {
			t.Error(got)
		}
		time.Sleep(time.Hour)
		if got := lines(); strings.Count(got, "\n") != 1 || !strings.Contains(got, details) {
			t.Error(got)
		}
	})
}

// TestFailuresBound checks that ever new failures neither fill the memory nor the log, and that names
// cannot forge a line.
func TestFailuresBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := &failureLog{log: slog.New(slog.NewTextHandler(&out, nil))}
		for hour := range 2 {
			for i := range 2000 {
				l.add("objects", fmt.Sprint("\nlevel=ERROR", i), errors.New(strings.Repeat("\x1b", 1000)))
			}
			if n := strings.Count(out.String(), "\n"); n != (hour+1)*maxFailures || len(l.logged) != maxFailures {
				t.Error(n, len(l.logged))
			}
			time.Sleep(failureInterval)
		}
		if strings.Contains(out.String(), "\nlevel=ERROR") || strings.Contains(out.String(), "\x1b") || out.Len() > 2*maxFailures*1000 {
			t.Error("the log is not clean")
		}
	})
}
