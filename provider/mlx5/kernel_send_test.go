package mlx5

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

var kernelCodes = map[verbs.Opcode]uint8{verbs.OpSend: kernelSend, verbs.OpSendImm: kernelSendImm, verbs.OpSendWithInv: kernelSendInval,
	verbs.OpRDMAWrite: kernelWrite, verbs.OpRDMAWriteImm: kernelWriteImm, verbs.OpRDMARead: kernelRead, verbs.OpCompareSwap: kernelAtomicCS,
	verbs.OpFetchAdd: kernelAtomicFA, verbs.OpLocalInv: kernelUMRCode}

// TestKernelLayout reads random work requests back with the kernel's structures.
func TestKernelLayout(t *testing.T) {
	for typ, opcodes := range map[verbs.QPType][]verbs.Opcode{
		verbs.QPTypeRC: {verbs.OpSend, verbs.OpSendImm, verbs.OpSendWithInv, verbs.OpRDMAWrite, verbs.OpRDMAWriteImm, verbs.OpRDMARead,
			verbs.OpCompareSwap, verbs.OpFetchAdd, verbs.OpLocalInv},
		verbs.QPTypeUD: {verbs.OpSend, verbs.OpSendImm},
	} {
		var raw []byte
		w := newWorld(t, func(k *fakeverbs.Kernel, o *uverbs.QPOptions) {
			o.Type, o.Cap.MaxInline = typ, 140
			k.Cross = func(c *fakeverbs.Crossing) {
				if c.Kind == fakeverbs.EntrySQE {
					raw = bytes.Clone(c.Bytes)
				}
			}
		})
		attr := &verbs.AHAttr{Port: 1, Global: true, SGIDIndex: 1, DGID: fakeverbs.IPv4GID, FlowLabel: 0xabcde, HopLimit: 64, TrafficClass: 0x68, SL: 5}
		ah := providertest.Must[*uverbs.AH](t)(w.pd.CreateAH(attr))
		r := rand.New(rand.NewPCG(5, uint64(typ)))
		after := false // a change of a key
		index := uint16(0)
		for range 600 {
			wr := kernelRequest(r, opcodes[r.IntN(len(opcodes))])
			if typ == verbs.QPTypeUD {
				wr.AH, wr.RemoteQPN, wr.RemoteQKey = ah, r.Uint32()&0xffffff, r.Uint32()
			}
			w.post(t, wr)
			d := kernelDecode(t, raw, typ == verbs.QPTypeUD)
			if d.index != index || d.qpn != w.qp.QPN() {
				t.Errorf("%v at block %d of QP %d: %+v", wr.Opcode, index, w.qp.QPN(), d.ctrl)
			}
			index += uint16((d.ctrl.QPNDs&0x3f + 3) / 4)
			kernelCompare(t, &wr, &d, after)
			if typ == verbs.QPTypeUD {
				kernelCompareAV(t, &wr, attr, &d.to)
			}
			after = wr.Opcode == verbs.OpLocalInv
			w.kqp.Sent(w.take(t), abi.IB_WC_SUCCESS)
			w.poll(t)
		}
		if err := ah.Close(); err != nil {
			t.Error(err)
		}
	}
}

// kernelRequest makes a request with random contents, which always completes.
func kernelRequest(r *rand.Rand, op verbs.Opcode) verbs.SendWR {
	wr := verbs.SendWR{Opcode: op, Flags: verbs.SendSignaled, RemoteAddr: r.Uint64(), RKey: r.Uint32(), Imm: r.Uint32() | 1, InvalidateRKey: r.Uint32(),
		CompareAdd: r.Uint64(), Swap: r.Uint64()}
	if r.IntN(2) == 0 {
		wr.Flags |= verbs.SendFence
	}
	if r.IntN(2) == 0 {
		wr.Flags |= verbs.SendSolicited
	}
	sge := func(n uint32) { wr.SGL = append(wr.SGL, verbs.SGE{Addr: r.Uint64(), Length: n, LKey: r.Uint32()}) }
	switch {
	case op == verbs.OpLocalInv:
	case op == verbs.OpCompareSwap || op == verbs.OpFetchAdd:
		sge(8)
	case op != verbs.OpRDMARead && r.IntN(2) == 0:
		wr.Inline = data(r.IntN(141))
	default:
		for range r.IntN(maxSGE + 1) {
			sge(r.Uint32N(1 << 20)) // of which 0 is none
		}
	}
	return wr
}

// kernelCompare compares a request with the work request that was posted.
func kernelCompare(t *testing.T, wr *verbs.SendWR, d *kernelWQE, afterKey bool) {
	t.Helper()
	flags := uint8(kernelCQUpdate)
	switch {
	case wr.Flags&verbs.SendFence != 0:
		flags |= kernelSmallAndFence
	case afterKey:
		flags |= kernelFenceSmall
	default:
		flags |= kernelFenceNone
	}
	if wr.Flags&verbs.SendSolicited != 0 {
		flags |= kernelSolicited
	}
	general := uint32(0)
	switch wr.Opcode {
	case verbs.OpSendImm, verbs.OpRDMAWriteImm:
		general = wr.Imm
	case verbs.OpSendWithInv, verbs.OpLocalInv:
		general = wr.InvalidateRKey
	}
	if d.code != kernelCodes[wr.Opcode] || d.ctrl.FmCeSe != flags || d.ctrl.GeneralID != general {
		t.Errorf("%+v: code %#x, %+v", wr, d.code, d.ctrl)
	}
	if has := d.remote != (kernelRaddr{}); has && (d.remote.Addr != wr.RemoteAddr || d.remote.RKey != wr.RKey) {
		t.Errorf("%+v: %+v", wr, d.remote)
	}
	switch want := (kernelAtomic{}); wr.Opcode {
	case verbs.OpCompareSwap:
		want = kernelAtomic{wr.Swap, wr.CompareAdd}
		if d.operands != want {
			t.Errorf("%+v: %+v", wr, d.operands)
		}
	case verbs.OpFetchAdd:
		if d.operands.SwapAdd != wr.CompareAdd {
			t.Errorf("%+v: %+v", wr, d.operands)
		}
	case verbs.OpLocalInv:
		kernelCompareInv(t, d)
	}
	var want []kernelData
	for _, s := range wr.SGL {
		if s.Length > 0 {
			want = append(want, kernelData{s.Length, s.LKey, s.Addr})
		}
	}
	if len(d.data) != len(want) || !bytes.Equal(d.inline, wr.Inline) {
		t.Fatalf("%+v: %+v, inline %x", wr, d.data, d.inline)
	}
	for i := range want {
		if d.data[i] != want[i] {
			t.Errorf("%+v: %+v", wr, d.data)
		}
	}
}

