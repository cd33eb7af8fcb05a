//go:build linux

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goverbs/goverbs/test/bench/plot"
)

// plots are the pictures of the page, by file name.
func (d document) plots() map[string]string {
	return map[string]string{
		"performance-bandwidth-send.svg":  d.bySize("bandwidth", "send", 128).SVG(),
		"performance-bandwidth-write.svg": d.bySize("bandwidth", "write", 128).SVG(),
		"performance-latency-sizes.svg":   d.bySize("latency_p50", "send", 0).SVG(),
		"performance-latency-siw.svg":     d.percentiles("siw").SVG(),
		"performance-latency-rxe.svg":     d.percentiles("rxe").SVG(),
	}
}

// compared are the two that the suite perf sets side by side.
var compared = []string{ours, "perftest"}

// drivers in the order of their colours.
var driverNames = []string{"siw", "rxe"}

// sizes are those that suites measure.
var sizes = []struct {
	bytes int
	name  string
}{{2, "2 B"}, {64, "64 B"}, {1 << 10, "1 KiB"}, {4 << 10, "4 KiB"}, {64 << 10, "64 KiB"}, {1 << 20, "1 MiB"}}

// bySize draws a measure of an operation against the size of a message.
func (d document) bySize(measure, op string, outstanding int) plot.Chart {
	c := plot.Chart{
		Title: fmt.Sprintf("%s: bandwidth, %d outstanding", strings.ToUpper(op), outstanding),
		X:     plot.Axis{Label: "size of a message", Log: true}, Y: plot.Axis{Label: "MiB/s", Log: true},
	}
	suffix := fmt.Sprintf(", %d outstanding", outstanding)
	if measure != "bandwidth" {
		suffix, c.Title, c.Y.Label = "", strings.ToUpper(op)+": latency, polled, median", "µs"
	}
	for _, size := range sizes {
		c.X.Ticks = append(c.X.Ticks, plot.At(float64(size.bytes), size.name))
	}
	for i, driver := range driverNames {
		for _, impl := range compared {
			l := plot.Line{Name: impl + ", " + driver, Colour: i, Dashed: impl != ours}
			for _, size := range sizes {
				if v, ok := d.find(measure, driver, op+" "+size.name+suffix, impl); ok {
					l.Points = append(l.Points, plot.Point{X: float64(size.bytes), Y: v.median, Low: v.min, High: v.max})
				}
			}
			c.Lines = append(c.Lines, l)
		}
	}
	return c
}

// percentiles draws the latencies of a small SEND on a driver, polled and with
// events.
func (d document) percentiles(driver string) plot.Chart {
	names := []string{"p50", "p90", "p99", "p99.9"}
	c := plot.Chart{Title: "SEND of 2 B on " + driver + ": latency", X: plot.Axis{Label: "percentile"}, Y: plot.Axis{Label: "µs", Log: true}}
	for i, name := range names {
		c.X.Ticks = append(c.X.Ticks, plot.At(float64(i), name))
	}
	for i, kind := range []struct{ name, measure, params string }{{"polled", "latency_", "send 2 B"}, {"events", "event_latency_", "send 2 B, events"}} {
		for _, impl := range compared {
			l := plot.Line{Name: impl + ", " + kind.name, Colour: i, Dashed: impl != ours}
			for x, name := range names {
				if v, ok := d.find(kind.measure+name, driver, kind.params, impl); ok {
					l.Points = append(l.Points, plot.Point{X: float64(x), Y: v.median, Low: v.min, High: v.max})
				}
			}
			c.Lines = append(c.Lines, l)
		}
	}
	return c
}

// find is what an implementation did in a row of the suite perf.
func (d document) find(measure, driver, params, impl string) (spread, bool) {
	i := slices.IndexFunc(d.Rows, func(r *row) bool {
		return r.Suite == "perf" && r.Measure == measure && r.Driver == driver && r.Params == params
	})
	if i < 0 {
		return spread{}, false
	}
	return d.Rows[i].value(impl)
}
