package msg

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/verbs"
)

// TestTrace checks that a Trace in the Config is called for each step of a dial, for both ends, for a
// wait for credit, and when the connection ends.
func TestTrace(t *testing.T) {
	onFabrics(t, func(t *testing.T, _ *rdmatest.Fabric, cfg Config) {
		var mu sync.Mutex
		var steps []string
		ends, noRoom := make(chan error, 2), make(chan struct{}, 1)
		step := func(s string) {
			mu.Lock()
			defer mu.Unlock()
			steps = append(steps, s)
		}
		dialing := func(s string) func(netip.AddrPort) { return func(netip.AddrPort) { step(s) } }
		cfg.Trace = &rdmacm.Trace{
			DialStart: dialing("dial"), AddrResolved: dialing("address"), RouteResolved: dialing("route"),
			DialDone: func(_ netip.AddrPort, err error) {
				if step("done"); err != nil {
					t.Error(err)
				}
			},
			Accepted: func(_, _ netip.AddrPort) { step("accepted") },
			Refused:  func(_, _ netip.AddrPort, err error) { t.Error(err) },
			NoRoom: func(_, _ netip.AddrPort) {
				select {
				case noRoom <- struct{}{}:
				default:
				}
			},
			Disconnected: func(_, _ netip.AddrPort, cause error) { ends <- cause },
		}
		a, b, err1, err2 := meet(t, listen(t, &cfg), &cfg)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		sent := make(chan error, 1)
		go func() {
			var err error
			for err == nil {
				err = a.Send(ctx, nil)
			}
			sent <- err
		}()
		<-noRoom
		cancel()
		if err := <-sent; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := a.SetLinger(0); err != nil {
			t.Error(err)
		}
		bothFree(t, a, b)
		for range 2 {
			if err := <-ends; err == nil {
				t.Error("an end without a cause")
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if i := slices.Index(steps, "accepted"); i < 0 || !slices.Equal(slices.Delete(steps, i, i+1), []string{"dial", "address", "route", "done"}) {
			t.Error(steps)
		}
	})
}

// TestLogTrace checks that the adapter for slog logs failures as warnings, and an orderly end not as one.
func TestLogTrace(t *testing.T) {
	newFabric(t, rdmatest.RXE)
	var text bytes.Buffer
	log := slog.New(slog.NewTextHandler(&text, nil))
	var d Dialer
	d.Trace = rdmacm.LogTrace(log)
	_, err := d.Dial(t.Context(), host+":9")
	if out := text.String(); err == nil || strings.Count(out, "\n") == 0 || !strings.Contains(out, "level=WARN msg=dialled remote="+host+":9 err=") {
		t.Errorf("%v: %q", err, out)
	}
	text.Reset()
	var addr netip.AddrPort
	d.Trace.Disconnected(addr, addr, rdmacm.ErrDisconnected)
	if out := text.String(); out != "" { // slog's default level is above debugging
		t.Errorf("an orderly end: %q", out)
	}
	d.Trace.Disconnected(addr, addr, verbs.StatusRemAccessErr)
	if out := text.String(); !strings.Contains(out, "level=WARN msg=disconnected") {
		t.Errorf("a failure: %q", out)
	}
}
