package erdma

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	fakeerdma "github.com/goverbs/goverbs/internal/fakeverbs/erdma"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

func sges(n int) (sgl []verbs.SGE) {
	for i := range n {
		sgl = append(sgl, verbs.SGE{Addr: 0x1122334455660000 + uint64(i), Length: uint32(100 + i), LKey: 0xa1b2c300 + uint32(i)})
	}
	return sgl
}

func data(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i + 1)
	}
	return b
}

const (
	raddr = 0xf1e2d3c4b5a69788
	rkey  = 0x01020304
	imm   = 0x05060708
	inv   = 0x090a0b0c
)

// requests holds one request of each form, and the bytes that the device must find.
func requests() map[string]struct {
	wr   verbs.SendWR
	want fakeverbs.Work
} {
	type form = struct {
		wr   verbs.SendWR
		want fakeverbs.Work
	}
	forms := make(map[string]form)
	kernel := func(sgl []verbs.SGE) (all []fakeverbs.SGE) {
		for _, s := range sgl {
			all = append(all, fakeverbs.SGE(s))
		}
		return all
	}
	add := func(name string, wr verbs.SendWR, want fakeverbs.Work) {
		want.SGL, want.Inline = kernel(wr.SGL), wr.Inline
		if wr.Inline != nil {
			want.Flags |= abi.IB_SEND_INLINE
		}
		forms[name] = form{wr, want}
	}
	payloads := map[string]verbs.SendWR{}
	for n := range maxSGE + 1 {
		payloads[fmt.Sprint(n, " SGEs")] = verbs.SendWR{SGL: sges(n)}
	}
	for _, n := range []int{0, 1, 15, 16, 17, 31, 32, 33, 48, 64, 80, 81, 95, 96} {
		payloads[fmt.Sprint(n, " bytes inline")] = verbs.SendWR{Inline: data(n)}
	}
	for what, wr := range payloads {
		wr.RemoteAddr, wr.RKey, wr.Imm, wr.InvalidateRKey = raddr, rkey, imm, inv
		for op, want := range map[verbs.Opcode]fakeverbs.Work{
			verbs.OpSend:         {Opcode: abi.IB_UVERBS_WR_SEND},
			verbs.OpSendImm:      {Opcode: abi.IB_UVERBS_WR_SEND_WITH_IMM, Imm: be32(imm)},
			verbs.OpSendWithInv:  {Opcode: abi.IB_UVERBS_WR_SEND_WITH_INV, Imm: inv},
			verbs.OpRDMAWrite:    {Opcode: abi.IB_UVERBS_WR_RDMA_WRITE, RemoteAddr: raddr, RKey: rkey},
			verbs.OpRDMAWriteImm: {Opcode: abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM, RemoteAddr: raddr, RKey: rkey, Imm: be32(imm)},
		} {
			wr.Opcode = op
			add(fmt.Sprint(op, " of ", what), wr, want)
		}
	}
	eight := []verbs.SGE{{Addr: 0x1122334455667788, Length: 8, LKey: 0xa1b2c3d4}}
	base := verbs.SendWR{RemoteAddr: raddr, RKey: rkey, Imm: imm, InvalidateRKey: inv, CompareAdd: 0x1112131415161718, Swap: 0x2122232425262728, SGL: eight}
	for op, want := range map[verbs.Opcode]fakeverbs.Work{
		verbs.OpRDMARead:    {Opcode: abi.IB_UVERBS_WR_RDMA_READ, RemoteAddr: raddr, RKey: rkey},
		verbs.OpReadWithInv: {Opcode: abi.IB_UVERBS_WR_RDMA_READ_WITH_INV, RemoteAddr: raddr, RKey: rkey, Imm: eight[0].LKey},
		verbs.OpCompareSwap: {Opcode: abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP, RemoteAddr: raddr, RKey: rkey, Compare: base.CompareAdd, Swap: base.Swap},
		verbs.OpFetchAdd:    {Opcode: abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD, RemoteAddr: raddr, RKey: rkey, Compare: base.CompareAdd},
	} {
		wr := base
		wr.Opcode = op
		add(op.String(), wr, want)
	}
	add("LOCAL_INV", verbs.SendWR{Opcode: verbs.OpLocalInv, InvalidateRKey: inv}, fakeverbs.Work{Opcode: abi.IB_UVERBS_WR_LOCAL_INV, Imm: inv})
	return forms
}

