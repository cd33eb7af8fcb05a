package cm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/peer"
)

// TestReport checks the report of a run as text and as JSON, which includes the
// error.
func TestReport(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		var out bytes.Buffer
		s := newSession("ucmatose", cli.Output{Stdout: &out, JSON: asJSON}, options{server: "h", size: 7})
		failure := errors.New("rdmacm: gone")
		if err := errors.Join(s.connected("rxe0", 1), s.transferred(time.Now(), 2, 3)); err != nil {
			t.Error(err)
		}
		if err := s.finish(failure); !errors.Is(err, failure) {
			t.Error(err)
		}
		if !asJSON {
			lines := strings.Split(out.String(), "\n")
			if len(lines) != 3 || !strings.HasPrefix(lines[0], "ucmatose: 1 connection over rxe0, ") ||
				!strings.HasPrefix(lines[1], "ucmatose: 2 messages of 7 bytes sent, 3 received, ") {
				t.Errorf("%q", lines)
			}
			continue
		}
		var got report
		if err := json.Unmarshal(out.Bytes(), &got); err != nil || got.Role != "client" || got.Device != "rxe0" || got.Connections != 1 ||
			got.Sent != 2 || got.Received != 3 || got.Size != 7 || got.Error != "gone" {
			t.Errorf("%s, %v", &out, err)
		}
	}
}

func TestStep(t *testing.T) {
	got := newStep("connect", 6*time.Millisecond, []time.Duration{2 * time.Millisecond, 5 * time.Millisecond})
	if want := (step{Name: "connect", Total: 6, Max: 5, Min: 2000, Each: 3000}); got != want {
		t.Errorf("%+v", got)
	}
}

// TestEach checks that the first error stops the other connections and is the one
// returned.
func TestEach(t *testing.T) {
	broken := errors.New("broken")
	err := each(t.Context(), 3, func(ctx context.Context, i int) error {
		if i == 1 {
			return broken
		}
		<-ctx.Done()
		return ctx.Err()
	})
	if err != broken {
		t.Error(err)
	}
	if err := each(t.Context(), 3, func(context.Context, int) error { return nil }); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := each(ctx, 1, func(ctx context.Context, _ int) error { return ctx.Err() }); err != peer.ErrInterrupted {
		t.Error(err)
	}
}

func TestCountdown(t *testing.T) {
	c := newCountdown(2)
	c.down()
	select {
	case <-c.zero:
		t.Error("too early")
	default:
	}
	c.down()
	<-c.zero
}

// TestResolve checks addresses and names. -f ip accepts only addresses.
func TestResolve(t *testing.T) {
	s := newSession("ucmatose", cli.Output{}, options{numeric: true, bind: "::ffff:10.0.0.1", port: 9})
	if ip, err := s.source(t.Context()); err != nil || ip.String() != "10.0.0.1" {
		t.Error(ip, err)
	}
	s.server = "localhost"
	if _, err := s.destination(t.Context()); !errors.As(err, new(cli.UsageError)) {
		t.Error(err)
	}
	s.bind = ""
	if addrs, err := s.listenAddrs(t.Context()); err != nil || len(addrs) != 2 || addrs[0].String() != "0.0.0.0:9" || addrs[1].String() != "[::]:9" {
		t.Error(addrs, err)
	}
}
