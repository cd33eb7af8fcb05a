package erdma

import (
	"encoding/binary"
	"math/bits"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
)

// op is an operation: its verb, and the layout of its entry.
type op struct {
	verb   uint32
	layout int
}

const (
	sendLayout  = iota // SGEs or data begin at byte 16
	writeLayout        // they begin at byte 32
	readLayout
	atomicLayout
	invLayout
)

var ops = [...]*op{
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

// send is a send that the device has read.
type send struct {
	*fakeverbs.Work
	at     uint32 // the first block, free-running
	blocks uint32
	op     uint8
	bad    bool // malformed, so the device completes it with an error
}

// takeSends reads the entries up to an index.
func (q *QP) takeSends(to uint32) {
	q.ahead = q.ahead[:0]
	for q.sqTold != to {
		if !q.readAhead(to) {
			return
		}
		s, ok := q.readSend(to)
		if !ok {
			return
		}
		q.sqTold += s.blocks
		q.sends.Push(s)
	}
}

// readSend reads the entry at sqTold. Its header has the number of blocks.
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
	c := &q.checking
	*c = sendCheck{q: q, header: binary.LittleEndian.Uint64(b), send: q.newSend()}
	*c.send = send{Work: q.e.k.NewWork(), at: q.sqTold, blocks: blocks(b), op: uint8(c.header >> 27 & 0x1f)}
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

// newSend returns a send, which may have been used before.
func (q *QP) newSend() *send {
	n := len(q.spare) - 1
	if n < 0 {
		return new(send)
	}
	s := q.spare[n]
	q.spare = q.spare[:n]
	return s
}

// blocks returns the number of blocks in the header of a send.
func blocks(b []byte) uint32 { return uint32(b[6]>>4&7) + 1 }

// mostAhead is the number of blocks that are read together, because each read may be a system call.
const mostAhead = 128

// readAhead reads the next posted blocks unless they have been read.
func (q *QP) readAhead(to uint32) (ok bool) {
	if int(q.sqTold-q.aheadAt)*entry < len(q.ahead) {
		return true
	}
	n := min(to-q.sqTold, mostAhead)
	q.ahead, ok = q.readQueue(q.ahead[:0], q.sqTold, n)
	q.aheadAt = q.sqTold
	return ok
}

// readBlocks appends blocks of the send queue, from a free-running index on.
func (q *QP) readBlocks(to []byte, from, n uint32) (all []byte, ok bool) {
	if at := int(from-q.aheadAt) * entry; at < len(q.ahead) {
		have := q.ahead[at:min(len(q.ahead), at+int(n)*entry)]
		to, from, n = append(to, have...), from+uint32(len(have)/entry), n-uint32(len(have)/entry)
	}
	return q.readQueue(to, from, n)
}

func (q *QP) readQueue(to []byte, from, n uint32) (all []byte, ok bool) {
	for n > 0 {
		first := from & (q.sqDepth - 1)
		some := min(n, q.sqDepth-first) // up to the end of the queue
		old := len(to)
		to = append(to, make([]byte, some*entry)...)
		if err := q.e.k.User.Read(q.sq+uint64(first)*entry, to[old:]); err != nil {
			q.e.gone(err, "%v: its send queue is gone", q)
			return nil, false
		}
		from, n = from+some, n-some
	}
	return to, true
}

// takeRecv reads the entry at rqTold, which has at most one SGE. The doorbell is its first word.
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
	r := q.e.k.NewRecv()
	r.Index = uint32(uint16(q.rqTold))
	if s := readSGE(b[16:]); s.Length > 0 {
		r.SGL = append(r.SGLRoom[:0], s)
	}
	q.rqTold++
	q.recvs.Push(r)
	return true
}

func readSGE(b []byte) fakeverbs.SGE {
	return fakeverbs.SGE{Addr: binary.LittleEndian.Uint64(b), Length: binary.LittleEndian.Uint32(b[8:]), LKey: binary.LittleEndian.Uint32(b[12:])}
}

// The bits of a send's header.
const (
	inline    = 1 << 25
	fence     = 1 << 24
	solicited = 1 << 23
	signaled  = 1 << 22
	reserved  = 1<<55 | 1<<26 | 0x3f<<16
)

// sendCheck reads a send and records all of its errors.
type sendCheck struct {
	*send
	q      *QP
	b      []byte // the blocks
	header uint64
}

func (c *sendCheck) note(format string, args ...any) {
	c.bad = true
	c.q.e.note("%v: send at %d: "+format, append([]any{c.q, uint16(c.at)}, args...)...)
}

func (c *sendCheck) u32(at int) uint32 { return binary.LittleEndian.Uint32(c.b[at:]) }
func (c *sendCheck) u64(at int) uint64 { return binary.LittleEndian.Uint64(c.b[at:]) }

func (c *sendCheck) count() int { return int(c.header >> 56) }

func (c *sendCheck) run() {
	c.checkHeader()
	var op *op
	if int(c.op) < len(ops) {
		op = ops[c.op]
	}
	if op == nil {
		c.note("operation %d is none", c.op)
		return
	}
	if c.q.qp.Type == abi.IB_UVERBS_QPT_UD {
		c.note("a datagram needs an address handle, and user space has none")
		return
	}
	c.Opcode = op.verb
	c.flags()
	switch op.layout {
	case sendLayout:
		c.data(16)
	case writeLayout:
		c.RKey, c.RemoteAddr = c.u32(16), uint64(c.u32(20))|uint64(c.u32(24))<<32
		c.data(32)
	case readLayout:
		c.read()
	case atomicLayout:
		c.atomic()
	case invLayout:
		c.wantBlocks(1)
		c.Imm = c.u32(20)
		c.wantCount()
	}
	c.immediate()
}

