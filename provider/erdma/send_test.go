package erdma

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/uverbs/driver"
)

func sges(n int) (sgl []uverbs.SGE) {
	for i := range n {
		sgl = append(sgl, uverbs.SGE{Addr: 0x1122334455660000 + uint64(i), Length: uint32(100 + i), LKey: 0xa1b2c300 + uint32(i)})
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

// requests are one of each form, with what the device must find in it.
func requests() map[string]struct {
	wr   uverbs.SendWR
	want fakeverbs.Work
} {
	type form = struct {
		wr   uverbs.SendWR
		want fakeverbs.Work
	}
	forms := make(map[string]form)
	kernel := func(sgl []uverbs.SGE) (all []fakeverbs.SGE) {
		for _, s := range sgl {
			all = append(all, fakeverbs.SGE(s))
		}
		return all
	}
	add := func(name string, wr uverbs.SendWR, want fakeverbs.Work) {
		want.SGL, want.Inline = kernel(wr.SGL), wr.Inline
		if wr.Inline != nil {
			want.Flags |= abi.IB_SEND_INLINE
		}
		forms[name] = form{wr, want}
	}
	payloads := map[string]uverbs.SendWR{}
	for n := range maxSGE + 1 {
		payloads[fmt.Sprint(n, " SGEs")] = uverbs.SendWR{SGL: sges(n)}
	}
	for _, n := range []int{0, 1, 15, 16, 17, 31, 32, 33, 48, 64, 80, 81, 95, 96} {
		payloads[fmt.Sprint(n, " bytes inline")] = uverbs.SendWR{Inline: data(n)}
	}
	for what, wr := range payloads {
		wr.RemoteAddr, wr.RKey, wr.Imm, wr.InvalidateRKey = raddr, rkey, imm, inv
		for op, want := range map[uverbs.Opcode]fakeverbs.Work{
			uverbs.OpSend:         {Opcode: abi.IB_UVERBS_WR_SEND},
			uverbs.OpSendImm:      {Opcode: abi.IB_UVERBS_WR_SEND_WITH_IMM, Imm: be32(imm)},
			uverbs.OpSendWithInv:  {Opcode: abi.IB_UVERBS_WR_SEND_WITH_INV, Imm: inv},
			uverbs.OpRDMAWrite:    {Opcode: abi.IB_UVERBS_WR_RDMA_WRITE, RemoteAddr: raddr, RKey: rkey},
			uverbs.OpRDMAWriteImm: {Opcode: abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM, RemoteAddr: raddr, RKey: rkey, Imm: be32(imm)},
		} {
			wr.Opcode = op
			add(fmt.Sprint(op, " of ", what), wr, want)
		}
	}
	eight := []uverbs.SGE{{Addr: 0x1122334455667788, Length: 8, LKey: 0xa1b2c3d4}}
	base := uverbs.SendWR{RemoteAddr: raddr, RKey: rkey, Imm: imm, InvalidateRKey: inv, CompareAdd: 0x1112131415161718, Swap: 0x2122232425262728, SGL: eight}
	for op, want := range map[uverbs.Opcode]fakeverbs.Work{
		uverbs.OpRDMARead:    {Opcode: abi.IB_UVERBS_WR_RDMA_READ, RemoteAddr: raddr, RKey: rkey},
		uverbs.OpReadWithInv: {Opcode: abi.IB_UVERBS_WR_RDMA_READ_WITH_INV, RemoteAddr: raddr, RKey: rkey, Imm: eight[0].LKey},
		uverbs.OpCompareSwap: {Opcode: abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP, RemoteAddr: raddr, RKey: rkey, Compare: base.CompareAdd, Swap: base.Swap},
		uverbs.OpFetchAdd:    {Opcode: abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD, RemoteAddr: raddr, RKey: rkey, Compare: base.CompareAdd},
	} {
		wr := base
		wr.Opcode = op
		add(op.String(), wr, want)
	}
	add("LOCAL_INV", uverbs.SendWR{Opcode: uverbs.OpLocalInv, InvalidateRKey: inv}, fakeverbs.Work{Opcode: abi.IB_UVERBS_WR_LOCAL_INV, Imm: inv})
	return forms
}

var flagForms = map[uverbs.SendFlags]uint32{
	0: 0, uverbs.SendSignaled: abi.IB_SEND_SIGNALED, uverbs.SendFence: abi.IB_SEND_FENCE, uverbs.SendSolicited: abi.IB_SEND_SOLICITED,
	uverbs.SendSignaled | uverbs.SendFence | uverbs.SendSolicited: abi.IB_SEND_SIGNALED | abi.IB_SEND_FENCE | abi.IB_SEND_SOLICITED,
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
			if diff := cmp.Diff(&want, got, cmpopts.IgnoreUnexported(fakeverbs.Work{}), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s, %v (-want +got):\n%s", name, flags, diff)
			}
			w.finish(t, got, wr)
			id++
		}
	}
}

