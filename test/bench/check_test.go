//go:build linux

package main

import (
	"maps"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/test/bench/result"
)

// TestHold makes each kind of figure worse.
func TestHold(t *testing.T) {
	l := limits{Tolerance: 1.1, Slack: 0.05, Instructions: map[string]float64{"post send: list 16 on siw": 100}, Beside: map[string]float64{"arm on rxe": 0.9}}
	connection := func(call string, n float64) []result.Sample {
		return []result.Sample{{Measure: namedCalls, Driver: "siw", Params: "connect: " + call, Impl: ours, Unit: "a connection", Value: n, Run: 1}}
	}
	counting := limits{Slack: 0.05, Calls: map[string]float64{
		"system calls named: connect: ioctl on siw": 25, "system calls named: connect: setsockopt on siw": 0}}
	for _, c := range []struct {
		samples []result.Sample
		want    string
	}{
		{connection("ioctl", 25.04), ""}, {connection("ioctl", 25.06), "25.06, at most 25.05"}, {connection("futex", 99), "0.00, at most 25.05"}, {nil, ""},
		{append(connection("ioctl", 25), connection("setsockopt", 2)...), "2.00, at most 0.05"},
	} {
		if err := counting.hold(rowsOf(c.samples)); c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	sample := func(measure, driver, params, impl, unit string, value float64) result.Sample {
		return result.Sample{Measure: measure, Driver: driver, Params: params, Impl: impl, Unit: unit, Value: value, Run: 1}
	}
	for _, c := range []struct {
		name    string
		samples []result.Sample
		want    string
	}{
		{"as fast", []result.Sample{sample("post_send", "siw", "list 16", ours, "instructions", 109)}, ""},
		{"slower", []result.Sample{sample("post_send", "siw", "list 16", ours, "instructions", 111)}, "111.0 instructions, at most 110.0"},
		{"unknown", []result.Sample{sample("post_send", "rxe", "list 16", ours, "instructions", 1)}, "no limit"},
		{"C is slower", []result.Sample{sample("post_send", "siw", "list 16", "rdma-core", "instructions", 111)}, ""},
		{"a call as fast", []result.Sample{
			sample("arm", "rxe", "", ours, "instructions", 899), sample("arm", "rxe", "", "rdma-core", "instructions", 1000)}, ""},
		{"a call slower", []result.Sample{
			sample("arm", "rxe", "", ours, "instructions", 901), sample("arm", "rxe", "", "rdma-core", "instructions", 1000)}, "901.00 instructions, at most 900.00 are allowed beside rdma-core"},
		{"many as few", []result.Sample{
			sample("arm", "rxe", "", ours, "1000 instructions", 0.9), sample("arm", "rxe", "", "verbs", "1000 instructions", 1)}, ""},
		{"many more", []result.Sample{
			sample("arm", "rxe", "", ours, "1000 instructions", 11), sample("arm", "rxe", "", "verbs", "1000 instructions", 10)}, "11.00 1000 instructions, at most 9.00 are allowed beside verbs"},
		{"a call without C", []result.Sample{sample("arm", "rxe", "", ours, "instructions", 1)}, "at most 0.00"},
		{"no allocation", []result.Sample{sample("arm_allocs", "siw", "", ours, "allocs", 0)}, ""},
		{"allocation", []result.Sample{sample("arm_allocs", "siw", "", ours, "allocs", 0.01)}, "arm allocs on siw: 0.01 allocations"},
		{"as many doorbells", []result.Sample{
			sample("doorbells", "rxe", "send", ours, "a message", 1.04), sample("doorbells", "rxe", "send", "perftest", "a message", 1)}, ""},
		{"more doorbells", []result.Sample{
			sample("doorbells", "rxe", "send", ours, "a message", 1.06), sample("doorbells", "rxe", "send", "perftest", "a message", 1)}, "1.06 a message"},
		{"more on siw", []result.Sample{
			sample("doorbells", "siw", "send", ours, "a message", 2), sample("doorbells", "siw", "send", "perftest", "a message", 1)}, ""},
	} {
		err := l.hold(rowsOf(c.samples))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// TestAccept checks that the limits of rows that were not measured stay.
func TestAccept(t *testing.T) {
	l := limits{Instructions: map[string]float64{"post send: list 16 on siw": 100, "post send: list 16 on rxe": 90}}
	l.accept(rowsOf([]result.Sample{{Measure: "post_send", Driver: "siw", Params: "list 16", Impl: ours, Unit: "instructions", Value: 80, Run: 1}}))
	want := map[string]float64{"post send: list 16 on siw": 80, "post send: list 16 on rxe": 90}
	if !maps.Equal(l.Instructions, want) {
		t.Errorf("%v, want %v", l.Instructions, want)
	}
}