var flagForms = map[verbs.SendFlags]uint32{
	0: 0, verbs.SendSignaled: abi.IB_SEND_SIGNALED, verbs.SendFence: abi.IB_SEND_FENCE, verbs.SendSolicited: abi.IB_SEND_SOLICITED,
	verbs.SendSignaled | verbs.SendFence | verbs.SendSolicited: abi.IB_SEND_SIGNALED | abi.IB_SEND_FENCE | abi.IB_SEND_SOLICITED,
}

// TestSend has the device find each form of request, with each set of flags, wherever in
// the queue it begins: 73 times 5 forms of one to four blocks go around 16 blocks.
func TestSend(t *testing.T) {
	w := newWorld(t, nil)
	id := uint64(1)
	for name, f := range requests() {
		for flags, kernelFlags := range flagForms {
			wr, want := f.wr, f.want
			wr.WRID, wr.Flags = id, flags
			want.Flags |= kernelFlags
			w.post(t, wr)
			got := w.take(t)
			if diff := cmp.Diff(&want, got, cmpopts.IgnoreFields(fakeverbs.Work{}, "Index", "Code", "SGLRoom", "InlineRoom", "Data"), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s, %v (-want +got):\n%s", name, flags, diff)
			}
			w.finish(t, got, wr)
			id++
		}
	}
}

// finish completes a send, which frees its blocks: one without a completion is freed by
// the next that has one.
func (w *world) finish(t *testing.T, s *fakeverbs.Work, wr verbs.SendWR) {
	t.Helper()
	w.kqp.Sent(s, abi.IB_WC_SUCCESS)
	want := wr.WRID
	if wr.Flags&verbs.SendSignaled == 0 {
		if wcs := w.poll(t); len(wcs) > 0 {
			t.Fatalf("%+v", wcs)
		}
		w.post(t, verbs.SendWR{WRID: 1 << 40, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
		w.kqp.Sent(w.take(t), abi.IB_WC_SUCCESS)
		want = 1 << 40
	}
	if wc := w.one(t); wc.WRID != want || wc.Status != verbs.StatusSuccess || wc.QPN != w.qp.QPN() {
		t.Errorf("%+v", wc)
	}
}

// TestSignalAll has a QP all of whose sends are signaled.
func TestSignalAll(t *testing.T) {
	w := newWorld(t, func(_ *fakeverbs.Kernel, o *uverbs.QPOptions) { o.SignalAll = true })
	w.post(t, verbs.SendWR{WRID: 7, Opcode: verbs.OpSend})
	w.kqp.Sent(w.take(t), abi.IB_WC_SUCCESS)
	if wc := w.one(t); wc.WRID != 7 {
		t.Errorf("%+v", wc)
	}
}

// TestSendRoom fills the queue with sends of all sizes: it takes the sends that have room
// in blocks, and no more.
func TestSendRoom(t *testing.T) {
	for _, inline := range []int{16, 48, 80, 96} {
		w := newWorld(t, nil)
		blocks := (16 + inline + 31) / 32
		wr := verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, Inline: data(inline)}
		for round := range 5 {
			n := 0
			for ; ; n++ {
				wr.WRID = uint64(n)
				if _, err := w.qp.PostSend([]verbs.SendWR{wr}); err != nil {
					if !errors.Is(err, verbs.ErrQueueFull) {
						t.Fatal(err)
					}
					break
				}
			}
			if n != 4*depth/blocks {
				t.Errorf("%d sends of %d blocks have room in %d, round %d", n, blocks, 4*depth, round)
			}
			for i := range n {
				w.kqp.Sent(w.take(t), abi.IB_WC_SUCCESS)
				if wc := w.one(t); wc.WRID != uint64(i) {
					t.Errorf("%+v, want %d", wc, i)
				}
			}
		}
	}
}

// TestSendBatch checks that a batch rings once, and ends at the first request that is
// refused.
func TestSendBatch(t *testing.T) {
	stores := 0
	w := newWorld(t, func(k *fakeverbs.Kernel, _ *uverbs.QPOptions) {
		k.Cross = func(c *fakeverbs.Crossing) {
			if c.Kind == fakeverbs.Doorbell {
				stores++
			}
		}
	})
	good := verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled}
	bad := verbs.SendWR{Opcode: verbs.OpBindMW}
	n, err := w.qp.PostSend([]verbs.SendWR{good, good, good, bad, good})
	if n != 3 || !errors.Is(err, verbs.ErrNotSupported) || stores != 1 {
		t.Error(n, err, stores)
	}
	if n, err := w.qp.PostSend([]verbs.SendWR{bad}); n != 0 || err == nil || stores != 1 {
		t.Error(n, err, stores)
	}
	if n, err := w.qp.PostSend(nil); n != 0 || err != nil || stores != 1 {
		t.Error(n, err, stores)
	}
	for range 3 {
		w.kqp.Sent(w.take(t), abi.IB_WC_SUCCESS)
	}
	if wcs := w.poll(t); len(wcs) != 3 {
		t.Errorf("%+v", wcs)
	}
}

