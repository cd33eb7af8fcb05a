package driver

import (
	"fmt"
	"math"
)

// SGE names a piece of registered memory.
//
// C: struct ibv_sge
type SGE struct {
	Addr   uint64
	Length uint32 // bytes
	LKey   uint32
}

// BadLength is the Length of an SGE that stands for a piece of memory that no SGE can
// name: [uverbs.MR.SGE] was asked for 4 GiB or more, or for less than nothing. Every
// provider refuses a work request with one; [SumSGL] does.
const BadLength = math.MaxUint32

// SumSGL returns how many bytes an SGL names. It refuses one that has more SGEs than
// its queue takes, and one with an SGE of [BadLength].
func SumSGL(sgl []SGE, most int) (bytes uint64, err error) {
	if len(sgl) > most {
		return 0, fmt.Errorf("%w: %d SGEs, the queue takes %d", ErrInvalidWR, len(sgl), most)
	}
	for i := range sgl {
		n := sgl[i].Length // read once
		if n == BadLength {
			return 0, fmt.Errorf("%w: SGE %d has BadLength: MR.SGE got an offset or a length below 0, or a length of 4 GiB or more", ErrInvalidWR, i)
		}
		bytes += uint64(n)
	}
	return bytes, nil
}

// SendFlags refine a send work request; the values combine with |.
//
// C: enum ibv_send_flags
type SendFlags uint32

const (
	// SendFence holds the request back until earlier reads and atomics are done.
	SendFence SendFlags = 1 << iota
	// SendSignaled asks for a completion even of a success.
	SendSignaled
	// SendSolicited raises a solicited event at the receiver.
	SendSolicited
	// SendIPCsum has the device fill in the checksums of a raw packet: of the header of IPv4,
	// and of TCP or UDP. Devices with DeviceCapRawIPCsum can do that.
	SendIPCsum SendFlags = 1 << 4
)

// SendWR is a work request for the send queue. Its slices, and what its pointers
// lead to, are read before PostSend returns and may be reused then; the memory
// that SGL names belongs to the device until the request completed, and so does
// the AH.
//
// C: struct ibv_send_wr
type SendWR struct {
	WRID   uint64 // comes back in the completion
	Opcode Opcode
	Flags  SendFlags
	SGL    []SGE
	Inline []byte // data taken into the request itself, instead of SGL (C: IBV_SEND_INLINE)

	RemoteAddr uint64 // RDMA read and write, atomics, flush
	RKey       uint32 // with RemoteAddr
	// Imm is for OpSendImm and OpRDMAWriteImm: a number, which travels most
	// significant byte first (C: imm_data is htonl of it).
	Imm            uint32
	InvalidateRKey uint32 // OpSendWithInv: the peer's key that ends; OpLocalInv: the own one
	SRQN           uint32 // XRC: the peer's SRQ, which receives or whose domain's memory it is

	// CompareAdd is what OpCompareSwap compares with, and what OpFetchAdd adds;
	// Swap is what OpCompareSwap stores. Both in the peers' own byte order. The
	// old value, 8 bytes, goes to SGL.
	CompareAdd, Swap uint64

	AH         *AH    // UD: the way to the peer
	RemoteQPN  uint32 // UD: the peer's QP
	RemoteQKey uint32 // UD: its Q_Key; with the top bit set, the own QP's is sent, but not by rxe

	Flush Flush   // OpFlush
	Bind  *BindMW // OpBindMW
}

// RecvWR is a work request for a receive queue, with the rules of [SendWR].
//
// C: struct ibv_recv_wr
type RecvWR struct {
	WRID uint64
	SGL  []SGE
}
