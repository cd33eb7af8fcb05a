package rping

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

func TestRpingInfo(t *testing.T) {
	want := []byte{0, 0, 0x7f, 0x12, 0x34, 0x56, 0x78, 0x90, 0xca, 0xfe, 0xba, 0xbe, 0, 0, 0x10, 0}
	info := info{addr: 0x7f1234567890, rkey: 0xcafebabe, size: 4096}
	got := make([]byte, infoSize)
	info.encode(got)
	if !bytes.Equal(got, want) || decodeInfo(got) != info {
		t.Errorf("% x, want % x; back: %+v", got, want, decodeInfo(got))
	}
}

// TestFillPing compares the data with lines that librdmacm's rping printed.
func TestFillPing(t *testing.T) {
	for n, want := range map[int]string{
		0:          "rdma-ping-0: ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqr",
		57:         "rdma-ping-57: zABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnop",
		58:         "rdma-ping-58: ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopq",
		2147483647: "rdma-ping-2147483647: ",
	} {
		size := len(want) + 1
		b := bytes.Repeat([]byte{'!'}, size)
		fillPing(b, n)
		if got := string(pingText(b)); got != want || b[size-1] != 0 || echoSize(b) != size {
			t.Errorf("ping %d of %d bytes: %q, want %q; %d to write back", n, size, got, want, echoSize(b))
		}
	}
}

// TestPingText checks a text without a NUL at the end.
func TestPingText(t *testing.T) {
	for data, want := range map[string]struct {
		text string
		echo int
	}{
		"":             {"", 0},
		"ping":         {"ping", 4},
		"ping\x00":     {"ping", 5},
		"pi\x00ng":     {"pi", 3},
		"\x00ping":     {"", 1},
		"ping\x00\x00": {"ping", 5},
	} {
		if text, echo := string(pingText([]byte(data))), echoSize([]byte(data)); text != want.text || echo != want.echo {
			t.Errorf("%q: text %q, %d to write back, want %+v", data, text, echo, want)
		}
	}
}

// TestOutlast runs in a bubble, where time passes when nothing else can happen.
func TestOutlast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		late, stop := outlast(ctx, time.Minute)
		defer stop()
		cancel()
		time.Sleep(time.Minute - 1)
		if late.Err() != nil {
			t.Error("over with the first context")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if late.Err() == nil {
			t.Error("without end")
		}
		// stop ends it as well, and at once.
		late, stop = outlast(context.Background(), time.Hour)
		stop()
		if late.Err() == nil {
			t.Error("goes on after stop")
		}
	})
}

func TestRpingReport(t *testing.T) {
	var out bytes.Buffer
	r := &session{Output: cli.Output{Stdout: &out, JSON: true}}
	report := &report{Role: "client", session: r, start: time.Now()}
	report.add(64)
	report.add(64)
	if err := report.finish(nil, ErrMismatch, nil); err == nil || err.Error() != ErrMismatch.Error() {
		t.Error(err)
	}
	const begin = `{"role":"client","local":"","peer":"","device":"","pings":2,"bytes":256,"seconds":`
	const end = `,"error":"data mismatch: what came back is not what was sent"}` + "\n"
	if got := out.String(); !strings.HasPrefix(got, begin) || !strings.HasSuffix(got, end) {
		t.Error(got)
	}
}

// TestShow checks that bytes from a peer are escaped before they reach a terminal, and
// that the text of a ping is printed.
func TestShow(t *testing.T) {
	ping := make([]byte, 64)
	fillPing(ping, 1)
	for data, want := range map[string]string{
		string(ping):                string(ping[:63]),
		"\x1b[2Jx\nserver ping\x9b": `\x1b[2Jx\nserver ping\x9b`,
	} {
		var out strings.Builder
		r := &session{Output: cli.Output{Stdout: &out}, options: options{verbose: true}}
		if err := r.show("ping data", []byte(data)); err != nil || out.String() != "ping data: "+want+"\n" {
			t.Errorf("%q, %v", out.String(), err)
		}
	}
}
