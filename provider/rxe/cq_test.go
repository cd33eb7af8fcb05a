package rxe

import (
	"encoding/binary"
	"errors"
	"slices"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/internal/abi"
	fakerxe "github.com/goverbs/goverbs/internal/fakeverbs/rxe"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

// TestCompletions checks that a WC has all that rxe reports, and nothing else.
func TestCompletions(t *testing.T) {
	w := newWorld(t, verbs.QPTypeRC, nil)
	junk := abi.IbUverbsWc{WrId: 1, Opcode: 2, VendorErr: 3, ByteLen: 4, Ex: 5, QpNum: 6, SrcQp: 7, WcFlags: 1<<32 - 1, PkeyIndex: 8, Slid: 9,
		Sl: 10, DlidPathBits: 11, PortNum: 12, Reserved: 13}
	with := func(change func(*abi.IbUverbsWc)) abi.IbUverbsWc { e := junk; change(&e); return e }
	recv := verbs.WC{WRID: 1, Opcode: verbs.WCRecv, VendorErr: 3, ByteLen: 4, QPN: 6, SrcQPN: 7, PKeyIndex: 8, SLID: 9, SL: 10, DLIDPathBits: 11}
	want := func(change func(*verbs.WC)) verbs.WC { c := recv; change(&c); return c }
	for _, c := range []struct {
		cqe  abi.IbUverbsWc
		want verbs.WC
	}{
		{junk, verbs.WC{WRID: 1, Opcode: verbs.WCRDMARead, VendorErr: 3, ByteLen: 4, QPN: 6}},
		{with(func(e *abi.IbUverbsWc) { e.Status = 5 }), verbs.WC{WRID: 1, Status: verbs.StatusWRFlushErr, VendorErr: 3, QPN: 6}},
		{with(func(e *abi.IbUverbsWc) { e.Status, e.Opcode = 99, 128 }), verbs.WC{WRID: 1, Status: 99, VendorErr: 3, QPN: 6}},
		{with(func(e *abi.IbUverbsWc) { e.Opcode, e.WcFlags, e.Ex = 128, 0, 0 }), recv},
		{with(func(e *abi.IbUverbsWc) { e.Opcode, e.WcFlags = 128, 1 }), want(func(c *verbs.WC) { c.Flags = verbs.WCGRH })},
		{with(func(e *abi.IbUverbsWc) { e.Opcode, e.WcFlags = 129, 1|2 }),
			want(func(c *verbs.WC) {
				c.Opcode, c.Flags, c.Imm = verbs.WCRecvRDMAWithImm, verbs.WCGRH|verbs.WCWithImm, 5<<24
			})},
		{with(func(e *abi.IbUverbsWc) { e.Opcode, e.WcFlags = 128, 1|4 }),
			want(func(c *verbs.WC) { c.Flags, c.Imm = verbs.WCGRH|verbs.WCWithInv, 5 })},
		{with(func(e *abi.IbUverbsWc) { e.Opcode, e.WcFlags = 128, 8 }), recv}, // libibverbs's number is not the kernel's
		{with(func(e *abi.IbUverbsWc) { e.Opcode = 77 }), verbs.WC{WRID: 1, Opcode: 77, VendorErr: 3, ByteLen: 4, QPN: 6}},
	} {
		if !fakerxe.CQOf(w.kcq).Complete(c.cqe) {
			t.Fatal("no room")
		}
		if diff := cmp.Diff([]verbs.WC{c.want}, w.poll(t)); diff != "" {
			t.Error(diff)
		}
	}
}

// TestPollBatches goes around the ring with batches that do not divide it, and gives the
// room back to the kernel once per batch.
func TestPollBatches(t *testing.T) {
	w := newWorld(t, verbs.QPTypeRC, nil)
	var sent, seen uint64
	for range 20 {
		for fakerxe.CQOf(w.kcq).Complete(abi.IbUverbsWc{WrId: sent}) {
			sent++
		}
		for seen < sent {
			wcs := make([]verbs.WC, 7)
			n := providertest.Must[int](t)(w.cq.Poll(wcs))
			for _, wc := range wcs[:n] {
				if wc.WRID != seen {
					t.Fatalf("completion %d, want %d", wc.WRID, seen)
				}
				seen++
			}
		}
	}
}

// TestLostIndex checks a kernel's index that is outside the ring.
func TestLostIndex(t *testing.T) {
	w := newWorld(t, verbs.QPTypeRC, nil)
	fakerxe.CQOf(w.kcq).Complete(abi.IbUverbsWc{WrId: 1})
	if n := len(w.poll(t)); n != 1 {
		t.Fatal(n)
	}
	fakerxe.CQOf(w.kcq).SetProducer(1 << 20)
	for range 2 {
		if n, err := w.cq.Poll(make([]verbs.WC, 1)); n != 0 || !errors.Is(err, mmap.ErrIndex) {
			t.Errorf("%d, %v", n, err)
		}
	}
}

func TestArm(t *testing.T) {
	w := newWorld(t, verbs.QPTypeRC, nil)
	if err := w.cq.Arm(true); err != nil || !w.kcq.Armed() {
		t.Fatal(err)
	}
	fakerxe.CQOf(w.kcq).Complete(abi.IbUverbsWc{})
	if !w.kcq.Armed() {
		t.Error("an unsolicited completion raised an event")
	}
	fakerxe.CQOf(w.kcq).CompleteSolicited(abi.IbUverbsWc{})
	if w.kcq.Armed() {
		t.Error("a solicited completion raised no event")
	}
	if err := w.cq.Arm(false); err != nil {
		t.Fatal(err)
	}
	fakerxe.CQOf(w.kcq).Complete(abi.IbUverbsWc{})
	if w.kcq.Armed() {
		t.Error("a completion raised no event")
	}
	w.k.Fail("REQ_NOTIFY_CQ", 0, syscall.EIO)
	if err := w.cq.Arm(false); !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
}

// TestResizeCQ resizes a CQ with completions on it, from every position.
func TestResizeCQ(t *testing.T) {
	w := newWorld(t, verbs.QPTypeRC, nil)
	var sent, seen uint64
	complete := func(n int) {
		t.Helper()
		for range n {
			if !fakerxe.CQOf(w.kcq).Complete(abi.IbUverbsWc{WrId: sent}) {
				t.Fatal("no room")
			}
			sent++
		}
	}
	poll := func(n int) {
		t.Helper()
		wcs := make([]verbs.WC, n)
		if got := providertest.Must[int](t)(w.cq.Poll(wcs)); got != n {
			t.Fatalf("%d of %d", got, n)
		}
		for _, wc := range wcs {
			if wc.WRID != seen {
				t.Fatalf("%d, want %d", wc.WRID, seen)
			}
			seen++
		}
	}
	for round := range 20 {
		complete(3)
		poll(round % 4)
		if err := w.cq.Resize(40); err != nil || w.cq.Cap() != 63 {
			t.Fatal(w.cq.Cap(), err)
		}
		complete(40)
		poll(40)
		if err := w.cq.Resize(3); err != nil || w.cq.Cap() != 3 {
			t.Fatal(w.cq.Cap(), err)
		}
		poll(3 - round%4)
		complete(round % 4)
		poll(round % 4)
	}
	complete(3)
	if err := w.cq.Resize(2); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
	poll(3) // nothing has changed
	w.k.Fail("MMAP", 0, errGone)
	if err := w.cq.Resize(10); !errors.Is(err, errGone) {
		t.Error(err)
	}
	if n, err := w.cq.Poll(make([]verbs.WC, 1)); n != 0 || !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("a queue that was lost: %d, %v", n, err)
	}
}

