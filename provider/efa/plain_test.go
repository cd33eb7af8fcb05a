package efa

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/verbs"
)

// TestPlainSends checks that PostSend fills in the requests that it posts by itself as encode does,
// whatever was posted before them: inline data of all lengths, and one SGE.
func TestPlainSends(t *testing.T) {
	w := newBareWorld(t, func(o *bareOptions) { o.cap.MaxSendWR, o.cap.MaxInline = 256, shortInline })
	data := bytes.Repeat([]byte{0xa5, 0x5a, 0x11}, shortInline)
	var wrs []verbs.SendWR
	for n := range shortInline + 1 {
		wrs = append(wrs, verbs.SendWR{Opcode: verbs.OpSend, Inline: data[n : 2*n]},
			verbs.SendWR{Opcode: verbs.OpSend, SGL: []verbs.SGE{{Addr: 1<<63 | uint64(n), Length: 1<<31 + uint32(n), LKey: keyMask}}},
			verbs.SendWR{Opcode: verbs.OpSend, Inline: data[n:][:shortInline]})
	}
	for i := range wrs {
		wrs[i].WRID, wrs[i].Flags, wrs[i].AH, wrs[i].RemoteQPN, wrs[i].RemoteQKey = uint64(i), signaled, w.to, maxQPN, 1<<31|uint32(i)
	}
	if n, err := w.qp.PostSend(wrs); n != len(wrs) || err != nil {
		t.Fatal(n, err)
	}
	work := w.qp.sq.work.Load()
	for i := range wrs {
		var e wqe
		if err := w.qp.encode(&e, &wrs[i]); err != nil {
			t.Fatal(err)
		}
		e[0] |= work.generation | uint64(i) // the phase is 0 in the first lap
		if want := abi.Bytes(&e)[:wqeSize]; !bytes.Equal(w.copies[i][:], want) {
			t.Errorf("request %d: got\n%x, want\n%x", i, w.copies[i], want)
		}
	}
}

// TestPlainCompletions checks that Poll finds in any entries what PollExt finds, one at a time and in
// lists.
func TestPlainCompletions(t *testing.T) {
	const seed = 7
	random := rand.New(rand.NewPCG(seed, seed))
	for round := range 200 {
		ours, general := completionWorld(t), completionWorld(t)
		for i := range 8 {
			e := randomEntry(random, ours)
			ours.write(i, 0, e)
			general.write(i, 0, e)
		}
		var got []verbs.WC
		for list := 1 + round%8; ; {
			wcs := make([]verbs.WC, list)
			n, bad, err := ours.cq.Poll(wcs)
			if err != nil || bad != slices.ContainsFunc(wcs[:n], func(wc verbs.WC) bool { return wc.Status != verbs.StatusSuccess }) {
				t.Fatal(bad, err, wcs[:n])
			}
			if got = append(got, wcs[:n]...); n == 0 {
				break
			}
		}
		want := make([]verbs.WC, 16)
		n, _, err := general.cq.PollExt(want, nil)
		if err != nil || !slices.Equal(got, want[:n]) {
			t.Fatalf("seed %d, round %d: %v, got\n%v, want\n%v", seed, round, err, got, want[:n])
		}
		if a, b := ours.stores[len(ours.stores)-1], general.stores[len(general.stores)-1]; a.Value != b.Value || a.Offset != b.Offset {
			t.Fatalf("seed %d, round %d: the last doorbell is %#x, want %#x", seed, round, a.Value, b.Value)
		}
	}
}

