//go:build linux

package main

import (
	"errors"
	"strings"

	"github.com/goverbs/goverbs/test/bench/result"
)

// perf measures latency, bandwidth and message rate. It compares rdmalink perf at both ends with
// perftest at both ends.
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
	// Computed from the rate, because the bandwidth has only two decimals.
	samples := []result.Sample{r.sample(l, "bandwidth", "MiB/s", report.rate()*1e6*float64(r.size)/(1<<20))}
	if r.size < 4096 { // for large messages the rate adds nothing
		samples = append(samples, r.sample(l, "message_rate", "1000 messages/s", 1000*report.rate()))
	}
	return samples, nil
}

func (r perfRow) sample(l *link, measure, unit string, value float64) result.Sample {
	name := strings.Replace(r.test.String(), " "+r.kind, "", 1)
	return result.Sample{Measure: measure, Driver: l.driver, Params: name, Unit: unit, Value: value}
}

// latencies returns the samples of a latency report. For sends and writes, a latency is half a round
// trip, as in perftest.
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

// longer is the ratio of the lengths of the two exchanges.
const longer = 10

// measureCPU runs a test with two lengths and computes the CPU time per GiB from the difference. It
// counts the CPU time of the two processes, without that of kernel threads.
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
