package perf

import (
	"math"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/internal/perftest"
	"github.com/goverbs/goverbs/verbs"
)

// TestStrangeCompletions checks that a WRID that was never posted, from the memory
// of the device, is an error in every loop.
func TestStrangeCompletions(t *testing.T) {
	both := Options{Test: perftest.Test{Verb: perftest.Send, Bidirectional: true}, QPCount: 2, Iters: 10, Size: 8}
	for _, wc := range []verbs.WC{
		{WRID: 2}, {WRID: 1 << 31}, {WRID: 1<<64 - 1}, // no flow's
		{WRID: 2 | isRecv}, {WRID: 1<<34 | isRecv}, {WRID: 2 | isCredit}, {WRID: isRecv | isCredit | 9},
		{WRID: 1},            // nothing was sent
		{WRID: 1 | isCredit}, // no credit was given
	} {
		w := newWorld(t, both)
		r := w.newRuns(8)[0]
		var done, got int
		if err := r.sort([]verbs.WC{wc}, &done, &got); err == nil || !strings.Contains(err.Error(), "which was not outstanding") || done+got > 0 {
			t.Errorf("%#x: %v, %d done, %d got", wc.WRID, err, done, got)
		}
		if err := r.took([]verbs.WC{wc}, &got); err == nil || got > 0 {
			t.Errorf("%#x: %v, %d got", wc.WRID, err, got)
		}
	}
	w := newWorld(t, both)
	r := w.newRuns(8)[0]
	var got int
	if err := r.took(make([]verbs.WC, 1, 2), &got); err == nil { // WRID 0 without isRecv
		t.Error("a send is taken for a receive")
	}
	all := make([]verbs.WC, 11) // one more than was posted
	for i := range all {
		all[i].WRID = isRecv
	}
	if err := r.took(all, &got); err == nil || got > 0 {
		t.Errorf("%v, %d got", err, got)
	}
}

// TestStrangeReport checks that the peer's results are printed only if they are
// possible.
func TestStrangeReport(t *testing.T) {
	fine := perftest.Report{Size: 1 << 23, Iterations: 5000, Peak: 0, Average: 12345.6, Rate: 0.5}
	if err := checkReport(&fine); err != nil {
		t.Error(err)
	}
	for _, change := range []func(*perftest.Report){
		func(r *perftest.Report) { r.Size = 1 << 31 },
		func(r *perftest.Report) { r.Iterations = 1 << 63 },
		func(r *perftest.Report) { r.Peak = math.NaN() },
		func(r *perftest.Report) { r.Average = math.Inf(1) },
		func(r *perftest.Report) { r.Rate = -1 },
	} {
		r := fine
		change(&r)
		if err := checkReport(&r); err == nil || !strings.HasPrefix(err.Error(), "the peer reports") {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

// TestManyReads checks a peer that supports more outstanding READs than a QP
// attribute can hold.
func TestManyReads(t *testing.T) {
	w := newWorld(t, Options{Test: perftest.Test{Verb: perftest.Read}, Iters: 5})
	way := &TCPPath{dev: w.ends[0].dev}
	for sent, want := range map[uint16]uint8{4: 4, 255: 255, 256: 255, 65535: 255} {
		local, remote := perftest.Endpoint{}, perftest.Endpoint{OutReads: sent}
		if got := way.connected(w.ends[0], &local, &remote).MaxRDAtomic; got != want {
			t.Errorf("%d: %d, want %d", sent, got, want)
		}
	}
}

// TestIntroduced checks that a client with an impossible QP number gets no answer.
func TestIntroduced(t *testing.T) {
	if qpn, err := introduced(&verbs.WC{Flags: verbs.WCWithImm, Imm: maxQPN}); qpn != maxQPN || err != nil {
		t.Error(qpn, err)
	}
	for _, wc := range []verbs.WC{{Imm: 5}, {Flags: verbs.WCWithImm, Imm: maxQPN + 1}} {
		if _, err := introduced(&wc); err == nil {
			t.Errorf("%+v is taken", wc)
		}
	}
}
