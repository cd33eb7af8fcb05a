//go:build linux

package main

import (
	"testing"

	"github.com/goverbs/goverbs/test/bench/result"
)

func TestBarOf(t *testing.T) {
	for _, c := range []struct {
		measure, params, other, want string
	}{
		{"post_send", "list 1", "rdma-core", "≤ 1.3"},
		{"post_send", "list 16", "rdma-core", "≤ 1"},
		{"post_send", "list 64", "cgo", "≤ 0.3"},
		{"arm", "", "rdma-core", "≤ 1.3"},
		{"latency_p50", "send 2 B", "perftest", "≤ 1"},
		{"event_latency_p50", "send 2 B", "perftest", "≤ 1.1"},
		{"bandwidth", "send 64 KiB", "perftest", "≥ 1"},
		{"latency_p99", "send 2 B", "perftest", ""},
		{"post_send", "list 1", "perftest", ""},
	} {
		got := ""
		if b := barOf(key{Measure: c.measure, Params: c.params, Unit: "ns"}, c.other); b != nil {
			got = b.String()
		}
		if got != c.want {
			t.Errorf("%s %s beside %s: %q, want %q", c.measure, c.params, c.other, got, c.want)
		}
	}
}

// TestNotInInstructions: rows in instructions have no bars. They only show changes.
func TestNotInInstructions(t *testing.T) {
	if b := barOf(key{Measure: "post_send", Params: "list 16", Unit: "instructions"}, "rdma-core"); b != nil {
		t.Error(b)
	}
}

func TestReached(t *testing.T) {
	strict, lenient := bar{limit: 1}, bar{limit: 1, least: true, spread: true}
	for _, c := range []struct {
		bar  bar
		s    spread
		want string
	}{
		{strict, spread{0.8, 1, 1.2}, "yes"},
		{strict, spread{0.8, 1.004, 1.2}, "yes"},
		{strict, spread{0.8, 1.1, 1.2}, "no"},
		{lenient, spread{0.8, 1.1, 1.2}, "yes"},
		{lenient, spread{0.8, 0.9, 1.2}, "within the spread"},
		{lenient, spread{0.8, 0.9, 0.95}, "no"},
	} {
		if got := c.bar.reached(c.s); got != c.want {
			t.Errorf("%v %v: %s, want %s", c.bar, c.s, got, c.want)
		}
	}
}

func TestRows(t *testing.T) {
	sample := func(impl string, run int, value float64) result.Sample {
		return result.Sample{Suite: "ring", Measure: "arm", Impl: impl, Run: run, Value: value, Unit: "ns"}
	}
	rows := rowsOf([]result.Sample{
		sample("goverbs", 1, 10), sample("rdma-core", 1, 20), sample("goverbs", 2, 30), sample("rdma-core", 2, 30),
		sample("goverbs", 3, 30), sample("rdma-core", 3, 20), sample("goverbs", 4, 7),
	})
	if len(rows) != 1 {
		t.Fatal(rows)
	}
	if got, ok := rows[0].ratio("rdma-core"); !ok || got != (spread{0.5, 1, 1.5}) {
		t.Error(got, ok)
	}
	if got, _ := rows[0].value("goverbs"); got != (spread{7, 20, 30}) {
		t.Error(got)
	}
	if _, ok := rows[0].ratio("cgo"); ok {
		t.Error("a ratio to nothing")
	}
}
