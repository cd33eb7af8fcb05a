package fakeverbs

import "fmt"

// store is a store to a doorbell. All of the context's QPs and CQs share the pages.
func (e *erdma) store(_ *Kernel, key int64, offset, size int, v uint64) {
	c := e.k.cross(Crossing{Kind: Doorbell, Page: int(key / int64(pageSize)), Offset: offset, Size: size, Value: v})
	if c.Drop {
		return
	}
	page := c.Page
	offset, size, v = c.Offset, c.Size, c.Value
	if size != 8 {
		e.note("a store of %d bytes at %#x of a page of doorbells, which take 8", size, offset)
		return
	}
	if page == erdmaCDB {
		e.storeCQ(offset, v)
		return
	}
	num := uint32(v >> 32)
	qp := e.k.device.QP(num)
	switch {
	case qp != nil && qp.k == e.k && qp.ERDMA != nil:
	case e.k.ERDMA.Late: // it was there
		return
	default:
		e.note("a doorbell for QP %d, which is not there: %#016x at %#x", num, v, offset)
		return
	}
	if page == erdmaSDB {
		qp.ERDMA.sendDoorbell(offset, v)
	} else {
		qp.ERDMA.recvDoorbell(offset, v)
	}
}

func (e *erdma) storeCQ(offset int, v uint64) {
	num := uint32(v >> 32 & 0xffffff)
	q := e.k.device.erdmaCQ(num)
	switch {
	case q != nil && q.e == e:
	case e.k.ERDMA.Late:
		return
	default:
		e.note("a doorbell for CQ %d, which is not there: %#016x at %#x", num, v, offset)
		return
	}
	if want := int(num%512) * 8; offset != want {
		e.note("%v: the doorbell is at %#x, not %#x", q, want, offset)
	}
	if e.wantStored(q, q.Num, q.record, v) {
		q.arm(v)
	}
}

// wantStored holds the record to be written before the doorbell. It reports whether there is
// a record.
func (e *erdma) wantStored(what fmt.Stringer, object uint32, record, v uint64) bool {
	got, ok := e.load(what, object, record)
	if ok && got != v && !e.k.ERDMA.Late {
		e.note("%s: the doorbell says %#016x, and its record %#016x", what, v, got)
	}
	return ok
}

func (q *ERDMAQP) sendDoorbell(offset int, v uint64) {
	e, o := q.e, &q.e.k.ERDMA
	want := int(q.qp.Num%32) * 128
	if o.SDBType == erdmaSDBEntry {
		want = int(o.SDBOffset) * 256
	}
	if offset != want {
		e.note("%v: the doorbell for sends is at %#x, not %#x", q, want, offset)
	}
	if v>>16&0xffff != 0 {
		e.note("%v: reserved bits of the doorbell for sends are set: %#016x", q, v)
	}
	if !e.wantStored(q, q.qp.Num, q.record, v) {
		return
	}
	n := uint32(uint16(uint32(v) - q.sqTold))
	switch {
	case n == 0:
		e.note("%v: a doorbell for sends without a new one", q)
		return
	case q.sqTold+n-q.oldest() > q.sqDepth:
		e.note("%v: %d blocks of sends are not completed, of a queue of %d", q, q.sqTold+n-q.oldest(), q.sqDepth)
		return
	}
	q.takeSends(q.sqTold + n)
	q.qp.k.ring(q.qp)
}

// recvDoorbell is of one receive. The half-word behind the index is nobody's: rdma-core
// leaves it as it was.
func (q *ERDMAQP) recvDoorbell(offset int, v uint64) {
	e := q.e
	if want := int(q.qp.Num%128) * 32; offset != want {
		e.note("%v: the doorbell for receives is at %#x, not %#x", q, want, offset)
	}
	if e.wantStored(q, q.qp.Num, q.record+8, v) {
		q.takeRecvs(v)
	}
}

// takeRecvs takes the receives up to where a doorbell or its record says.
func (q *ERDMAQP) takeRecvs(v uint64) {
	e := q.e
	n := uint32(uint16(uint32(v) - q.rqTold))
	switch {
	case n != 1 && !e.k.ERDMA.Late:
		e.note("%v: a doorbell for %d receives, which takes one", q, n)
		return
	case n == 0: // the record told before
		return
	case uint32(len(q.recvs))+n > q.rqDepth:
		e.note("%v: %d receives are not completed, of a queue of %d", q, len(q.recvs)+int(n), q.rqDepth)
		return
	}
	for ok := true; ok && n > 0; n-- {
		doorbell := v
		if n > 1 {
			doorbell = uint64(q.qp.Num)<<32 | uint64(uint16(q.rqTold+1))
		}
		ok = q.takeRecv(doorbell)
	}
}
