package perfcmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/perf"
	"github.com/goverbs/goverbs/internal/perftest"
	"github.com/goverbs/goverbs/verbs"
)

// newSession is a run that prints into out.
func newSession(t *testing.T, line string) (*session, *bytes.Buffer) {
	t.Helper()
	o, err := parseLine(line)
	if err != nil {
		t.Fatal(err)
	}
	out := new(bytes.Buffer)
	return &session{Output: cli.Output{Stdout: out, Stderr: out, JSON: o.asJSON}, options: o, kind: Kind{o.Verb, o.Latency}}, out
}

func setting(p *session) *perf.Setting {
	s := &perf.Setting{Options: perf.Completed(p.Options), Device: "rxe0", Driver: verbs.DriverRXE, Link: verbs.LinkEthernet}
	s.MTU = verbs.MTU1024
	s.Local = []perftest.Endpoint{{QPN: 17, PSN: 5, GID: verbs.GID{0: 0xfe, 1: 0x80, 15: 1}}}
	s.Remote = []perftest.Endpoint{{QPN: 18, PSN: 6}}
	return s
}

var aLatency = &perf.Latency{Size: 2, Iters: 6, Min: 1, Max: 4, Typical: 2.5, Avg: 2.25, Stdev: 0.5, P99: 3.75, P999: 4, Samples: []float64{3, 1, 4, 2, 9}}

