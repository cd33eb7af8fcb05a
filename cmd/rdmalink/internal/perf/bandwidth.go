package perf

import (
	"fmt"
	"math"
	"runtime"

	"github.com/goverbs/goverbs/internal/perftest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Bandwidth is the result of a bandwidth test of one size. In a test in both
// directions it is the sum of both ends.
type Bandwidth struct {
	Size     int
	Messages int64   // of all QPs, in one direction
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
			best = max(best, float64(j-i+1)/float64(max(completed[j]-posted[i], 1))) // of a coarse clock
		}
	}
	b.Peak = best * 1e9 * float64(b.Size)
}

// Unit returns the number of bytes per second that is the unit of perftest's reports.
func (o *Options) Unit() float64 {
	if o.Gbits {
		return 1e9 / 8
	}
	return 1 << 20
}

// report returns b as the report that the peer reads.
func (b *Bandwidth) report(unit float64) perftest.Report {
	return perftest.Report{Size: uint64(b.Size), Iterations: uint64(b.Messages),
		Peak: b.Peak / unit, Average: b.Average / unit, Rate: b.Rate / 1e6}
}

// checkReport returns an error for an impossible report. An end of perftest that
// only provides its memory sends a report without meaning, which is not checked.
func checkReport(r *perftest.Report) error {
	for _, figure := range []float64{r.Peak, r.Average, r.Rate} {
		if !(figure >= 0 && figure <= math.MaxFloat32) { // nor NaN
			return fmt.Errorf("the peer reports a bandwidth or rate of %g", figure)
		}
	}
	if r.Size > math.MaxInt32 || r.Iterations > math.MaxInt64 {
		return fmt.Errorf("the peer reports %d messages of %d bytes", r.Iterations, r.Size)
	}
	return nil
}

// add adds the peer's direction.
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

// sendBandwidth keeps the send queues of all flows full.
//
// C: run_iter_bw
func (r *run) sendBandwidth() error {
	r.startTime()
	r.began = now()
	sent, done := 0, 0
	for done < r.total() || r.Test.Duration {
		n, err := r.fill(sent)
		if sent += n; err != nil {
			return err
		}
		if n, err = r.nextOf(r.sendCQ); err != nil {
			return fmt.Errorf("after %d of %d messages: %w", done, sent, err)
		}
		for i := range r.wcs[:n] {
			if err := r.finished(&r.wcs[i], &done); err != nil {
				return err
			}
		}
	}
	r.ended = now()
	return nil
}

// flowOf returns the flow of a completion. It checks the WRID, which comes from the device.
func (r *run) flowOf(wc *verbs.WC) (*flow, error) {
	if i := wc.WRID &^ (isRecv | isCredit); i < uint64(len(r.flows)) {
		return r.flows[i], nil
	}
	return nil, notPosted(wc)
}

func notPosted(wc *verbs.WC) error {
	return fmt.Errorf("a completion for work request %#x on QP %d, which was not outstanding", wc.WRID, wc.QPN)
}

// finished counts the messages of a completion.
func (r *run) finished(wc *verbs.WC, done *int) error {
	f, err := r.flowOf(wc)
	if err != nil {
		return err
	}
	n := f.complete(r.CQMod)
	if n == 0 {
		return notPosted(wc)
	}
	*done += n
	if r.completed != nil {
		r.completed[*done-1] = now()
	}
	r.watch.count(n)
	r.done.n.Store(int64(*done))
	return nil
}

// fill posts as many messages as fit into the queues, and returns their number.
// sent is the number of those posted before.
func (r *run) fill(sent int) (int, error) {
	before, last := sent, r.last()
	for _, f := range r.flows {
		for r.more(f.sent) && f.hasRoom(r.end) && f.hasCredit(r.end) {
			if r.stamps != nil {
				r.stamps[sent] = now()
			}
			if err := f.send(r.end, last); err != nil {
				return sent - before, err
			}
			sent += len(f.sends)
		}
	}
	return sent - before, nil
}