// kernelCompareInv: the end of a key frees it, whatever queue pair it belonged to.
func kernelCompareInv(t *testing.T, d *kernelWQE) {
	t.Helper()
	if d.umr.MkeyMask != kernelMaskFree|kernelMaskKey|kernelMaskQPN || d.umr.Flags&(kernelUMRInline|kernelUMROffset) != kernelUMRInline|kernelUMROffset ||
		d.umr.XltOctowords != 0 || d.key.Status != kernelStatusFree || d.key.QPNMkey70>>8 != 0xffffff || d.key.Len != 0 {
		t.Errorf("%+v %+v", d.umr, d.key)
	}
}

// kernelCompareAV: an extended address on RoCE v2. The model's kernel makes the MAC of the
// end of the GID.
func kernelCompareAV(t *testing.T, wr *verbs.SendWR, a *verbs.AHAttr, to *kernelAV) {
	t.Helper()
	const extended = 1 << 31 // MLX5_EXTENDED_UD_AV
	want := kernelAV{QKey: wr.RemoteQKey, DqpDct: wr.RemoteQPN | extended, StatRateSL: a.SL << 1, RLid: to.RLid, TClass: a.TrafficClass, HopLimit: a.HopLimit,
		RMac: [6]uint8{2, a.DGID[11], a.DGID[12], a.DGID[13], a.DGID[14], a.DGID[15]}, GRHGIDFl: a.SGIDIndex<<20 | a.FlowLabel, RGid: a.DGID}
	if *to != want || to.RLid < 0xc000 {
		t.Errorf("%+v, want %+v", to, &want)
	}
}

// TestKernelLayoutWindows reads bindings of windows back.
func TestKernelLayoutWindows(t *testing.T) {
	var raw []byte
	w := newWorld(t, func(k *fakeverbs.Kernel, _ *uverbs.QPOptions) {
		k.Cross = func(c *fakeverbs.Crossing) {
			if c.Kind == fakeverbs.EntrySQE {
				raw = bytes.Clone(c.Bytes)
			}
		}
	})
	mr := providertest.Must[*uverbs.MR](t)(w.pd.AllocMR(4096, verbs.AccessLocalWrite|verbs.AccessMWBind, nil))
	defer mr.Close()
	for _, typ := range []verbs.MWType{verbs.MWType1, verbs.MWType2} {
		mw := providertest.Must[*uverbs.MW](t)(w.pd.AllocMW(typ))
		old, key := mw.RKey(), uverbs.IncRKey(mw.RKey())
		b := &verbs.BindMW{MW: mw, RKey: key, MR: mr, Addr: mr.Addr() + 64, Length: 1000, Access: verbs.AccessRemoteRead | verbs.AccessRemoteAtomic}
		w.post(t, verbs.SendWR{Opcode: verbs.OpBindMW, Flags: verbs.SendSignaled, Bind: b})
		d := kernelDecode(t, raw, false)
		mask, qpn := uint64(kernelMaskFree|kernelMaskKey|kernelMaskLen|kernelMaskStart|kernelMaskLW|kernelMaskRR|kernelMaskRW|kernelMaskA), uint32(0xffffff)
		if typ == verbs.MWType2 {
			mask, qpn = mask|kernelMaskQPN, w.qp.QPN()
		}
		if d.ctrl.GeneralID != old || d.umr.MkeyMask != mask || d.umr.XltOctowords != 4 || d.umr.Flags&(kernelUMRInline|kernelUMROffset) != kernelUMRInline|kernelUMROffset {
			t.Errorf("type %v: %+v %+v", typ, d.ctrl, d.umr)
		}
		want := kernelMkey{Flags: kernelPermRR | kernelPermAtomic, QPNMkey70: qpn<<8 | key&0xff, StartAddr: b.Addr, Len: b.Length}
		if d.key != want || d.data[0] != (kernelData{1000, mr.LKey(), b.Addr}) {
			t.Errorf("type %v: %+v, want %+v; %+v", typ, d.key, want, d.data)
		}
		w.kqp.Sent(w.take(t), abi.IB_WC_SUCCESS)
		w.poll(t)
		if typ == verbs.MWType2 {
			w.post(t, verbs.SendWR{Opcode: verbs.OpLocalInv, Flags: verbs.SendSignaled, InvalidateRKey: key})
			w.kqp.Sent(w.take(t), abi.IB_WC_SUCCESS)
			w.poll(t)
		}
		if err := mw.Close(); err != nil {
			t.Error(err)
		}
	}
}
