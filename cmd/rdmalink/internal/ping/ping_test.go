package ping

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/rping"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/verbs"
)

func TestOptions(t *testing.T) {
	base := options{host: "h", port: 7174, size: 64, interval: time.Second, limit: 2 * time.Second}
	with := func(change func(*options)) options { o := base; change(&o); return o }
	for line, want := range map[string]options{
		"h":                    base,
		"-c3 -i 0.25 h":        with(func(o *options) { o.count, o.interval = 3, 250*time.Millisecond }),
		"h -qj -W 1e3 -i0":     with(func(o *options) { o.quiet, o.asJSON, o.limit, o.interval = true, true, 1000*time.Second, 0 }),
		"--size=23 -p1 -I a h": with(func(o *options) { o.size, o.port, o.source = 23, 1, "a" }),
	} {
		got, err := parse(strings.Fields(line))
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(options{})); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", line, err, diff)
		}
	}
	for line, want := range map[string]string{
		"":          "the server's address is missing: rdmalink ping HOST",
		"h i":       `unexpected argument "i"`,
		"h -W 0":    "-W must be above 0",
		"h -i -1":   `"-1": the interval must be a number of seconds from 0 to 1000000`,
		"h -i NaN":  `"NaN": the interval must be a number of seconds from 0 to 1000000`,
		"h -s 22":   `"22": the size must be a number from 23 to 65535`,
		"h -p 0":    `"0": the port must be a number from 1 to 65535`,
		"h -c 1e10": `"1e10": the count must be a number from 0 to 2147483647`,
	} {
		var usage cli.UsageError
		if _, err := parse(strings.Fields(line)); !errors.As(err, &usage) || usage.Text != want {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}

// ran is a session with four pings, one of which was lost.
func ran(t *testing.T, out *bytes.Buffer, o options) *session {
	t.Helper()
	s := &session{Output: cli.Output{Stdout: out, JSON: o.asJSON}, options: o,
		report: report{Host: o.host, Peer: netip.MustParseAddrPort("10.0.0.2:7174"), Device: "rxe0", start: time.Now()}}
	lost := errors.New("gone\ntoo")
	for i, err := range []error{nil, lost, nil, nil} {
		if err := s.counted(i+1, time.Duration(i+1)*time.Millisecond, err); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.summary(), s.outcome()); err != nil {
		t.Error(err)
	}
	return s
}

func TestText(t *testing.T) {
	const summary = "--- h RDMA ping statistics ---\n4 pings, 3 answered, 25% lost, time 0.000 s\n" +
		"time min/mean/p50/p90/p99/max = 1.000/2.667/3.015/4.000/4.000/4.000 ms\n"
	const lines = "64 bytes from 10.0.0.2: seq=1 time=1.000 ms\nlost: seq=2: gone; too\n" +
		"64 bytes from 10.0.0.2: seq=3 time=3.000 ms\n64 bytes from 10.0.0.2: seq=4 time=4.000 ms\n"
	for _, test := range []struct {
		quiet bool
		want  string
	}{{true, summary}, {false, lines + summary}} {
		var out bytes.Buffer
		ran(t, &out, options{host: "h", size: 64, quiet: test.quiet})
		if diff := cmp.Diff(test.want, untimed(out.String())); diff != "" {
			t.Error(diff)
		}
	}
}

// untimed takes out how long the test itself took.
func untimed(s string) string {
	before, after, _ := strings.Cut(s, "lost, time ")
	_, rest, _ := strings.Cut(after, " s\n")
	return before + "lost, time 0.000 s\n" + rest
}

func TestJSON(t *testing.T) {
	var out bytes.Buffer
	ran(t, &out, options{host: "h", size: 64, asJSON: true})
	var got map[string]any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || strings.Count(out.String(), "\n") != 1 {
		t.Fatal(err, out.String())
	}
	delete(got, "seconds")
	want := map[string]any{"host": "h", "peer": "10.0.0.2:7174", "device": "rxe0", "sent": 4., "answered": 3., "error": "gone\ntoo",
		"min_usec": 1000., "mean_usec": 2666.666, "p50_usec": 3014.655, "p90_usec": 4000., "p99_usec": 4000., "max_usec": 4000.}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A run without an answer is an error that says why.
func TestNoAnswer(t *testing.T) {
	s := &session{options: options{host: "h", quiet: true}}
	if err := s.outcome(); err == nil || err.Error() != "no answer from h" {
		t.Error(err)
	}
	if err := s.counted(1, 0, errors.New("why")); err != nil {
		t.Fatal(err)
	}
	if err := s.outcome(); err == nil || err.Error() != "no answer from h: why (rdmalink rping -s -P is a server)" {
		t.Error(err)
	}
}

// TestUnknownHost checks that an unknown host name is not pinged repeatedly.
func TestUnknownHost(t *testing.T) {
	const host = "no~such" // no domain's name, so that no server is asked
	var out bytes.Buffer
	err := Run(t.Context(), cli.Output{Stdout: &out}, []string{host})
	if err == nil || !strings.Contains(err.Error(), host) || out.Len() != 0 {
		t.Errorf("%v, %s", err, &out)
	}
	var r report
	err = Run(t.Context(), cli.Output{Stdout: &out}, []string{"-j", host})
	if bad := json.Unmarshal(out.Bytes(), &r); bad != nil || err == nil || r.Sent != 0 || !strings.Contains(r.Error, host) {
		t.Errorf("%v, %v: %s", err, bad, &out)
	}
}

// TestPermanent checks which errors end the run: those that do not depend on when the peer is there.
func TestPermanent(t *testing.T) {
	for err, want := range map[error]bool{
		nil: false,
		&verbs.Error{Op: "resolve address", Err: syscall.ENODEV}:                                       true,
		&verbs.Error{Op: "resolve address", Err: syscall.ENETUNREACH}:                                  true,
		&verbs.Error{Op: "resolve address", Err: syscall.EADDRNOTAVAIL}:                                true,
		&verbs.Error{Op: "resolve address", Err: syscall.EHOSTUNREACH}:                                 false,
		&verbs.Error{Op: "resolve route", Err: syscall.ETIMEDOUT}:                                      false,
		&verbs.Error{Op: "connect", Err: &rdmacm.RejectedError{Reason: rdmacm.RejectInvalidServiceID}}: false,
		&verbs.Error{Op: "connect", Err: &rdmacm.RejectedError{Reason: rdmacm.RejectConsumer}}:         true,
		&verbs.Error{Op: "connect", Err: &rdmacm.RejectedError{Errno: syscall.ECONNREFUSED}}:           false,
		fmt.Errorf("waiting: %w", rping.ErrProtocol):                                                   true,
		rdmacm.ErrDisconnected:   false,
		context.DeadlineExceeded: false,
		verbs.ErrNoProvider:      true,
	} {
		if permanent(err) != want {
			t.Errorf("%v: not %v", err, want)
		}
	}
}

// TestPermanentEnds checks that a run without a count ends at a permanent error, with the summary.
func TestPermanentEnds(t *testing.T) {
	var out bytes.Buffer
	// The first address is not of this machine, so that binding to it fails, or there is no RDMA at all.
	err := Run(t.Context(), cli.Output{Stdout: &out}, []string{"-I", "192.0.2.77", "192.0.2.78", "-W", "60"})
	if err == nil || !strings.Contains(out.String(), "1 pings, 0 answered") {
		t.Errorf("%v, %s", err, &out)
	}
}
