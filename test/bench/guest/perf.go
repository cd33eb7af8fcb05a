//go:build linux

package main

import (
	"strings"

	"github.com/goverbs/goverbs/test/bench/result"
)

// perf measures latency, bandwidth and message rate. It compares rdmalink perf at both ends with
// perftest at both ends.
func perf(b *bench) error {
	if err := b.twoProcs(); err != nil {
		return err
	}
	return forEach(b, perfRows(b), func(r test, l *link) error {
		var entrants []entrant
		for _, impl := range b.impls("perftest", "goverbs") {
			entrants = append(entrants, entrant{impl, func() ([]result.Sample, error) { return b.measure(r, impl, l) }})
		}
		return b.interleave(entrants...)
	})
}

func (b *bench) measure(r test, impl string, l *link) ([]result.Sample, error) {
	report, err := b.playReport(b.pairOf(impl, l, r))
	if err != nil {
		return nil, err
	}
	if r.kind == "lat" { // half a round trip for sends and writes, as in perftest
		measure := "latency_p50"
		if r.events {
			measure = "event_latency_p50"
		}
		return []result.Sample{r.sample(l, measure, "µs", report.typical())}, nil
	}
	// Computed from the rate, because the bandwidth has only two decimals.
	samples := []result.Sample{r.sample(l, "bandwidth", "MiB/s", report.rate()*1e6*float64(r.size)/(1<<20))}
	if r.size < 4096 { // for large messages the rate adds nothing
		samples = append(samples, r.sample(l, "message_rate", "1000 messages/s", 1000*report.rate()))
	}
	return samples, nil
}

func (t test) sample(l *link, measure, unit string, value float64) result.Sample {
	name := strings.Replace(t.String(), " "+t.kind, "", 1)
	return result.Sample{Measure: measure, Driver: l.driver, Params: name, Unit: unit, Value: value}
}