// nextOf waits for completions. It does not wait if the flows wait for credit,
// which causes no completion.
func (r *run) nextOf(cq *uverbs.CQ) (int, error) {
	if r.creditMR == nil || r.Events && r.completing() {
		return r.next(cq, r.wcs[:])
	}
	n, err := r.look(cq, r.wcs[:])
	if n == 0 && r.Events {
		runtime.Gosched()
	}
	return n, err
}

// completing reports whether a posted send is sure to produce a completion.
func (r *run) completing() bool {
	for _, f := range r.flows {
		if f.sent > f.done && (!f.hasRoom(r.end) || !r.more(f.sent)) {
			return true
		}
	}
	return false
}

// recvBandwidth receives messages.
//
// C: run_iter_bw_server
func (r *run) recvBandwidth() error {
	for got := 0; got < r.total() || r.Test.Duration; {
		n, err := r.next(r.recvCQ, r.wcs[:])
		if err != nil {
			return fmt.Errorf("after %d messages: %w", got, err)
		}
		if got == 0 {
			r.startTime()
			r.began = now()
		}
		if err := r.took(r.wcs[:n], &got); err != nil {
			return err
		}
		r.done.n.Store(int64(got))
	}
	r.ended = now()
	return r.reapAll()
}

// took posts a new receive for each that has completed. It posts those of adjacent
// completions of a flow with one call.
func (r *run) took(wcs []verbs.WC, got *int) error {
	for len(wcs) > 0 {
		id, n := wcs[0].WRID, 1
		f, err := r.flowOf(&wcs[0])
		if err != nil {
			return err
		}
		if id&isCredit != 0 {
			if err := r.gave(f, &wcs[0]); err != nil {
				return err
			}
			wcs = wcs[1:]
			continue
		}
		for n < len(wcs) && wcs[n].WRID == id {
			n++
		}
		if id&isRecv == 0 || f.got+n > f.received {
			return notPosted(&wcs[0])
		}
		*got += n
		r.watch.count(n)
		if err := r.takeFrom(f, n); err != nil {
			return err
		}
		wcs = wcs[n:]
	}
	return nil
}

func (r *run) takeFrom(f *flow, n int) error {
	f.got += n
	again := n
	if !r.Test.Duration {
		again = min(n, r.Iters-f.received)
	}
	if err := f.postRecvs(again); err != nil || r.creditMR == nil {
		return err
	}
	f.credit.due -= n
	return r.give(f)
}

// reapAll waits until every credit that was sent has completed.
func (r *run) reapAll() error {
	var got int
	for _, f := range r.flows {
		for f.credit.busy > 0 {
			n, err := r.next(r.recvCQ, r.wcs[:])
			if err != nil {
				return err
			}
			if err := r.took(r.wcs[:n], &got); err != nil {
				return err
			}
		}
	}
	return nil
}

// bothBandwidth sends and receives as fast as it can. The server begins when the
// first message arrives.
//
// C: run_iter_bi
func (r *run) bothBandwidth() error {
	sent, done, got := 0, 0, 0
	r.began = now()
	if r.client() {
		r.startTime()
	}
	for done < r.total() || got < r.total() || r.Test.Duration {
		if r.client() || got > 0 {
			n, err := r.fill(sent)
			if sent += n; err != nil {
				return err
			}
		}
		n, err := r.nextOf(r.sendCQ)
		if err != nil {
			return fmt.Errorf("after %d messages sent and %d received: %w", done, got, err)
		}
		if err := r.sort(r.wcs[:n], &done, &got); err != nil {
			return err
		}
	}
	r.ended = now()
	return r.reapAll()
}

// sort handles the completions of a CQ that serves sends, receives and credits.
func (r *run) sort(wcs []verbs.WC, done, got *int) error {
	for i := range wcs {
		if wcs[i].WRID&(isRecv|isCredit) == 0 {
			if err := r.finished(&wcs[i], done); err != nil {
				return err
			}
			continue
		}
		if *got == 0 && wcs[i].WRID&isRecv != 0 && !r.client() {
			r.startTime()
		}
		if err := r.took(wcs[i:i+1], got); err != nil {
			return err
		}
	}
	return nil
}
