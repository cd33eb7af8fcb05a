package siw

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/internal/abi"
	fakesiw "github.com/goverbs/goverbs/internal/fakeverbs/siw"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

func TestStatuses(t *testing.T) {
	for status, want := range map[uint16]verbs.Status{
		0: verbs.StatusSuccess, 1: verbs.StatusLocLenErr, 2: verbs.StatusLocProtErr, 3: verbs.StatusLocQPOpErr,
		4: verbs.StatusWRFlushErr, 5: verbs.StatusBadRespErr, 6: verbs.StatusLocAccessErr, 7: verbs.StatusRemAccessErr,
		8: verbs.StatusRemInvReqErr, 9: verbs.StatusGeneralErr, 10: verbs.StatusGeneralErr, 0xffff: verbs.StatusGeneralErr,
	} {
		if got := statusOf(status); got != want {
			t.Errorf("%d: %v, want %v", status, got, want)
		}
	}
}

func TestCompletions(t *testing.T) {
	w := newWorld(t, nil)
	for _, c := range []struct {
		cqe  abi.SiwCqe
		want verbs.WC
	}{
		{abi.SiwCqe{Id: 1, Opcode: abi.SIW_OP_SEND, QpId: 9}, verbs.WC{WRID: 1, Opcode: verbs.WCSend, QPN: 9}},
		{abi.SiwCqe{Id: 2, Opcode: abi.SIW_OP_SEND_REMOTE_INV}, verbs.WC{WRID: 2, Opcode: verbs.WCSend}},
		{abi.SiwCqe{Id: 3, Opcode: abi.SIW_OP_WRITE}, verbs.WC{WRID: 3, Opcode: verbs.WCRDMAWrite}},
		{abi.SiwCqe{Id: 4, Opcode: abi.SIW_OP_READ, Bytes: 5}, verbs.WC{WRID: 4, Opcode: verbs.WCRDMARead, ByteLen: 5}},
		{abi.SiwCqe{Id: 5, Opcode: abi.SIW_OP_READ_LOCAL_INV}, verbs.WC{WRID: 5, Opcode: verbs.WCRDMARead}},
		{abi.SiwCqe{Id: 6, Opcode: abi.SIW_OP_RECEIVE, Bytes: 1 << 31}, verbs.WC{WRID: 6, Opcode: verbs.WCRecv, ByteLen: 1 << 31}},
		{abi.SiwCqe{Id: 7, Opcode: 200, Status: 77}, verbs.WC{WRID: 7, Opcode: 1<<16 | 200, Status: verbs.StatusGeneralErr, VendorErr: 77}},
	} {
		if !fakesiw.CQOf(w.kcq).Complete(c.cqe) {
			t.Fatal("no room")
		}
		if diff := cmp.Diff([]verbs.WC{c.want}, w.poll(t)); diff != "" {
			t.Error(diff)
		}
	}
	if s := opcodeOf(200).String(); s != "WCOpcode(65736)" {
		t.Error(s)
	}
}

// TestPollBatches goes around the ring with batches that do not divide it.
func TestPollBatches(t *testing.T) {
	w := newWorld(t, nil)
	sent, seen := uint64(0), uint64(0)
	for range 20 {
		for range 7 {
			if !fakesiw.CQOf(w.kcq).Complete(abi.SiwCqe{Id: sent}) {
				t.Fatal("no room")
			}
			sent++
		}
		for seen < sent {
			wcs := make([]verbs.WC, 3)
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

// FuzzReadCQE writes arbitrary bytes to the kernel's side of a completion queue.
func FuzzReadCQE(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("12345678\x01\x08\x00\x00\x10\x00\x00\x00imm-datasqp-nums"))
	f.Add([]byte("12345678\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Add([]byte("12345678\x01\x03\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00"))
	f.Add([]byte("12345678\x01\x03\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00" +
		"12345678\x01\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00")) // bad, then good
	f.Fuzz(func(t *testing.T, ring []byte) {
		const n = 4
		memory := make([]byte, n*cqeSize+ctrlSize)
		copy(memory, ring)
		region := providertest.Must[*mmap.Region](t)(mmap.Wrap(memory))
		defer region.Close()
		q := providertest.Must[*cq](t)(newCQ(region, n))
		want := completionsOf(memory[:n*cqeSize])
		wcs := make([]verbs.WC, 2*n)
		got, bad, err := q.Poll(wcs)
		if err != nil || bad != slices.ContainsFunc(want, func(wc verbs.WC) bool { return wc.Status != verbs.StatusSuccess }) {
			t.Errorf("bad: %v, but %+v, %v", bad, want, err)
		}
		if diff := cmp.Diff(want, slices.Clone(wcs[:got])); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		for i := range want {
			if b := memory[i*cqeSize+ownerWord]; b != 0 {
				t.Errorf("entry %d was not given back: %#x", i, b)
			}
		}
		next := memory[got%n*cqeSize:][:cqeSize]
		copy(next, "87654321\x01\x03\x00\x00")
		want = completionsOf(next)
		if got, bad, err := q.Poll(wcs[:1]); got != 1 || bad || err != nil || !cmp.Equal(wcs[:1], want) {
			t.Errorf("then polled %d, bad: %v, %v: %+v, want %+v", got, bad, err, wcs[:1], want)
		}
	})
}

// completionsOf reads the entries up to the first whose flag is not set, by the offsets of
// struct siw_cqe.
func completionsOf(ring []byte) []verbs.WC {
	statuses := []verbs.Status{verbs.StatusSuccess, verbs.StatusLocLenErr, verbs.StatusLocProtErr, verbs.StatusLocQPOpErr,
		verbs.StatusWRFlushErr, verbs.StatusBadRespErr, verbs.StatusLocAccessErr, verbs.StatusRemAccessErr,
		verbs.StatusRemInvReqErr, verbs.StatusGeneralErr}
	opcodes := []verbs.WCOpcode{verbs.WCRDMAWrite, verbs.WCRDMARead, verbs.WCRDMARead, verbs.WCSend, verbs.WCSend, verbs.WCSend,
		verbs.WCFetchAdd, verbs.WCCompareSwap, verbs.WCRecv}
	wcs := []verbs.WC{}
	for ; len(ring) > 0 && ring[8]&1 != 0; ring = ring[32:] {
		le := binary.LittleEndian
		op, status := ring[9], le.Uint16(ring[10:])
		wc := verbs.WC{WRID: le.Uint64(ring), ByteLen: le.Uint32(ring[12:]), QPN: le.Uint32(ring[24:]),
			Status: verbs.StatusGeneralErr, VendorErr: uint32(status), Opcode: 1<<16 | verbs.WCOpcode(op)}
		if int(status) < len(statuses) {
			wc.Status = statuses[status]
		}
		if int(op) < len(opcodes) {
			wc.Opcode = opcodes[op]
		}
		wcs = append(wcs, wc)
	}
	return wcs
}