func (c *sendCheck) checkHeader() {
	if next := uint16(c.header); next != uint16(c.at+c.blocks) {
		c.note("the next one would be at %d, and the header says %d", uint16(c.at+c.blocks), next)
	}
	if num := uint32(c.header >> 32 & 0xfffff); num != c.q.qp.Num {
		c.note("the header says QP %d", num)
	}
	if r := c.header & reserved; r != 0 {
		c.note("reserved bits of the header are set: %#x", r)
	}
	if c.q.qp.Flags&abi.IB_UVERBS_QP_CREATE_SQ_SIG_ALL != 0 && c.header&signaled == 0 {
		c.note("it asks for no completion, though its QP does for all")
	}
}

func (c *sendCheck) flags() {
	for _, f := range []struct {
		header uint64
		verbs  uint32
	}{{inline, abi.IB_SEND_INLINE}, {fence, abi.IB_SEND_FENCE}, {solicited, abi.IB_SEND_SOLICITED}, {signaled, abi.IB_SEND_SIGNALED}} {
		if c.header&f.header != 0 {
			c.Flags |= f.verbs
		}
	}
}

// wantBlocks checks that the entry has as many blocks as it needs. It appends empty blocks for missing ones,
// so that reading can continue.
func (c *sendCheck) wantBlocks(n int) {
	if int(c.blocks) != n {
		c.note("it has %d blocks, and operation %d with a count of %d takes %d", c.blocks, c.op, c.count(), n)
	}
	if len(c.b) < n*entry {
		c.b = append(c.b, make([]byte, n*entry-len(c.b))...)
	}
}

// wantCount checks the count of an operation without a list of SGEs.
func (c *sendCheck) wantCount() {
	if c.count() != 0 || c.header&inline != 0 {
		c.note("operation %d has no list of SGEs and no inline data, and the header counts %d", c.op, c.count())
	}
}

// data reads SGEs or inline data at byte start.
func (c *sendCheck) data(start int) {
	length, n := c.u32(12), c.count()
	if c.header&inline != 0 {
		if n > maxInline {
			c.note("%d bytes inline, of %d", n, maxInline)
			n = maxInline
		}
		c.wantBlocks((start + n + entry - 1) / entry)
		c.SetInline(c.b[start:][:n])
		if length != uint32(n) {
			c.note("%d bytes inline, and the length is %d", n, length)
		}
		return
	}
	if most := c.q.qp.Cap.MaxSendSge; n > int(most) {
		c.note("%d SGEs, of %d", n, most)
		n = int(most)
	}
	c.wantBlocks((start + n*16 + entry - 1) / entry)
	var sum uint32
	for i := range n {
		at := start + 16*i
		c.SGL = append(c.SGL, readSGE(c.b[at:]))
		sum += c.SGL[i].Length
		if at%entry == 0 && i == n-1 && c.u32(at+28) != c.q.qp.Num {
			c.note("behind the last SGE stands %d, not the number of the QP", c.u32(at+28))
		}
	}
	if length != sum {
		c.note("the SGEs have %d bytes, and the length is %d", sum, length)
	}
}

func (c *sendCheck) read() {
	c.wantBlocks(2)
	c.wantCount()
	c.SGL = append(c.SGL, fakeverbs.SGE{Addr: uint64(c.u32(20)) | uint64(c.u32(24))<<32, Length: c.u32(12), LKey: c.u32(16)})
	remote := readSGE(c.b[32:])
	c.RemoteAddr, c.RKey = remote.Addr, remote.LKey
	if remote.Length != c.SGL[0].Length {
		c.note("it reads %d bytes into %d", remote.Length, c.SGL[0].Length)
	}
}

// atomic reads the operands of an atomic. The addend is at the place of the value to store.
func (c *sendCheck) atomic() {
	c.wantBlocks(2)
	c.wantCount()
	if c.q.e.options.NoAtomics {
		c.note("the device has no atomics")
	}
	c.RemoteAddr, c.RKey = c.u64(32), c.u32(44)
	c.SGL = append(c.SGL, readSGE(c.b[48:]))
	if c.Opcode == abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP {
		c.Swap, c.Compare = c.u64(16), c.u64(24)
	} else {
		c.Compare = c.u64(16)
	}
	if c.SGL[0].Length != 8 {
		c.note("the result of an atomic has 8 bytes, not %d", c.SGL[0].Length)
	}
}

// immediate reads the word after the header, which is a number in network order or a key.
func (c *sendCheck) immediate() {
	switch c.Opcode {
	case abi.IB_UVERBS_WR_SEND_WITH_IMM, abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM,
		abi.IB_UVERBS_WR_SEND_WITH_INV, abi.IB_UVERBS_WR_RDMA_READ_WITH_INV:
		c.Imm = c.u32(8)
	}
}

// imm converts immediate data to the format of completions, which is the number itself.
func imm(wire uint32) uint32 { return bits.ReverseBytes32(wire) }