func TestPerfReport(t *testing.T) {
	p, out := newSession(t, "send lat -n 6 -H h")
	r := p.newReport()
	if err := errors.Join(r.Start(setting(p)), r.Latency(aLatency), r.finish(nil)); err != nil {
		t.Error(err)
	}
	want := ruler + `                    Send Latency Test
 Device          : rxe0 (rxe)	Connection type : RC
 Number of qps   : 1		rdma_cm QPs     : OFF
 Mtu             : 1024[B]	Link type       : Ethernet
 TX depth        : 1		CQ Moderation   : 1
 RX depth        : 6
 Max inline data : 0[B]
` + ruler + ` local address: LID 0x0000 QPN 0x0011 PSN 0x5 GID fe80::1
 remote address: LID 0x0000 QPN 0x0012 PSN 0x6
` + ruler + latColumns + "#, usec\n1, 1\n2, 2\n3, 3\n" + ruler + latColumns +
		" 2       6          1.00           4.00         2.50     \t       2.25        \t0.50   \t\t3.75    \t\t4.00   \n" + ruler
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestPerfReportBandwidth(t *testing.T) {
	for line, want := range map[string]string{
		"write bw":                   " 64         5000             4.00               2.00   \t\t   0.032768\n",
		"write bw --report_gbits -b": " 64         5000             0.03               0.02   \t\t   0.032768\n",
	} {
		p, out := newSession(t, line)
		r := p.newReport()
		if err := r.Bandwidth(&perf.Bandwidth{Size: 64, Messages: 5000, Peak: 4 << 20, Average: 2 << 20, Rate: 32768}); err != nil || out.String() != want {
			t.Errorf("%s: %v\n%q, want\n%q", line, err, out, want)
		}
	}
}

func TestPerfColumns(t *testing.T) {
	for line, want := range map[string]string{
		"read lat":               "",
		"read lat h":             latColumns,
		"send lat":               latColumns,
		"send lat -D 1":          latTimedColumns,
		"send bw":                " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n",
		"send bw --report_gbits": " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n",
	} {
		if p, _ := newSession(t, line); p.newReport().columns() != want {
			t.Errorf("%s: %q", line, p.newReport().columns())
		}
	}
}

func TestPerfTitle(t *testing.T) {
	for line, want := range map[string]string{
		"send lat -e":  "Send Latency Test with events",
		"write bw -b":  "RDMA_Write Bidirectional BW Test",
		"read lat":     "RDMA_Read Latency Test",
		"atomic bw -b": "Atomic ATOMIC_FETCH_AND_ADD Bidirectional BW Test",
	} {
		p, _ := newSession(t, line)
		if got := p.newReport().title(setting(p)); got != want {
			t.Errorf("%s: %q", line, got)
		}
	}
}

func TestPerfJSON(t *testing.T) {
	p, out := newSession(t, "send lat -n 6 -U -j h")
	r := p.newReport()
	err := errors.Join(r.Start(setting(p)), r.Latency(aLatency))
	failure := errors.New("it broke")
	if err = errors.Join(err, r.finish(failure)); !errors.Is(err, failure) {
		t.Error(err)
	}
	var got map[string]any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || strings.Count(out.String(), "\n") != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	for name, want := range map[string]any{
		"test": "send lat", "role": "client", "device": "rxe0", "driver": "rxe", "connection": "RC", "error": "it broke",
		"rdma_cm": false, "events": false, "mtu_bytes": 1024., "rx_depth": 6.,
	} {
		if got[name] != want {
			t.Errorf("%s: %v, want %v", name, got[name], want)
		}
	}
	result := got["results"].([]any)[0].(map[string]any)
	if result["t_typical_usec"] != 2.5 || result["p99_9_usec"] != 4. || len(result["samples_usec"].([]any)) != 5 {
		t.Errorf("%v", result)
	}
}

// TestPerfProgress checks that the line is drawn, and erased before other output. It
// runs in a bubble, where no time passes meanwhile.
func TestPerfProgress(t *testing.T) { synctest.Test(t, testPerfProgress) }

func testPerfProgress(t *testing.T) {
	p, out := newSession(t, "send lat -D 10 h")
	r := p.newReport()
	if r.progress.show(); out.Len() > 0 {
		t.Errorf("%q, and nobody watches", out)
	}
	line := new(bytes.Buffer)
	r.progress.out = line
	for _, step := range []struct {
		do   func()
		want string
	}{
		{func() {}, "connecting to h"},
		{func() { r.Size(64, 200, new(perf.Progress)) }, "64 bytes: 0 of 200 messages, 0 %"},
		{func() { r.Size(64, 0, new(perf.Progress)); time.Sleep(4 * time.Second) }, "64 bytes: 4 of 10 s, 0 messages"},
		{func() { r.progress.rest() }, "waiting for the peer"},
	} {
		step.do()
		line.Reset()
		if r.progress.draw(); line.String() != "\r\x1b[K"+step.want {
			t.Errorf("%q, want %q", line, step.want)
		}
	}
	line.Reset()
	if err := r.print("x"); err != nil || line.String() != "\r\x1b[K" || out.String() != "x" {
		t.Errorf("%q, %q", line, out)
	}
	line.Reset()
	if r.progress.end(); line.Len() > 0 {
		t.Errorf("%q is cleared twice", line)
	}
}

// TestPerfLimits checks that a result below -w or -y, in the printed unit, fails the
// run at its end, after all rows.
func TestPerfLimits(t *testing.T) {
	b := &perf.Bandwidth{Size: 1 << 20, Messages: 10, Average: 2 << 20, Rate: 2e6}
	for line, want := range map[string]string{
		"send bw":                     "<nil>",
		"send bw -w 2 -y 2":           "<nil>",
		"send bw -w 2.5":              "-w 2.5: the average bandwidth with 1048576 bytes is 2.00",
		"send bw -y 2.5":              "-y 2.5: the message rate with 1048576 bytes is 2.000000",
		"send bw -w 1 --report_gbits": "-w 1: the average bandwidth with 1048576 bytes is 0.02",
	} {
		p, out := newSession(t, line)
		r := p.newReport()
		if err := r.Bandwidth(b); err != nil {
			t.Error(err)
		}
		if err := r.finish(nil); fmt.Sprint(err) != want || !strings.HasPrefix(out.String(), " 1048576 ") {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}

// TestJSONStdev checks that equal samples have a deviation of 0 in JSON, and that a
// timed run has none.
func TestJSONStdev(t *testing.T) {
	for _, c := range []struct {
		l    perf.Latency
		want bool
	}{{perf.Latency{Avg: 1}, true}, {perf.Latency{Avg: 1, PerSecond: 5}, false}} {
		var j jsonReport
		j.latency(&session{}, &c.l)
		line, err := json.Marshal(j.Results[0])
		if has := strings.Contains(string(line), `"t_stdev_usec":0`); err != nil || has != c.want {
			t.Errorf("%s, %v", line, err)
		}
	}
}
