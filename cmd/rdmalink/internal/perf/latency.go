package perf

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/goverbs/goverbs/verbs"
)

// Latency is the result of a latency test of one size, in µs: of SEND and WRITE
// half of the time there and back, of READ and atomics the whole.
//
// The two slowest messages count nowhere but in Max, which is the second of them:
// so does perftest. Its standard deviation cuts all differences off to whole
// microseconds, this one does not.
type Latency struct {
	Size, Iters int
	Min, Max    float64
	Typical     float64 // the median
	Avg, Stdev  float64
	P99, P999   float64
	// Samples are all of them in the order of time. When the time decided there
	// are none, nor any other figure but Avg and PerSecond.
	Samples   []float64
	PerSecond float64 // exchanges, when the time decided
}

// tail is how many of the slowest are left out.
//
// C: LAT_MEASURE_TAIL
const tail = 2

// Sorted are the samples that count, the fastest first.
func (l *Latency) Sorted() []float64 {
	all := slices.Sorted(slices.Values(l.Samples))
	return all[:len(all)-tail]
}

// newLatency computes the result from the time stamps that were taken before each
// message.
//
// C: print_report_lat
func newLatency(size int, stamps []int64, perSample int) *Latency {
	l := &Latency{Size: size, Iters: len(stamps), Samples: make([]float64, len(stamps)-1)}
	for i := range l.Samples {
		l.Samples[i] = float64(stamps[i+1]-stamps[i]) / float64(perSample) / 1e3
	}
	all := slices.Sorted(slices.Values(l.Samples))
	n := len(all) - tail
	l.Min, l.Max = all[0], all[n]
	l.Typical = median(all[:n])
	for _, v := range all[:n] {
		l.Avg += v / float64(n)
	}
	for _, v := range all[:n] {
		l.Stdev += (v - l.Avg) * (v - l.Avg) / float64(n)
	}
	l.Stdev = math.Sqrt(l.Stdev)
	l.P99, l.P999 = all[rank(n, 0.99)], all[rank(n, 0.999)]
	return l
}

func rank(n int, share float64) int { return int(math.Ceil(float64(n) * share)) }

// median returns the upper median for an even number of samples.
func median(sorted []float64) float64 {
	n := len(sorted)
	if n%2 == 0 {
		return (sorted[n/2] + sorted[n/2-1]) / 2
	}
	return sorted[n/2]
}

// timedLatency is the result when the time decided.
func timedLatency(size int, exchanges int64, ns int64, perSample int) *Latency {
	seconds := float64(ns) / 1e9
	return &Latency{Size: size, Iters: int(exchanges),
		Avg: seconds * 1e6 / float64(perSample) / float64(exchanges), PerSecond: float64(exchanges) / seconds}
}

// sendLatency sends a message to and fro. The time stamps before this end's
// messages yield one sample for every two messages.
//
// C: run_iter_lat_send
func (r *run) sendLatency() error {
	f := r.flows[0]
	for r.more(f.sent) || r.more(f.got) {
		if r.more(f.got) && (f.sent > 0 || !r.client()) {
			if err := r.receiveOne(f); err != nil {
				return fmt.Errorf("message %d of the peer: %w", f.got+1, err)
			}
		}
		if !r.more(f.sent) {
			continue
		}
		if r.stamps != nil {
			r.stamps[f.sent] = now()
		}
		if err := f.send(r.end, r.last()); err != nil {
			return err
		}
		if f.sends[0].Flags&verbs.SendSignaled != 0 {
			if _, err := r.next(r.sendCQ, r.one[:]); err != nil {
				return fmt.Errorf("message %d: %w", f.sent, err)
			}
		}
		r.done.n.Store(int64(f.sent))
	}
	return nil
}

// receiveOne posts no receive that nothing would come for.
func (r *run) receiveOne(f *flow) error {
	if _, err := r.next(r.recvCQ, r.one[:]); err != nil {
		return err
	}
	if f.got++; f.got == 1 {
		r.startTime()
	}
	r.watch.count(1)
	if r.more(f.received) {
		return f.postRecvs(1)
	}
	return nil
}

// writeLatency exchanges WRITEs. The last byte of each is its number, which the
// other end polls for in its memory.
//
// C: run_iter_lat_write
func (r *run) writeLatency() error {
	f := r.flows[0]
	arrived, shift, err := r.lastByte(r.size)
	if err != nil {
		return err
	}
	mine := &r.mr.Bytes()[r.size-1]
	r.startTime()
	for r.more(f.sent) || r.more(f.got) {
		if r.more(f.got) && (f.sent > 0 || r.client()) {
			f.got++
			for byte(arrived.Load()>>shift) != byte(f.got) {
				if r.stopped.Load() {
					return fmt.Errorf("WRITE %d of the peer: %w", f.got, context.Cause(r.ctx))
				}
			}
		}
		if !r.more(f.sent) {
			continue
		}
		if r.stamps != nil {
			r.stamps[f.sent] = now()
		}
		*mine = byte(f.sent + 1)
		if err := f.send(r.end, r.last()); err != nil {
			return err
		}
		if _, err := r.next(r.sendCQ, r.one[:]); err != nil {
			return fmt.Errorf("WRITE %d: %w", f.sent, err)
		}
		r.watch.count(1)
		r.done.n.Store(int64(f.sent))
	}
	return nil
}

// opLatency carries out one READ or atomic after the other.
//
// C: run_iter_lat
func (r *run) opLatency() error {
	f := r.flows[0]
	r.startTime()
	for r.more(f.sent) {
		if r.stamps != nil {
			r.stamps[f.sent] = now()
		}
		if err := f.send(r.end, r.last()); err != nil {
			return err
		}
		if _, err := r.next(r.sendCQ, r.one[:]); err != nil {
			return fmt.Errorf("%v %d: %w", r.Verb, f.sent, err)
		}
		r.watch.count(1)
		r.done.n.Store(int64(f.sent))
	}
	return nil
}