// finish completes a send, which frees its blocks: one without a completion is freed by
// the next that has one.
func (w *world) finish(t *testing.T, s *fakeverbs.Work, wr uverbs.SendWR) {
	t.Helper()
	w.kqp.Sent(s, abi.IB_WC_SUCCESS)
	want := wr.WRID
	if wr.Flags&uverbs.SendSignaled == 0 {
		if wcs := w.poll(t); len(wcs) > 0 {
			t.Fatalf("%+v", wcs)
		}
		w.post(t, uverbs.SendWR{WRID: 1 << 40, Opcode: uverbs.OpSend, Flags: uverbs.SendSignaled})
		w.kqp.Sent(w.take(t), abi.IB_WC_SUCCESS)
		want = 1 << 40
	}
	if wc := w.one(t); wc.WRID != want || wc.Status != uverbs.StatusSuccess || wc.QPN != w.qp.Num() {
		t.Errorf("%+v", wc)
	}
}

// TestSignalAll has the QP ask for the completion of each send.
func TestSignalAll(t *testing.T) {
	w := newWorld(t, func(_ *fakeverbs.Kernel, o *uverbs.QPOptions) { o.SignalAll = true })
	w.post(t, uverbs.SendWR{WRID: 7, Opcode: uverbs.OpSend})
	w.kqp.Sent(w.take(t), abi.IB_WC_SUCCESS)
	if wc := w.one(t); wc.WRID != 7 {
		t.Errorf("%+v", wc)
	}
}

