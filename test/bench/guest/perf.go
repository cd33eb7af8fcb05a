//go:build linux

package main

import (
	"errors"
	"strings"

	"github.com/goverbs/goverbs/test/bench/result"
)

// perf measures latency, bandwidth and message rate: rdmalink perf at both ends
// beside perftest at both ends.
func perf(b *bench) error {
	if err := b.twoProcs(); err != nil {
		return err
	}
	return forEach(b, perfRows(b), func(r perfRow, l *link) error {
		var entrants []entrant
		for _, impl := range b.impls("perftest", "goverbs") {
			entrants = append(entrants, entrant{impl, func() ([]result.Sample, error) { return b.measure(r, impl, l) }})
		}
		return b.interleave(entrants...)
	})
}

func (b *bench) measure(r perfRow, impl string, l *link) ([]result.Sample, error) {
	if r.cpu {
		return b.measureCPU(r, impl, l)
	}
	report, err := b.playReport(b.pairOf(impl, l, r.test))
	if err != nil {
		return nil, err
	}
	if r.kind == "lat" {
		return r.latencies(report, l)
	}
	// Of the rate, because the column of bandwidth ends after two decimals.
	samples := []result.Sample{r.sample(l, "bandwidth", "MiB/s", report.rate()*1e6*float64(r.size)/(1<<20))}
	if r.size < 4096 { // beyond, it says the same
		samples = append(samples, r.sample(l, "message_rate", "1000 messages/s", 1000*report.rate()))
	}
	return samples, nil
}

func (r perfRow) sample(l *link, measure, unit string, value float64) result.Sample {
	name := strings.Replace(r.test.String(), " "+r.kind, "", 1)
	return result.Sample{Measure: measure, Driver: l.driver, Params: name, Unit: unit, Value: value}
}

// latencies of sends and writes are half a round trip, as perftest has it.
func (r perfRow) latencies(report report, l *link) (samples []result.Sample, err error) {
	measure := "latency_"
	if r.events {
		measure = "event_latency_"
	}
	for _, p := range []struct {
		name string
		of   float64
	}{{"p50", 50}, {"p90", 90}, {"p99", 99}, {"p99.9", 99.9}} {
		us, err := report.percentile(p.of)
		if err != nil {
			return nil, err
		}
		samples = append(samples, r.sample(l, measure+p.name, "µs", us))
	}
	return samples, nil
}

// longer is how much longer the long one of two exchanges is.
const longer = 10

// measureCPU plays a test twice: the difference is the cost of a GiB. The time is
// that of the two processes; what kernel threads do for them is not in it.
func (b *bench) measureCPU(r perfRow, impl string, l *link) ([]result.Sample, error) {
	short, err := b.play(b.pairOf(impl, l, r.test))
	if err != nil {
		return nil, err
	}
	bytes := r.bytes()
	r.iters *= longer
	long, err := b.play(b.pairOf(impl, l, r.test))
	if err != nil {
		return nil, err
	}
	if long.cpu <= short.cpu {
		return nil, errors.New("more data took less CPU time")
	}
	gib := float64(r.bytes()-bytes) / (1 << 30)
	return []result.Sample{r.sample(l, "cpu_per_GiB", "s", (long.cpu-short.cpu).Seconds()/gib)}, nil
}
