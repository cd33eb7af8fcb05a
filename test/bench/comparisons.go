//go:build linux

package main

import (
	"slices"
	"strings"
)

// A comparison holds rows of figures that the page compares with other implementations.
type comparison struct {
	measures []string
	driver   string   // "" means any
	unit     string   // "" means any
	params   string   // prefix of the row's parameters
	not      string   // excluded prefix of the row's parameters
	against  []string // implementations
}

var hot = []string{"post_recv", "post_send", "post_send_inline", "post_write", "post_write_inline", "poll_full", "poll_empty", "arm"}

// built are sends by uverbs.Sends. rdma-core has nothing else for DC.
var built = []string{"build_send", "build_send_inline", "build_write", "build_write_inline"}

// comparisons lists what the page shows. A row belongs to the first comparison that it fits.
var comparisons = []comparison{
	{measures: hot, driver: "mlx5", params: "list 1", not: "list 16", against: []string{"rdma-core"}},
	{measures: hot, driver: "mlx5", params: "list", against: []string{"rdma-core"}},
	{measures: hot, driver: "mlx5", params: "list 1", not: "list 16", against: []string{"cgo"}},
	{measures: hot, driver: "mlx5", against: []string{"cgo"}},
	{measures: built, driver: "mlx5-dc", params: "list 1", not: "list 16", against: []string{"rdma-core"}},
	{measures: built, driver: "mlx5-dc", params: "list", against: []string{"rdma-core"}},
	{measures: hot, unit: "ns", against: []string{"cgo"}},
	{measures: hot, unit: "ns", params: "list 1", not: "list 16", against: []string{"rdma-core"}},
	{measures: []string{"poll_empty", "arm"}, unit: "ns", against: []string{"rdma-core"}},
	{measures: hot, unit: "ns", params: "list", against: []string{"rdma-core"}},
	{measures: []string{"system_calls", "system_calls_but_runtime", "doorbells"}, against: []string{"rdma-core", "perftest", "rstream", "verbs"}},
	{measures: []string{"wake_ups"}, against: []string{"rdma-core", "perftest", "rstream", "verbs"}},
	{measures: []string{"event_latency_p50"}, against: []string{"perftest"}},
	{measures: []string{"latency_p50"}, against: []string{"perftest"}},
	{measures: []string{"bandwidth", "message_rate"}, against: []string{"perftest"}},
	{measures: []string{"connect rate"}, against: []string{"rdma-core"}},
	{measures: []string{"transfer_instructions"}, against: []string{"rstream"}},
	{measures: []string{"message_instructions"}, params: "64 B", against: []string{"verbs"}},
	{measures: []string{"batch_instructions", "engine_batch_instructions"}, against: []string{"verbs"}},
	{measures: []string{"read", "send"}, against: []string{"before"}},
	{measures: []string{"send latency", "connect"}, against: []string{"before"}},
	{measures: []string{"memory per connection"}, against: []string{"rdma-core"}},
}

// comparisonOf returns the comparison of a row with another implementation, or nil.
func comparisonOf(k key, other string) *comparison {
	for i, c := range comparisons {
		if c.holds(k) && slices.Contains(c.against, other) {
			return &comparisons[i]
		}
	}
	return nil
}

func (c comparison) holds(k key) bool {
	return slices.Contains(c.measures, k.Measure) && (c.driver == "" || c.driver == k.Driver) && (c.unit == "" || c.unit == k.Unit) && strings.HasPrefix(k.Params, c.params) && (c.not == "" || !strings.HasPrefix(k.Params, c.not))
}

// String returns what the page calls the comparison.
func (c comparison) String() string {
	name := strings.ReplaceAll(strings.Join(c.measures, ", "), "_", " ")
	switch {
	case slices.Equal(c.measures, hot):
		name = "post, poll, arm"
	case slices.Equal(c.measures, built):
		name = "sends to a DCT"
	}
	switch {
	case c.not != "":
		name += ": lists of 1"
	case c.params == "list":
		name += ": lists"
	case c.params != "":
		name += ": " + c.params
	}
	return name
}
