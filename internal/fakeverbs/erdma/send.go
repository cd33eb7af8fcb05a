package erdma

import (
	"encoding/binary"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
)

// op is an operation: its verb, and how its entry is laid out.
type op struct {
	verb   uint32
	layout int
}

const (
	sendLayout  = iota // SGEs or data from byte 16 on
	writeLayout        // from byte 32 on
	readLayout
	atomicLayout
	invLayout
)

var ops = map[uint8]op{
	0:  {abi.IB_UVERBS_WR_RDMA_WRITE, writeLayout},
	1:  {abi.IB_UVERBS_WR_RDMA_READ, readLayout},
	2:  {abi.IB_UVERBS_WR_SEND, sendLayout},
	3:  {abi.IB_UVERBS_WR_SEND_WITH_IMM, sendLayout},
	9:  {abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM, writeLayout},
	13: {abi.IB_UVERBS_WR_SEND_WITH_INV, sendLayout},
	15: {abi.IB_UVERBS_WR_LOCAL_INV, invLayout},
	16: {abi.IB_UVERBS_WR_RDMA_READ_WITH_INV, readLayout},
	17: {abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP, atomicLayout},
	18: {abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD, atomicLayout},
}

// send is a send as the device found it.
type send struct {
	*fakeverbs.Work
	at     uint32 // the first block, free-running
	blocks uint32
	op     uint8
	work   fakeverbs.Work // what Work is
	bad    bool           // malformed: the device answers with an error
}

// takeSends reads the entries up to where the doorbell says.
func (q *QP) takeSends(to uint32) {
	for q.sqTold != to {
		s, ok := q.readSend(to)
		if !ok {
			return
		}
		q.sqTold += s.blocks
		q.sends = append(q.sends, s)
	}
}

// readSend reads the entry at sqTold. Its header says how many blocks it has.
func (q *QP) readSend(to uint32) (s *send, ok bool) {
	left := to - q.sqTold
	b, ok := q.readBlocks(q.blocks[:0], q.sqTold, 1)
	if !ok {
		return nil, false
	}
	if n := min(blocks(b), left); n > 1 {
		if b, ok = q.readBlocks(b, q.sqTold+1, n-1); !ok {
			return nil, false
		}
	}
	q.e.k.CrossEntry(fakeverbs.EntrySQE, q.qp.Num, b)
	c := &sendCheck{q: q, header: binary.LittleEndian.Uint64(b)}
	c.send = &send{at: q.sqTold, blocks: blocks(b), op: uint8(c.header >> 27 & 0x1f)}
	c.Work = &c.work
	c.Opcode, c.Index, c.Code, c.SGL = fakeverbs.NoOpcode, uint32(uint16(q.sqTold)), c.op, c.SGLRoom[:0]
	if c.blocks > 4 || c.blocks > left {
		c.note("it has %d blocks, and the doorbell leaves %d", c.blocks, left)
		c.blocks = left
		return c.send, true
	}
	if have := uint32(len(b) / entry); have < c.blocks {
		if b, ok = q.readBlocks(b, q.sqTold+have, c.blocks-have); !ok {
			return nil, false
		}
	}
	q.blocks = b
	c.b = b[:c.blocks*entry]
	c.run()
	return c.send, true
}

// blocks is how many blocks a send has, by its header.
func blocks(b []byte) uint32 { return uint32(b[6]>>4&7) + 1 }

// readBlocks appends blocks of the send queue, from a free-running index on.
func (q *QP) readBlocks(to []byte, from, n uint32) (all []byte, ok bool) {
	for i := range n {
		to = append(to, make([]byte, entry)...)
		if err := q.e.k.User.Read(q.sq+uint64((from+i)&(q.sqDepth-1))*entry, to[len(to)-entry:]); err != nil {
			q.e.gone(err, "%v: its send queue is gone", q)
			return nil, false
		}
	}
	return to, true
}

// takeRecv reads the entry at rqTold, one SGE or none. The doorbell is its first word.
func (q *QP) takeRecv(doorbell uint64) (ok bool) {
	b := &q.entry
	if err := q.e.k.User.Read(q.rq+uint64(q.rqTold&(q.rqDepth-1))*entry, b[:]); err != nil {
		q.e.gone(err, "%v: its receive queue is gone", q)
		return false
	}
	q.e.k.CrossEntry(fakeverbs.EntryRQE, q.qp.Num, b[:])
	index, num := binary.LittleEndian.Uint16(b[:]), binary.LittleEndian.Uint32(b[4:])
	want := uint16(q.rqTold + 1)
	if index != want {
		q.e.note("%v: receive %d has index %d", q, want, index)
	}
	if num != q.qp.Num {
		q.e.note("%v: receive %d says that it is of QP %d", q, want, num)
	}
	if first := binary.LittleEndian.Uint64(b[:]); first != doorbell && !q.e.options.Late {
		q.e.note("%v: receive %d begins with %#016x, and the doorbell was %#016x", q, want, first, doorbell)
	}
	r := &fakeverbs.Recv{Index: uint32(uint16(q.rqTold))}
	if s := readSGE(b[16:]); s.Length > 0 {
		r.SGL = append(r.SGLRoom[:0], s)
	}
	q.rqTold++
	q.recvs = append(q.recvs, r)
	return true
}

func readSGE(b []byte) fakeverbs.SGE {
	return fakeverbs.SGE{Addr: binary.LittleEndian.Uint64(b), Length: binary.LittleEndian.Uint32(b[8:]), LKey: binary.LittleEndian.Uint32(b[12:])}
}
