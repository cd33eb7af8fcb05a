package mlx5

import (
	"fmt"
	"syscall"

	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

// built describes the requests that were written since StartSends. A request that begins at number
// limit goes through add, which finds out why: no room, no plain requests now, or an error.
type built struct {
	first, number, limit uint32
	segs                 uint32 // of the last request
	err                  error
	wr                   verbs.SendWR
	sge                  [1]verbs.SGE
}

// StartSends implements driver.SendBuilder.
func (q *qp) StartSends(refused error) {
	b := &q.built
	b.number = q.sq.produced.Load()
	b.first, b.limit, b.err = b.number, b.number, refused
	switch {
	case refused != nil:
	case q.state < verbs.QPStateRTS:
		b.err = q.notYet()
	default:
		q.setLimit()
	}
}

// notYet returns the error of sends before RTS.
func (q *qp) notYet() error {
	return fmt.Errorf("%w: the QP is in %v; sends can be posted from RTS on", syscall.EINVAL, q.state)
}

// setLimit sets the limit as far as the queue has room for plain requests.
func (q *qp) setLimit() {
	s, b := &q.sq, &q.built
	if b.limit = s.completed.Load() + s.depth; q.smallFence || s.maxSGE == 0 {
		b.limit = b.number
	}
}

// BuildTarget implements driver.SendBuilder.
func (q *qp) BuildTarget(verbs.AH, uint32, uint64, uint16) {
	if b := &q.built; b.err == nil {
		b.err, b.limit = driver.ErrNoTarget, b.number
	}
}

// RingSends implements driver.SendBuilder.
func (q *qp) RingSends() (int, error) {
	s, b := &q.sq, &q.built
	n := b.number - b.first
	if n > 0 {
		mmap.StoreRelease(&s.produced, b.number)
		q.record.set(sendWord, s.pi&indexMask)
		q.register.ring(q, n == 1, b.segs)
	}
	err := b.err
	// Nothing may be added until StartSends.
	b.first, b.limit, b.err = b.number, b.number, errNotStarted
	return int(n), err
}

var errNotStarted = fmt.Errorf("%w: no list of sends was started", syscall.EINVAL)

// add writes the request in q.built.wr.
func (q *qp) add() {
	q.addRequest(&q.built.wr)
	q.built.wr = verbs.SendWR{}
}

// addRequest writes a request, as PostSend does.
func (q *qp) addRequest(wr *verbs.SendWR) {
	s, b := &q.sq, &q.built
	if b.err == nil {
		segs, err := q.send(b.number, int32(s.completed.Load()+s.depth-b.number) > 0, wr)
		if b.err, b.limit = err, b.number; err == nil {
			b.segs = segs
			b.number++
			q.setLimit()
		}
	}
}

// BuildSend implements driver.SendBuilder.
func (q *qp) BuildSend(id uint64, flags verbs.SendFlags, e verbs.SGE) {
	s, number := &q.sq, q.built.number
	place := s.pi & (s.blocks - 1)
	if flags&^plainFlags != 0 || number == q.built.limit || q.plain[verbs.OpSend].data == 0 || e.Length-1 >= maxDataLength {
		q.built.sge[0] = e
		q.built.wr = verbs.SendWR{WRID: id, Opcode: verbs.OpSend, Flags: flags, SGL: q.built.sge[:]}
		q.add()
		return
	}
	const used = 2
	s.sent[place] = sent{id, number, verbs.WCSend}
	q.built.number, q.built.segs = number+1, used
	b := s.ring.At(place)
	b[0] = segment{words((s.pi&indexMask)<<8|opSend, q.num<<8|used), words(q.controls[flags/2&3], 0)}
	b[1] = segment{words(e.Length, e.LKey), be64(e.Addr)}
	s.pi++
}

// BuildSendInline implements driver.SendBuilder.
func (q *qp) BuildSendInline(id uint64, flags verbs.SendFlags, data []byte) {
	const start = 1*segmentSize + inlineHeader
	s, number := &q.sq, q.built.number
	place := s.pi & (s.blocks - 1)
	from := int(place)*blockSize + start
	end := from + len(data)
	if flags&^plainFlags != 0 || number == q.built.limit || uint(len(data)-1) >= uint(q.plain[verbs.OpSend].maxInline) || end > len(s.memory) {
		q.built.wr = verbs.SendWR{WRID: id, Opcode: verbs.OpSend, Flags: flags, Inline: data}
		q.add()
		return
	}
	used := uint32(start+len(data)+segmentSize-1) / segmentSize
	s.sent[place] = sent{id, number, verbs.WCSend}
	q.built.number, q.built.segs = number+1, used
	b := s.ring.At(place)
	b[0] = segment{words((s.pi&indexMask)<<8|opSend, q.num<<8|used), words(q.controls[flags/2&3], 0)}
	b[1][0] = words(uint32(len(data))|inlineBit, 0)
	s.pi += blocksOf(used)
	if to := s.memory[from:end]; len(data) <= 64 && len(data) >= 32 { // as in post
		copy32(to, data)
		copy32(to[len(data)-32:], data[len(data)-32:])
	} else {
		copy(to, data)
	}
}

// BuildWrite implements driver.SendBuilder.
func (q *qp) BuildWrite(id uint64, flags verbs.SendFlags, e verbs.SGE, addr uint64, rkey uint32) {
	s, number := &q.sq, q.built.number
	place := s.pi & (s.blocks - 1)
	if flags&^plainFlags != 0 || number == q.built.limit || q.plain[verbs.OpRDMAWrite].data == 0 || e.Length-1 >= maxDataLength {
		q.built.sge[0] = e
		q.built.wr = verbs.SendWR{WRID: id, Opcode: verbs.OpRDMAWrite, Flags: flags, SGL: q.built.sge[:], RemoteAddr: addr, RKey: rkey}
		q.add()
		return
	}
	const used = 3
	s.sent[place] = sent{id, number, verbs.WCRDMAWrite}
	q.built.number, q.built.segs = number+1, used
	b := s.ring.At(place)
	b[0] = segment{words((s.pi&indexMask)<<8|opWrite, q.num<<8|used), words(q.controls[flags/2&3], 0)}
	b[1] = segment{be64(addr), words(rkey, 0)}
	b[2] = segment{words(e.Length, e.LKey), be64(e.Addr)}
	s.pi++
}

// BuildWriteInline implements driver.SendBuilder.
func (q *qp) BuildWriteInline(id uint64, flags verbs.SendFlags, data []byte, addr uint64, rkey uint32) {
	const start = 2*segmentSize + inlineHeader
	s, number := &q.sq, q.built.number
	place := s.pi & (s.blocks - 1)
	from := int(place)*blockSize + start
	end := from + len(data)
	if flags&^plainFlags != 0 || number == q.built.limit || uint(len(data)-1) >= uint(q.plain[verbs.OpRDMAWrite].maxInline) || end > len(s.memory) {
		q.built.wr = verbs.SendWR{WRID: id, Opcode: verbs.OpRDMAWrite, Flags: flags, Inline: data, RemoteAddr: addr, RKey: rkey}
		q.add()
		return
	}
	used := uint32(start+len(data)+segmentSize-1) / segmentSize
	s.sent[place] = sent{id, number, verbs.WCRDMAWrite}
	q.built.number, q.built.segs = number+1, used
	b := s.ring.At(place)
	b[0] = segment{words((s.pi&indexMask)<<8|opWrite, q.num<<8|used), words(q.controls[flags/2&3], 0)}
	b[1] = segment{be64(addr), words(rkey, 0)}
	b[2][0] = words(uint32(len(data))|inlineBit, 0)
	s.pi += blocksOf(used)
	if to := s.memory[from:end]; len(data) <= 64 && len(data) >= 32 { // as in post
		copy32(to, data)
		copy32(to[len(data)-32:], data[len(data)-32:])
	} else {
		copy(to, data)
	}
}
