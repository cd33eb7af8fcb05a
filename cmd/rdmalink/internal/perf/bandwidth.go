package perf

import (
	"fmt"
	"math"

	"github.com/goverbs/goverbs/internal/perftest"
)

// Bandwidth is the result of a bandwidth test of one size. In a test in both
// directions it is the sum of both ends.
type Bandwidth struct {
	Size     int
	Messages int64   // of all QPs; of one direction
	Peak     float64 // bytes a second between any two completions; 0 if not looked for
	Average  float64 // bytes a second
	Rate     float64 // messages a second
}

// newBandwidth computes the result from the messages and the time that they took.
func newBandwidth(size int, messages, ns int64) *Bandwidth {
	b := &Bandwidth{Size: size, Messages: messages}
	if ns > 0 {
		b.Rate = float64(messages) / float64(ns) * 1e9
	}
	b.Average = b.Rate * float64(size)
	return b
}

// findPeak finds the range of messages with the shortest time per message.
// completed[i] is the time at which message i was known to be complete.
//
// C: print_report_bw
func (b *Bandwidth) findPeak(posted, completed []int64, postList int) {
	var known []int
	for j, at := range completed {
		if at != 0 {
			known = append(known, j)
		}
	}
	best, first := 0.0, 0
	for i := 0; i < len(posted); i += postList {
		for first < len(known) && known[first] < i {
			first++
		}
		for _, j := range known[first:] {
			best = max(best, float64(j-i+1)/float64(completed[j]-posted[i]))
		}
	}
	b.Peak = best * 1e9 * float64(b.Size)
}

// Unit is how many bytes a second the ends of perftest call 1.
func (o *Options) Unit() float64 {
	if o.Gbits {
		return 1e9 / 8
	}
	return 1 << 20
}

// report is b for the peer.
func (b *Bandwidth) report(unit float64) perftest.Report {
	return perftest.Report{Size: uint64(b.Size), Iterations: uint64(b.Messages),
		Peak: b.Peak / unit, Average: b.Average / unit, Rate: b.Rate / 1e6}
}

// checkReport returns an error for an impossible report. An end of perftest that
// only provides its memory sends a report without meaning, which is not checked.
func checkReport(r *perftest.Report) error {
	for _, figure := range []float64{r.Peak, r.Average, r.Rate} {
		if !(figure >= 0 && figure <= math.MaxFloat32) { // nor NaN
			return fmt.Errorf("the peer's report is of a bandwidth or rate of %g", figure)
		}
	}
	if r.Size > math.MaxInt32 || r.Iterations > math.MaxInt64 {
		return fmt.Errorf("the peer's report is of %d messages of %d bytes", r.Iterations, r.Size)
	}
	return nil
}

// add counts the peer's direction in.
func (b *Bandwidth) add(peer *perftest.Report, unit float64) {
	b.Peak += peer.Peak * unit
	b.Average += peer.Average * unit
	b.Rate += peer.Rate * 1e6
}

// fromReport returns the result that a server prints if it only provided its
// memory.
func fromReport(r *perftest.Report, unit float64) *Bandwidth {
	b := &Bandwidth{Size: int(r.Size), Messages: int64(r.Iterations)}
	b.add(r, unit)
	return b
}