// FuzzReadCQE writes arbitrary bytes to the memory of a completion queue, including its
// header, and moves the kernel's index while the queue is polled.
func FuzzReadCQE(f *testing.F) {
	f.Add([]byte{}, uint32(0))
	good := make([]byte, queueData+4*128)
	copy(good, []byte{7, 0, 0, 0, 3})
	good[producerIndex] = 2
	copy(good[queueData:], abi.Bytes(&abi.IbUverbsWc{Opcode: abi.IB_WC_RECV, WcFlags: abi.IB_WC_WITH_INVALIDATE, Ex: 1 << 31}))
	f.Add(good, uint32(3))
	f.Add(good, uint32(4))
	bad := append([]byte{}, good...)
	bad[0] = 200
	f.Add(bad, uint32(0))
	f.Fuzz(func(t *testing.T, memory []byte, next uint32) {
		region, err := mmap.Wrap(memory)
		if err != nil {
			return
		}
		defer region.Close()
		q, err := readHeader(region)
		if err != nil {
			return
		}
		ring, err := mmap.NewIndexedConsumer[abi.IbUverbsWc](region, q.layout)
		if err != nil {
			return
		}
		cq := &cq{ring: *ring, unbind: func(uint32) bool { return false }}
		room := int(q.room())
		for range 3 {
			wcs := make([]verbs.WC, 8)
			n, bad, err := cq.Poll(wcs)
			if n > room {
				t.Fatalf("%d completions of a queue of %d", n, room)
			}
			if err != nil && !errors.Is(err, mmap.ErrIndex) {
				t.Fatal(err)
			}
			if failed := slices.ContainsFunc(wcs[:n], func(wc verbs.WC) bool { return wc.Err() != nil }); bad != failed {
				t.Errorf("bad: %v, but %+v", bad, wcs[:n])
			}
			for _, wc := range wcs[:n] {
				_, _, _ = wc.Err(), wc.Status.String(), wc.Opcode.String()
				if wc.Status != verbs.StatusSuccess && (wc.Flags != 0 || wc.Imm != 0 || wc.Opcode != 0) {
					t.Errorf("%+v", wc)
				}
			}
			binary.NativeEndian.PutUint32(memory[producerIndex:], next)
		}
	})
}