// TestSharedCQ checks that one Poll reads completions of several queues, alike and not, and frees their places: the queues
// hold as many requests as are posted in each round.
func TestSharedCQ(t *testing.T) {
	depths := verbs.QPCap{MaxSendWR: 2, MaxRecvWR: 2, MaxSendSGE: 1, MaxRecvSGE: 1}
	w := newBareWorld(t, func(o *bareOptions) { o.cap = depths })
	qps := []*qp{w.qp, w.newQP(&driver.CreateQP{Type: verbs.QPTypeSRD, Cap: depths, PD: w.qp.pd, Num: bareQPN + 1})}
	sge := []verbs.SGE{{Addr: 1, Length: 2, LKey: 3}}
	order := [8]struct{ qp, queue, i int }{
		{0, ofSends, 1}, {1, ofSends, 1}, {0, ofSends, 0}, {1, ofReceives, 1},
		{1, ofSends, 0}, {1, ofReceives, 0}, {0, ofReceives, 1}, {0, ofReceives, 0},
	}
	for lap := range uint32(5) {
		var ids [2][3][2]uint64 // of the device
		for q, qp := range qps {
			for i := range 2 {
				send := verbs.SendWR{WRID: uint64(100*q + 10*ofSends + i), Opcode: verbs.OpSend, Flags: signaled, SGL: sge, AH: w.to}
				w.copies = nil
				if n, err := qp.PostSend([]verbs.SendWR{send}); n != 1 || err != nil {
					t.Fatalf("lap %d: %v", lap, err)
				}
				ids[q][ofSends][i] = uint64(binary.LittleEndian.Uint16(w.copies[0][:]))
				free := qp.rq.work.Load()
				ids[q][ofReceives][i] = free.generation | uint64(free.places[int(free.taken)&(len(free.places)-1)].free)
				if n, err := qp.PostRecv([]verbs.RecvWR{{WRID: uint64(100*q + 10*ofReceives + i), SGL: sge}}); n != 1 || err != nil {
					t.Fatalf("lap %d: %v", lap, err)
				}
			}
		}
		var want []verbs.WC
		for at, o := range order {
			var e [cqeSize]byte
			binary.LittleEndian.PutUint16(e[:], uint16(ids[o.qp][o.queue][o.i]))
			e[3], e[4], e[5], e[6] = byte(o.queue)<<1, byte(bareQPN+o.qp), bareQPN>>8, byte(at)
			w.write(at, lap, e)
			wc := verbs.WC{WRID: uint64(100*o.qp + 10*o.queue + o.i), QPN: uint32(bareQPN + o.qp), Opcode: verbs.WCSend}
			if o.queue == ofReceives {
				wc.Opcode, wc.ByteLen = verbs.WCRecv, uint32(at)
			}
			want = append(want, wc)
		}
		if got := w.poll(); !slices.Equal(got, want) {
			t.Fatalf("lap %d: got\n%v, want\n%v", lap, got, want)
		}
	}
}

// completionWorld has four sends and four receives.
func completionWorld(t *testing.T) *bareWorld {
	w := newBareWorld(t, nil)
	sge := []verbs.SGE{{Addr: 1, Length: 2, LKey: 3}}
	for i := range uint64(4) {
		w.send(verbs.SendWR{Opcode: verbs.OpSend, Flags: signaled, SGL: sge, WRID: 100 + i})
		if n, err := w.qp.PostRecv([]verbs.RecvWR{{WRID: 200 + i, SGL: sge}}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	return w
}

// randomEntry returns a completion that is right in most fields.
func randomEntry(random *rand.Rand, w *bareWorld) (e [cqeSize]byte) {
	for i := range e {
		e[i] = byte(random.Uint32())
	}
	oneIn := func(n int) bool { return random.IntN(n) == 0 }
	work, queue := w.qp.sq.work.Load(), byte(ofSends)
	if oneIn(2) {
		work, queue = w.qp.rq.work.Load(), ofReceives
	}
	id := work.generation | random.Uint64N(5)
	e[0], e[1] = byte(id), byte(id>>8)
	if !oneIn(6) {
		e[2] = 0 // the status
	}
	flags := byte(0) // the operation, immediate data, an unsolicited write
	if oneIn(4) {
		flags = byte(random.Uint32())
	}
	if oneIn(12) {
		queue = byte(random.IntN(4))
	}
	e[3] = flags&^6 | queue<<1
	e[4], e[5] = bareQPN&0xff, bareQPN>>8
	if oneIn(12) {
		e[5]++
	}
	return e
}
