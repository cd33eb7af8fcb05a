package erdma

import "math/bits"

// Offsets of doorbells in their pages.
const (
	doorbellPage = 4096
	sdbEntry     = 1 // the kind of context that has one doorbell for the sends of all its QPs
	sdbEntrySize = 256
	sdbDistance  = 128
	sdbPerPage   = doorbellPage / sdbDistance
	rdbDistance  = 32
	rdbPerPage   = doorbellPage / rdbDistance
	cdbDistance  = 8
	cdbPerPage   = doorbellPage / cdbDistance
)

// block is the unit of the send queue, and the size of the entries of the other queues. A
// send takes one to four blocks. All entries except completions are little-endian, as both
// platforms are.
type block [4]uint64

const (
	blockSize  = 32
	maxBlocks  = 4
	sgeSize    = 16
	maxSGE     = 6
	maxInline  = maxSGE * sgeSize
	queueAlign = 4096 // of the queues in a QP's memory
)

// The first word of a send.
const (
	hdrCountShift  = 56 // number of SGEs, or of bytes of inline data
	hdrBlocksShift = 52 // blocks, less one
	hdrQPNShift    = 32
	hdrOpShift     = 27
	hdrInline      = 1 << 25
	hdrFence       = 1 << 24
	hdrSolicited   = 1 << 23
	hdrSignaled    = 1 << 22
)

// The operations, as sends and completions name them.
const (
	opWrite       = 0
	opRead        = 1
	opSend        = 2
	opSendImm     = 3
	opReceive     = 4
	opRecvImm     = 5 // a WRITE with immediate data arrived
	opRecvInv     = 6
	opWriteImm    = 9
	opRspSendImm  = 12 // a SEND with immediate data arrived
	opSendInv     = 13
	opLocalInv    = 15
	opReadInv     = 16
	opCompareSwap = 17
	opFetchAdd    = 18
)

// cqe is a completion; its fields are big-endian, except for imm of a receive.
type cqe struct {
	hdr, index, qpn, imm, size uint32
	_                          [3]uint32
}

const (
	cqeOwner   = 0x80 // bit 31 of hdr, as a little-endian load has it
	ofSends    = 0    // the queue that a completion belongs to
	ofReceives = 1
	minCQE     = 64
)

// The doorbell of a CQ, whose record has the same layout.
const (
	cqIndexShift  = 56 // of arms
	cqNumShift    = 32
	cqArm         = 1 << 31
	cqSolicited   = 1 << 30
	cqEventShift  = 28 // events that were read, two bits
	cqConsumed    = 0xffffff
	cqBeforeFirst = 0xff // the index before the first arm
)

func be32(v uint32) uint32 { return bits.ReverseBytes32(v) }

// pow2 returns the least power of two that is not below n, for n from 1 to 1<<31.
func pow2(n uint32) uint32 { return 1 << bits.Len32(n-1) }
