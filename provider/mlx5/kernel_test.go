package mlx5

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// A decoder of work requests that knows nothing of this provider: it was written later, by
// another hand, from the structures of Linux (include/linux/mlx5/qp.h and device.h), which
// have these names there. Nothing of it may use the provider's constants or functions.

// kernelCtrl is mlx5_wqe_ctrl_seg.
type kernelCtrl struct {
	OpmodIdxOpcode, QPNDs uint32
	Signature             uint8
	Rsvd                  [2]uint8
	FmCeSe                uint8
	GeneralID             uint32 // or imm, or umr_mkey
}

// kernelRaddr is mlx5_wqe_raddr_seg.
type kernelRaddr struct {
	Addr           uint64
	RKey, Reserved uint32
}

// kernelAtomic is mlx5_wqe_atomic_seg.
type kernelAtomic struct{ SwapAdd, Compare uint64 }

// kernelData is mlx5_wqe_data_seg, and mlx5_klm.
type kernelData struct {
	ByteCount, LKey uint32
	Addr            uint64
}

// kernelAV is mlx5_av.
type kernelAV struct {
	QKey, Reserved, DqpDct uint32
	StatRateSL, FlMlid     uint8
	RLid                   uint16 // or udp_sport
	Reserved0              [4]uint8
	RMac                   [6]uint8
	TClass, HopLimit       uint8
	GRHGIDFl               uint32
	RGid                   [16]uint8
}

// kernelUMR is mlx5_wqe_umr_ctrl_seg.
type kernelUMR struct {
	Flags                   uint8
	Rsvd0                   [3]uint8
	XltOctowords, XltOffset uint16
	MkeyMask                uint64
	XltOffset47             uint32
	Rsvd1                   [28]uint8
}

// kernelMkey is mlx5_mkey_seg.
type kernelMkey struct {
	Status, PcieControl, Flags, Version uint8
	QPNMkey70                           uint32
	Rsvd1                               [4]uint8
	FlagsPD                             uint32
	StartAddr, Len                      uint64
	BsfsOctoSize                        uint32
	Rsvd2                               [16]uint8
	XltOctSize                          uint32
	Rsvd3                               [3]uint8
	Log2PageSize                        uint8
	Rsvd4                               [4]uint8
}

// The kernel's numbers.
const (
	kernelSendInval, kernelWrite, kernelWriteImm, kernelSend, kernelSendImm = 0x01, 0x08, 0x09, 0x0a, 0x0b
	kernelRead, kernelAtomicCS, kernelAtomicFA, kernelUMRCode               = 0x10, 0x11, 0x12, 0x25

	kernelInlineSeg = 0x80000000 // MLX5_INLINE_SEG

	kernelCQUpdate, kernelSolicited                        = 2 << 2, 1 << 1         // MLX5_WQE_CTRL_
	kernelFenceNone, kernelFenceSmall, kernelSmallAndFence = 0 << 5, 1 << 5, 4 << 5 // MLX5_FENCE_MODE_

	kernelMaskLen, kernelMaskStart, kernelMaskKey, kernelMaskQPN, kernelMaskFree = 1 << 0, 1 << 6, 1 << 13, 1 << 14, 1 << 29 // MLX5_MKEY_MASK_
	kernelMaskLW, kernelMaskRR, kernelMaskRW, kernelMaskA                        = 1 << 18, 1 << 19, 1 << 20, 1 << 21
	kernelPermLW, kernelPermRR, kernelPermRW, kernelPermAtomic                   = 1 << 3, 1 << 4, 1 << 5, 1 << 6 // MLX5_PERM_
	kernelStatusFree                                                             = 1 << 6
	kernelUMRInline, kernelUMROffset                                             = 1 << 7, 1 << 4
)

// kernelWQE is a work request as the kernel's structures have it.
type kernelWQE struct {
	ctrl     kernelCtrl
	code     uint8
	index    uint16
	qpn      uint32
	remote   kernelRaddr
	operands kernelAtomic
	to       kernelAV
	umr      kernelUMR
	key      kernelMkey
	data     []kernelData
	inline   []byte
}

// kernelReader takes structures off a request.
type kernelReader struct {
	t *testing.T
	b []byte
}

func (r *kernelReader) take(v any) {
	r.t.Helper()
	n := binary.Size(v)
	if n > len(r.b) {
		r.t.Fatalf("%T of %d bytes, and %d are left", v, n, len(r.b))
	}
	if err := binary.Read(bytes.NewReader(r.b[:n]), binary.BigEndian, v); err != nil {
		r.t.Fatal(err)
	}
	r.b = r.b[n:]
}

// kernelDecode reads a request, of the length in its first segment.
func kernelDecode(t *testing.T, b []byte, datagram bool) (w kernelWQE) {
	t.Helper()
	r := &kernelReader{t, b}
	r.take(&w.ctrl)
	w.code, w.index, w.qpn = uint8(w.ctrl.OpmodIdxOpcode), uint16(w.ctrl.OpmodIdxOpcode>>8), w.ctrl.QPNDs>>8
	if w.ctrl.OpmodIdxOpcode>>24 != 0 || w.ctrl.Signature != 0 || w.ctrl.Rsvd != [2]uint8{} || w.ctrl.QPNDs&0xc0 != 0 {
		t.Errorf("%+v", w.ctrl)
	}
	r.b = b[16 : 16*(w.ctrl.QPNDs&0x3f)]
	if datagram {
		r.take(&w.to)
	}
	switch w.code {
	case kernelWrite, kernelWriteImm, kernelRead:
		r.take(&w.remote)
	case kernelAtomicCS, kernelAtomicFA:
		r.take(&w.remote)
		r.take(&w.operands)
	case kernelUMRCode:
		r.take(&w.umr)
		r.take(&w.key)
	}
	if w.remote.Reserved != 0 || w.to.Reserved != 0 || w.to.Reserved0 != [4]uint8{} {
		t.Errorf("reserved fields are set: %+v %+v", w.remote, w.to)
	}
	if len(r.b) > 0 && binary.BigEndian.Uint32(r.b)&kernelInlineSeg != 0 {
		n := int(binary.BigEndian.Uint32(r.b) &^ kernelInlineSeg)
		if len(r.b) != (4+n+15)/16*16 {
			t.Errorf("%d bytes inline in %d", n, len(r.b))
		}
		w.inline = r.b[4:][:n]
		return w
	}
	for len(r.b) > 0 {
		var d kernelData
		r.take(&d)
		w.data = append(w.data, d)
	}
	return w
}
