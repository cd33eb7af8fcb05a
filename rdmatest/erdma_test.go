package rdmatest_test

import (
	"encoding/binary"
	"testing"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// end is a side of a connection, with a region that the peer may do anything to.
type end struct {
	*rdmacm.Conn
	mr *uverbs.MR
}

func newEnd(t *testing.T, c *rdmacm.Conn) end {
	t.Helper()
	mr, err := c.QP().PD().AllocMR(4096, verbs.AccessLocalWrite|verbs.AccessRemoteRead|verbs.AccessRemoteWrite|verbs.AccessRemoteAtomic, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mr.Close() })
	return end{c, mr}
}

func (e end) sge(t *testing.T, n int) []verbs.SGE {
	t.Helper()
	return []verbs.SGE{e.mr.SGE(0, n)}
}

func one(t *testing.T, cq *uverbs.CQ) verbs.WC {
	t.Helper()
	wcs := make([]verbs.WC, 2)
	n, err := cq.Poll(wcs)
	if n != 1 || err != nil {
		t.Fatal(n, err)
	}
	return wcs[0]
}

// TestERDMA has what siw lacks: immediate data, atomics, keys that end.
func TestERDMA(t *testing.T) {
	f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.ERDMA, Strict: true})
	dialled, accepted := meet(t, f, nil)
	a, b := newEnd(t, dialled), newEnd(t, accepted)
	remote := verbs.SendWR{Flags: verbs.SendSignaled, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(), SGL: a.sge(t, 8)}
	word := b.mr.Bytes()[:8]
	for _, c := range []struct {
		op          verbs.Opcode
		change      func(*verbs.SendWR)
		flags       verbs.WCFlags // of the receive that it takes
		before, now uint64        // of the peer's word
	}{
		{verbs.OpFetchAdd, func(wr *verbs.SendWR) { wr.CompareAdd = 5 }, 0, 0, 5},
		{verbs.OpCompareSwap, func(wr *verbs.SendWR) { wr.CompareAdd, wr.Swap = 5, 7 }, 0, 5, 7},
		{verbs.OpRDMAWriteImm, func(wr *verbs.SendWR) { wr.Imm = 99 }, verbs.WCWithImm, 0, 5},
		{verbs.OpSendImm, func(wr *verbs.SendWR) { wr.Imm = 99 }, verbs.WCWithImm, 0, 5},
	} {
		if c.flags != 0 {
			if _, err := b.QP().PostRecv([]verbs.RecvWR{{SGL: b.sge(t, 8)}}); err != nil {
				t.Fatal(err)
			}
		}
		wr := remote
		wr.Opcode = c.op
		c.change(&wr)
		if _, err := a.QP().PostSend([]verbs.SendWR{wr}); err != nil {
			t.Fatal(c.op, err)
		}
		if wc := one(t, a.QP().SendCQ()); wc.Err() != nil {
			t.Error(c.op, wc.Err())
		}
		if c.flags != 0 {
			if wc := one(t, b.QP().RecvCQ()); wc.Err() != nil || wc.Flags != c.flags || wc.Imm != 99 {
				t.Errorf("%v: %+v", c.op, wc)
			}
		} else if got := binary.NativeEndian.Uint64(a.mr.Bytes()); got != c.before {
			t.Errorf("%v returns %d, want %d", c.op, got, c.before)
		}
		if got := binary.NativeEndian.Uint64(word); got != c.now {
			t.Errorf("%v leaves %d, want %d", c.op, got, c.now)
		}
	}
	inv := remote
	inv.Opcode, inv.InvalidateRKey = verbs.OpSendWithInv, b.mr.RKey()
	recv, err := b.QP().PD().AllocMR(64, verbs.AccessLocalWrite, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer recv.Close()
	if _, err := b.QP().PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{recv.SGE(0, 8)}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.QP().PostSend([]verbs.SendWR{inv}); err != nil {
		t.Fatal(err)
	}
	if wc := one(t, b.QP().RecvCQ()); wc.Err() != nil || wc.InvalidatedRKey() != b.mr.RKey() {
		t.Errorf("%+v", wc)
	}
}

// TestERDMAErrors: mistakes that end a connection, with the status of the send.
func TestERDMAErrors(t *testing.T) {
	for name, c := range map[string]struct {
		change func(wr *verbs.SendWR, a, b end)
		want   verbs.Status
		vendor uint32
	}{
		"unknown key":      {func(wr *verbs.SendWR, a, _ end) { wr.SGL[0].LKey += 0x5500 }, verbs.StatusLocAccessErr, 0x30},
		"outside":          {func(wr *verbs.SendWR, a, _ end) { wr.SGL[0].Addr += 4096 }, verbs.StatusLocAccessErr, 0x31},
		"around":           {func(wr *verbs.SendWR, a, _ end) { wr.SGL[0].Addr = 1<<64 - 4 }, verbs.StatusLocAccessErr, 0x34},
		"peer's key":       {func(wr *verbs.SendWR, _, b end) { wr.RKey += 0x5500 }, verbs.StatusRemAccessErr, 2},
		"no receive there": {func(wr *verbs.SendWR, _, _ end) { wr.Opcode = verbs.OpSend }, verbs.StatusGeneralErr, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.ERDMA})
			dialled, accepted := meet(t, f, nil)
			a, b := newEnd(t, dialled), newEnd(t, accepted)
			wr := verbs.SendWR{Opcode: verbs.OpRDMAWrite, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(), SGL: a.sge(t, 8)}
			c.change(&wr, a, b)
			if _, err := a.QP().PostSend([]verbs.SendWR{wr}); err != nil {
				t.Fatal(err)
			}
			if wc := one(t, a.QP().SendCQ()); wc.Status != c.want || wc.VendorErr != c.vendor {
				t.Errorf("%+v", wc)
			}
		})
	}
}