// TestSendRoom fills the queue with sends of all sizes: it takes what has room in blocks,
// and no more.
func TestSendRoom(t *testing.T) {
	for _, inline := range []int{16, 48, 80, 96} {
		w := newWorld(t, nil)
		blocks := (16 + inline + 31) / 32
		wr := uverbs.SendWR{Opcode: uverbs.OpSend, Flags: uverbs.SendSignaled, Inline: data(inline)}
		for round := range 5 {
			n := 0
			for ; ; n++ {
				wr.WRID = uint64(n)
				if _, err := w.qp.PostSend([]uverbs.SendWR{wr}); err != nil {
					if !errors.Is(err, uverbs.ErrQueueFull) {
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

// TestSendBatch: a batch is told with one store, and ends at what is refused.
func TestSendBatch(t *testing.T) {
	stores := 0
	w := newWorld(t, func(k *fakeverbs.Kernel, _ *uverbs.QPOptions) {
		k.Cross = func(c *fakeverbs.Crossing) {
			if c.Kind == fakeverbs.Doorbell {
				stores++
			}
		}
	})
	good := uverbs.SendWR{Opcode: uverbs.OpSend, Flags: uverbs.SendSignaled}
	bad := uverbs.SendWR{Opcode: uverbs.OpBindMW}
	n, err := w.qp.PostSend([]uverbs.SendWR{good, good, good, bad, good})
	if n != 3 || !errors.Is(err, uverbs.ErrNotSupported) || stores != 1 {
		t.Error(n, err, stores)
	}
	if n, err := w.qp.PostSend([]uverbs.SendWR{bad}); n != 0 || err == nil || stores != 1 {
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

// TestRefuses posts what the device would end the connection for.
func TestRefuses(t *testing.T) {
	w := newWorld(t, nil)
	for name, c := range map[string]struct {
		wr   uverbs.SendWR
		want error
	}{
		"unknown opcode":   {uverbs.SendWR{Opcode: 99}, uverbs.ErrNotSupported},
		"window":           {uverbs.SendWR{Opcode: uverbs.OpBindMW}, uverbs.ErrNotSupported},
		"unknown flag":     {uverbs.SendWR{Opcode: uverbs.OpSend, Flags: 8}, uverbs.ErrInvalidWR},
		"too many SGEs":    {uverbs.SendWR{Opcode: uverbs.OpSend, SGL: sges(7)}, uverbs.ErrInvalidWR},
		"bad length":       {uverbs.SendWR{Opcode: uverbs.OpSend, SGL: []uverbs.SGE{{Length: driver.BadLength}}}, uverbs.ErrInvalidWR},
		"4 GiB":            {uverbs.SendWR{Opcode: uverbs.OpSend, SGL: []uverbs.SGE{{Length: 1 << 31}, {Length: 1 << 31}}}, uverbs.ErrInvalidWR},
		"long inline":      {uverbs.SendWR{Opcode: uverbs.OpSend, Inline: data(97)}, uverbs.ErrInvalidWR},
		"both":             {uverbs.SendWR{Opcode: uverbs.OpRDMAWrite, Inline: data(1), SGL: sges(1)}, uverbs.ErrInvalidWR},
		"inline read":      {uverbs.SendWR{Opcode: uverbs.OpRDMARead, Inline: data(1)}, uverbs.ErrInvalidWR},
		"read of two SGEs": {uverbs.SendWR{Opcode: uverbs.OpRDMARead, SGL: sges(2)}, uverbs.ErrInvalidWR},
		"read of none":     {uverbs.SendWR{Opcode: uverbs.OpRDMARead}, uverbs.ErrInvalidWR},
		"atomic of 100":    {uverbs.SendWR{Opcode: uverbs.OpFetchAdd, SGL: sges(1)}, uverbs.ErrInvalidWR},
		"atomic of none":   {uverbs.SendWR{Opcode: uverbs.OpCompareSwap}, uverbs.ErrInvalidWR},
		"inv with SGL":     {uverbs.SendWR{Opcode: uverbs.OpLocalInv, SGL: sges(1)}, uverbs.ErrInvalidWR},
		"inv with inline":  {uverbs.SendWR{Opcode: uverbs.OpLocalInv, Inline: data(1)}, uverbs.ErrInvalidWR},
	} {
		if n, err := w.qp.PostSend([]uverbs.SendWR{c.wr}); n != 0 || !errors.Is(err, c.want) {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
	if _, ok := w.kqp.TakeSend(); ok {
		t.Error("something was sent")
	}
}

// TestNoAtomics: a device without them takes none.
func TestNoAtomics(t *testing.T) {
	w := newWorld(t, func(k *fakeverbs.Kernel, _ *uverbs.QPOptions) { k.ERDMA.NoAtomics = true })
	if w.dev.Supports(uverbs.QPTypeRC, uverbs.OpFetchAdd) || !w.dev.Supports(uverbs.QPTypeRC, uverbs.OpSend) || w.dev.Supports(uverbs.QPTypeUD, uverbs.OpSend) {
		t.Error("Supports")
	}
	wr := uverbs.SendWR{Opcode: uverbs.OpFetchAdd, SGL: []uverbs.SGE{{Length: 8}}}
	if _, err := w.qp.PostSend([]uverbs.SendWR{wr}); !errors.Is(err, uverbs.ErrNotSupported) {
		t.Error(err)
	}
}
