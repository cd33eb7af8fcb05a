package mlx5

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	fakemlx5 "github.com/goverbs/goverbs/internal/fakeverbs/mlx5"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// kernelCQE is mlx5_cqe64.
type kernelCQE struct {
	OuterL3Tunneled, Rsvd0          uint8
	WqeID                           uint16
	LroTCPPsh, LroMinTTL            uint8
	LroTCPWin                       uint16
	LroAckSeqNum, RssHashResult     uint32
	RssHashType, MlPath             uint8
	Rsvd20                          [2]uint8
	CheckSum, Slid                  uint16
	FlagsRqpn                       uint32
	HdsIPExt, L4L3HdrType           uint8
	VlanInfo                        uint16
	Srqn, ImmInvalPkey              uint32
	Rsvd40                          [4]uint8
	ByteCnt, TimestampH, TimestampL uint32
	SopDropQPN                      uint32
	WqeCounter                      uint16
	Signature, OpOwn                uint8
}

// kernelErrCQE is mlx5_err_cqe.
type kernelErrCQE struct {
	Rsvd0            [32]uint8
	Srqn             uint32
	Rsvd1            [18]uint8
	VendorErrSynd    uint8
	Syndrome         uint8
	SWqeOpcodeQPN    uint32
	WqeCounter       uint16
	Signature, OpOwn uint8
}

// MLX5_CQE_ opcodes, and the statuses of syndromes.
const (
	kernelRespWRImm, kernelRespSend, kernelRespSendImm, kernelRespSendInv, kernelReqErr = 1, 2, 3, 4, 13
)

var kernelSyndromes = map[uint8]verbs.Status{
	0x01: verbs.StatusLocLenErr, 0x02: verbs.StatusLocQPOpErr, 0x04: verbs.StatusLocProtErr, 0x05: verbs.StatusWRFlushErr, 0x06: verbs.StatusMWBindErr,
	0x10: verbs.StatusBadRespErr, 0x11: verbs.StatusLocAccessErr, 0x12: verbs.StatusRemInvReqErr, 0x13: verbs.StatusRemAccessErr, 0x14: verbs.StatusRemOpErr,
	0x15: verbs.StatusRetryExcErr, 0x16: verbs.StatusRNRRetryExcErr, 0x22: verbs.StatusRemAbortErr,
}

// kernelWorld is a world whose device writes completions that the test has made.
type kernelWorld struct {
	*world
	user uint32 // the QP's name in completions: user_index of its create request
	next any    // structure to write
}

func newKernelWorld(t *testing.T, typ verbs.QPType, infiniband bool) *kernelWorld {
	w := &kernelWorld{}
	w.world = newWorld(t, func(k *fakeverbs.Kernel, o *uverbs.QPOptions) {
		o.Type, fakemlx5.OptionsOf(k).Infiniband = typ, infiniband
		k.Cross = func(c *fakeverbs.Crossing) {
			switch {
			case c.Kind == fakeverbs.CallIn && c.Call == "QP_CREATE":
				w.user = binary.NativeEndian.Uint32(c.Bytes[32:]) // uidx of mlx5_ib_create_qp
			case c.Kind == fakeverbs.EntryCQE && w.next != nil:
				owner := c.Bytes[63] & 1
				var b bytes.Buffer
				if err := binary.Write(&b, binary.BigEndian, w.next); err != nil || b.Len() != 64 {
					t.Error(err, b.Len())
				}
				copy(c.Bytes, b.Bytes())
				c.Bytes[63] = c.Bytes[63]&^1 | owner
			}
		}
	})
	return w
}