// TestRefuses posts requests for which the device would end the connection.
func TestRefuses(t *testing.T) {
	w := newWorld(t, nil)
	for name, c := range map[string]struct {
		wr   verbs.SendWR
		want error
	}{
		"unknown opcode":   {verbs.SendWR{Opcode: 99}, verbs.ErrNotSupported},
		"window":           {verbs.SendWR{Opcode: verbs.OpBindMW}, verbs.ErrNotSupported},
		"unknown flag":     {verbs.SendWR{Opcode: verbs.OpSend, Flags: 8}, verbs.ErrInvalidWR},
		"too many SGEs":    {verbs.SendWR{Opcode: verbs.OpSend, SGL: sges(7)}, verbs.ErrInvalidWR},
		"bad length":       {verbs.SendWR{Opcode: verbs.OpSend, SGL: []verbs.SGE{{Length: verbs.BadLength}}}, verbs.ErrInvalidWR},
		"4 GiB":            {verbs.SendWR{Opcode: verbs.OpSend, SGL: []verbs.SGE{{Length: 1 << 31}, {Length: 1 << 31}}}, verbs.ErrInvalidWR},
		"long inline":      {verbs.SendWR{Opcode: verbs.OpSend, Inline: data(97)}, verbs.ErrInvalidWR},
		"both":             {verbs.SendWR{Opcode: verbs.OpRDMAWrite, Inline: data(1), SGL: sges(1)}, verbs.ErrInvalidWR},
		"inline read":      {verbs.SendWR{Opcode: verbs.OpRDMARead, Inline: data(1)}, verbs.ErrInvalidWR},
		"read of two SGEs": {verbs.SendWR{Opcode: verbs.OpRDMARead, SGL: sges(2)}, verbs.ErrInvalidWR},
		"read of none":     {verbs.SendWR{Opcode: verbs.OpRDMARead}, verbs.ErrInvalidWR},
		"atomic of 100":    {verbs.SendWR{Opcode: verbs.OpFetchAdd, SGL: sges(1)}, verbs.ErrInvalidWR},
		"atomic of none":   {verbs.SendWR{Opcode: verbs.OpCompareSwap}, verbs.ErrInvalidWR},
		"inv with SGL":     {verbs.SendWR{Opcode: verbs.OpLocalInv, SGL: sges(1)}, verbs.ErrInvalidWR},
		"inv with inline":  {verbs.SendWR{Opcode: verbs.OpLocalInv, Inline: data(1)}, verbs.ErrInvalidWR},
	} {
		if n, err := w.qp.PostSend([]verbs.SendWR{c.wr}); n != 0 || !errors.Is(err, c.want) {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
	if _, ok := w.kqp.TakeSend(); ok {
		t.Error("something was sent")
	}
}

// TestNoAtomics has a device without atomics, which takes none.
func TestNoAtomics(t *testing.T) {
	w := newWorld(t, func(k *fakeverbs.Kernel, _ *uverbs.QPOptions) { fakeerdma.OptionsOf(k).NoAtomics = true })
	if w.dev.Supports(verbs.QPTypeRC, verbs.OpFetchAdd) || !w.dev.Supports(verbs.QPTypeRC, verbs.OpSend) || w.dev.Supports(verbs.QPTypeUD, verbs.OpSend) {
		t.Error("Supports")
	}
	wr := verbs.SendWR{Opcode: verbs.OpFetchAdd, SGL: []verbs.SGE{{Length: 8}}}
	if _, err := w.qp.PostSend([]verbs.SendWR{wr}); !errors.Is(err, verbs.ErrNotSupported) {
		t.Error(err)
	}
}
