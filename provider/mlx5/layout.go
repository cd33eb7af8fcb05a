package mlx5

import (
	"encoding/binary"
	"math/bits"
	"sync/atomic"

	"github.com/goverbs/goverbs/internal/abi"
)

// segment is the unit of work requests: 16 bytes, as two words that are big-endian in
// memory. Both platforms are little-endian.
type segment [2]uint64

// block is the unit of the send queue: a request begins at one.
type block [blockSegs]segment

const (
	segmentSize = 16
	blockSize   = 64
	blockSegs   = blockSize / segmentSize
	maxSegs     = 63 // largest number of segments in a request's first segment
	indexMask   = 0xffff
)

// words returns a word that holds two fields of 4 bytes.
func words(first, second uint32) uint64 { return be64(uint64(first)<<32 | uint64(second)) }

func be16(v uint16) uint16 { return bits.ReverseBytes16(v) }
func be32(v uint32) uint32 { return bits.ReverseBytes32(v) }
func be64(v uint64) uint64 { return bits.ReverseBytes64(v) }

// pow2 returns the least power of two that is not below n, for n from 1 to 1<<31.
func pow2(n uint32) uint32 { return 1 << bits.Len32(n-1) }

func align(n, to uint32) uint32 { return (n + to - 1) / to * to }

// The operations of the send queue, as requests and completions name them.
const (
	opSendInv  = 0x01
	opWrite    = 0x08
	opWriteImm = 0x09
	opSend     = 0x0a
	opSendImm  = 0x0b
	opTSO      = 0x0e
	opRead     = 0x10
	opCompare  = 0x11
	opFetchAdd = 0x12
	opUMR      = 0x25 // binds a window, or invalidates a key
)

// Flags of a request.
const (
	ctrlSolicited  = 0x02
	ctrlCompletion = 0x08
	ctrlSmallFence = 0x20 // waits for earlier changes of keys
	ctrlFence      = 0x80

	ctrlStreamShift = 8 // of a DCI's stream
)

const (
	inlineHeader   = 4
	inlineBit      = 1 << 31
	extendedAV     = 1 << 31 // in the word with the number of a datagram's QP
	invalidLKey    = 0x100   // after the last SGE of a receive that has fewer than its entry
	maxDataLength  = 1<<31 - 1
	maxBlockCopies = maxSegs*segmentSize/blockSize + 1
)

// cqe is a completion. Its fields are big-endian.
type cqe struct {
	_          [17]uint8
	path       uint8 // 7 bits
	_          [4]uint8
	slid       uint16
	flagsQPN   uint32 // 28 to 29 GRH; 24 to 27 SL, or over RoCE the packet's headers; 0 to 23 the sender's QP
	right      uint8  // layers of a raw packet
	headers    uint8  // 0 a VLAN tag was stripped, 2 to 3 its layer 3, 4 to 6 its layer 4
	vlan       uint16 // that tag
	queue      uint32 // SRQ's number, or the provider's index, in 24 bits
	imm        uint32
	_          [4]uint8
	byteCount  uint32
	_          [6]uint8
	vendor     uint8 // of an error
	syndrome   uint8
	opQPN      uint32        // 24 to 31 the request's opcode, 0 to 23 the QP's number, or a raw packet's flow tag
	counterOwn atomic.Uint32 // 16 bits of index, big-endian; 8 of signature; 8 of opcode, format and owner
}

// timestamp returns the time stamp, which is big-endian. Errors have their syndrome at that
// offset.
func (e *cqe) timestamp() uint64 { return binary.NativeEndian.Uint64(abi.Bytes(e)[48:]) }

const (
	cqeSize     = 64
	longCQESize = 128 // of entries that have 64 bytes in front

	cqeInside = 1 << 26 // in counterOwn: the message is in the first bytes of the entry
	cqeBefore = 1 << 27 // in counterOwn: the message is in the 64 bytes before the entry

	cqeInsideSize = 32

	cqeOwner      = 1 << 24 // in counterOwn, as loaded
	cqeOpShift    = 28
	cqeNothing    = 0xf // the opcode of an entry that was never written
	cqeInvalid    = cqeNothing << cqeOpShift
	cqeRequest    = 0
	cqeWriteImm   = 1
	cqeRecv       = 2
	cqeRecvImm    = 3
	cqeRecvInv    = 4
	cqeResize     = 5
	cqeReqError   = 13
	cqeRespError  = 14
	cqeNumberMask = 0xffffff
)

// The word that arms a CQ.
const (
	armEventShift = 28 // events that were read, two bits
	armSolicited  = 1 << 24
	armConsumed   = 0xffffff
)

// Offsets of doorbells in a UAR. A system page may have several UARs.
const (
	uarSize        = 4096
	uarCQ          = 0x20
	uarSend        = 0x800
	uarPlainStride = 0x100 // between registers that take no copies
	uarRegisters   = 2     // in use, of the four that numbers count
)
