//go:build linux

package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// A bar is a limit for the ratio of goverbs' figure to another implementation's.
type bar struct {
	measures []string
	driver   string   // "" means any
	unit     string   // "" means any
	params   string   // prefix of the row's parameters
	not      string   // excluded prefix of the row's parameters
	against  []string // implementations
	limit    float64
	least    bool // whether the limit is a minimum
	spread   bool // whether it suffices that the best run reaches the limit
}

var hot = []string{"post_recv", "post_send", "post_send_inline", "post_write", "post_write_inline", "poll_full", "poll_empty", "arm"}

// bars holds the bars of the project's goals.
var bars = []bar{
	{measures: hot, driver: "mlx5", params: "list 1", not: "list 16", against: []string{"rdma-core"}, limit: 1.2},
	{measures: hot, driver: "mlx5", params: "list", against: []string{"rdma-core"}, limit: 1},
	{measures: hot, driver: "mlx5", params: "list 1", not: "list 16", against: []string{"cgo"}, limit: 0.3},
	{measures: hot, driver: "mlx5", against: []string{"cgo"}, limit: 0.8},
	{measures: hot, unit: "ns", against: []string{"cgo"}, limit: 0.3},
	{measures: hot, unit: "ns", params: "list 1", not: "list 16", against: []string{"rdma-core"}, limit: 1.3},
	{measures: []string{"poll_empty", "arm"}, unit: "ns", against: []string{"rdma-core"}, limit: 1.3},
	{measures: hot, unit: "ns", params: "list", against: []string{"rdma-core"}, limit: 1},
	{measures: []string{"system_calls", "system_calls_but_runtime", "doorbells"}, against: []string{"rdma-core", "perftest", "cmtime", "rstream", "verbs"}, limit: 1, spread: true},
	{measures: []string{"wake_ups"}, against: []string{"rdma-core", "perftest", "cmtime", "rstream", "verbs"}, limit: 1, spread: true},
	{measures: []string{"event_latency_p50"}, against: []string{"perftest"}, limit: 1.1},
	{measures: []string{"latency_p50"}, against: []string{"perftest"}, limit: 1, spread: true},
	{measures: []string{"bandwidth", "message_rate"}, against: []string{"perftest"}, limit: 1, least: true, spread: true},
	{measures: []string{"connect rate"}, against: []string{"cmtime", "rdma-core"}, limit: 1, least: true},
	{measures: []string{"transfer_instructions"}, against: []string{"rstream"}, limit: 1.1},
	{measures: []string{"message_instructions"}, params: "64 B", against: []string{"verbs"}, limit: 1.1},
	{measures: []string{"transfer"}, against: []string{"rstream"}, limit: 1, spread: true},
	{measures: []string{"memory per connection", "memory per stream"}, against: []string{"rdma-core"}, limit: 1.5},
	{measures: []string{"descriptors per stream"}, against: []string{"rdma-core"}, limit: 1},
}

// barOf returns the bar of a row for a comparison with another implementation, or nil.
func barOf(k key, other string) *bar {
	for i, b := range bars {
		if b.holdsFor(k) && slices.Contains(b.against, other) {
			return &bars[i]
		}
	}
	return nil
}

func (b bar) holdsFor(k key) bool {
	return slices.Contains(b.measures, k.Measure) && (b.driver == "" || b.driver == k.Driver) && (b.unit == "" || b.unit == k.Unit) && strings.HasPrefix(k.Params, b.params) && (b.not == "" || !strings.HasPrefix(k.Params, b.not))
}

// reached returns a word for whether a ratio reaches the bar. It compares the two decimals that the page
// shows.
func (b bar) reached(s spread) string {
	shown := func(x float64) float64 { return math.Round(x*100) / 100 }
	within := func(x float64) bool { return shown(x) <= b.limit }
	best := s.min
	if b.least {
		within = func(x float64) bool { return shown(x) >= b.limit }
		best = s.max
	}
	switch {
	case within(s.median):
		return "yes"
	case b.spread && within(best):
		return "within the spread"
	}
	return "no"
}

func (b bar) String() string {
	sign := "≤"
	if b.least {
		sign = "≥"
	}
	return fmt.Sprintf("%s %g", sign, b.limit)
}
