//go:build linux

package main

import (
	"testing"

	"github.com/goverbs/goverbs/test/bench/result"
)

func TestComparisonOf(t *testing.T) {
	for _, c := range []struct {
		measure, params, unit, other, want string
	}{
		{"post_send", "list 1", "ns", "rdma-core", "post, poll, arm: lists of 1"},
		{"post_send", "list 16", "ns", "rdma-core", "post, poll, arm: lists"},
		{"post_send", "list 64", "ns", "cgo", "post, poll, arm"},
		{"arm", "", "ns", "rdma-core", "poll empty, arm"},
		{"event_latency_p50", "send 2 B", "µs", "perftest", "event latency p50"},
		{"latency_p99", "send 2 B", "µs", "perftest", ""},
		{"post_send", "list 1", "ns", "perftest", ""},
		{"post_send", "list 16", "instructions", "rdma-core", ""}, // only shows changes
	} {
		got := ""
		if b := comparisonOf(key{Measure: c.measure, Params: c.params, Unit: c.unit}, c.other); b != nil {
			got = b.String()
		}
		if got != c.want {
			t.Errorf("%s %s beside %s: %q, want %q", c.measure, c.params, c.other, got, c.want)
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