// kernelNoise fills the fields that verbs does not use.
func kernelNoise(r *rand.Rand) kernelCQE {
	u8 := func() uint8 { return uint8(r.Uint32()) }
	return kernelCQE{OuterL3Tunneled: u8(), WqeID: uint16(r.Uint32()), LroTCPPsh: u8(), LroMinTTL: u8(), LroTCPWin: uint16(r.Uint32()),
		LroAckSeqNum: r.Uint32(), RssHashResult: r.Uint32(), RssHashType: u8(), CheckSum: uint16(r.Uint32()), HdsIPExt: u8(), L4L3HdrType: u8(),
		VlanInfo: uint16(r.Uint32()), TimestampH: r.Uint32(), TimestampL: r.Uint32(), Signature: u8()}
}

// TestKernelCompletions reads completions of receives that were made with the kernel's
// structures.
func TestKernelCompletions(t *testing.T) {
	for _, typ := range []verbs.QPType{verbs.QPTypeRC, verbs.QPTypeUD} {
		w, r := newKernelWorld(t, typ, true), rand.New(rand.NewPCG(6, uint64(typ)))
		for i := range 300 {
			op := uint8(kernelRespSend + r.IntN(2))
			if typ == verbs.QPTypeRC {
				op = uint8(kernelRespWRImm + r.IntN(4))
			}
			c := kernelNoise(r)
			c.MlPath, c.Slid, c.ByteCnt, c.ImmInvalPkey = uint8(r.Uint32()), uint16(r.Uint32()), r.Uint32(), r.Uint32()
			sl, from, grh := r.Uint32N(16), r.Uint32N(1<<24), r.Uint32N(2)
			c.FlagsRqpn = grh<<28 | sl<<24 | from
			c.Srqn = r.Uint32()<<24 | w.user
			c.SopDropQPN, c.WqeCounter, c.OpOwn = w.qp.QPN(), uint16(i), op<<4
			w.next = &c
			w.postRecv(t, verbs.RecvWR{WRID: uint64(i)})
			recv, _ := w.kqp.TakeRecv()
			w.kqp.Received(recv, &abi.IbUverbsWc{}, false)
			want := verbs.WC{WRID: uint64(i), QPN: w.qp.QPN(), Opcode: verbs.WCRecv, ByteLen: c.ByteCnt}
			switch op {
			case kernelRespWRImm:
				want.Opcode, want.Flags, want.Imm = verbs.WCRecvRDMAWithImm, verbs.WCWithImm, c.ImmInvalPkey
			case kernelRespSendImm:
				want.Flags, want.Imm = verbs.WCWithImm, c.ImmInvalPkey
			case kernelRespSendInv:
				want.Flags, want.Imm = verbs.WCWithInv, c.ImmInvalPkey
			}
			if typ == verbs.QPTypeUD {
				want.SrcQPN, want.SL, want.SLID, want.DLIDPathBits = from, uint8(sl), c.Slid, c.MlPath&0x7f
				if grh != 0 {
					want.Flags |= verbs.WCGRH
				}
			}
			if got := w.one(t); got != want {
				t.Errorf("%+v:\n%+v, want\n%+v", c, got, want)
			}
		}
	}
}

// TestKernelSyndromes reads errors of sends, all there can be.
func TestKernelSyndromes(t *testing.T) {
	for syndrome := range 256 {
		w := newKernelWorld(t, verbs.QPTypeRC, false)
		w.post(t, verbs.SendWR{WRID: 9, Opcode: verbs.OpRDMAWrite})
		w.next = &kernelErrCQE{Srqn: w.user, VendorErrSynd: 0x5a, Syndrome: uint8(syndrome), SWqeOpcodeQPN: kernelWrite<<24 | w.qp.QPN(), OpOwn: kernelReqErr << 4}
		w.kqp.Sent(w.take(t), abi.IB_WC_LOC_PROT_ERR)
		want := verbs.WC{WRID: 9, QPN: w.qp.QPN(), Status: verbs.StatusGeneralErr, VendorErr: 0x5a}
		if status, ok := kernelSyndromes[uint8(syndrome)]; ok {
			want.Status = status
		}
		if got := w.one(t); got != want {
			t.Errorf("syndrome %#x: %+v, want %+v", syndrome, got, want)
		}
	}
}
