package efa

import "math/bits"

// All entries are little-endian, as both platforms are.

// wqe is a send: 64 bytes, or 128 on QPs with long inline data. The first half is the metadata,
//
//	0  request's id, its low 16 bits     12  number of the address handle
//	2  operation and flags               16  Q_Key
//	3  phase and flags                   26  request's id, its high 48 bits
//	4  peer's QP
//	6  number of SGEs, or of bytes
//	8  immediate data
//
// and the second half has SGEs or inline data, of reads and writes behind the remote memory.
type wqe [16]uint64

const (
	wqeSize     = 64
	longWQE     = 128
	shortInline = 32 // bytes of inline data in wqeSize
	longInline  = 80 // and in longWQE
	dataWord    = 4  // of a wqe
	dataOffset  = 8 * dataWord
	sgeSize     = 16

	wqeImm      = 1 << 20
	wqeInline   = 1 << 21
	wqeMeta     = 1 << 23
	wqePhase    = 1 << 24
	wqeFirst    = 1 << 26
	wqeLast     = 1 << 27
	wqeReport   = 1 << 28 // a completion is requested
	wqeAlways   = wqeMeta | wqeFirst | wqeLast | wqeReport
	wqeOpShift  = 16
	wqeQPNShift = 32
	wqeLenShift = 48
	wqeAHShift  = 32 // in the second word
	idLow       = 0xffff
)

// The operations, as sends and completions name them.
const (
	opSend  = 0
	opRead  = 1
	opWrite = 2
)

// rqe is one SGE of a receive.
type rqe struct {
	addr   uint64
	id     uint16 // of the receive, in its first SGE only
	length uint16
	key    uint32
}

const (
	rqeFirst     = 1 << 30
	rqeLast      = 1 << 31
	mostLength   = 1<<16 - 1
	keyMask      = 1<<24 - 1
	mostPosted   = 1 << 15 // entries of a queue, which 16 bits count
	maxQPN       = 1<<16 - 1
	unknownAH    = 0xffff
	mostSubCQs   = 64 // far more than any device has
	mostCQE      = 1 << 24
	cqeSize      = 32
	cqePhase     = 1 << 24
	cqeImm       = 1 << 27
	cqeStranger  = 1 << 31 // unsolicited: no receive was consumed
	cqeFlagShift = 24

	cqeQueueShift = 25
	ofSends       = 1 // the queue that a completion belongs to
	ofReceives    = 2
	cqeOpShift    = 28
	cqeOp         = 7 << cqeOpShift
	cqeKind       = cqeStranger | 3<<cqeQueueShift | 0xff<<16 // the queue; no other bit in those of plain successes
)

// The doorbell of a CQ.
const (
	cqConsumed = 0xffff // completions taken off all of its rings
	cqSNShift  = 29     // events read, two bits
	cqArm      = 1 << 31
)

// pow2 returns the least power of two that is not below n, for n from 1 to 1<<31.
func pow2(n uint32) uint32 { return 1 << bits.Len32(n-1) }
