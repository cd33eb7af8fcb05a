package erdma

import (
	"fmt"

	"github.com/goverbs/goverbs/internal/fakeverbs"
)

// Store is a store to a doorbell. All of the context's QPs and CQs share the pages.
func (e *model) Store(_ *fakeverbs.Kernel, key int64, offset, size int, v uint64) {
	c := e.k.ShowCrossing(fakeverbs.Crossing{Kind: fakeverbs.Doorbell, Page: int(key / int64(fakeverbs.PageSize)), Offset: offset, Size: size, Value: v})
	if c.Drop {
		return
	}
	page := c.Page
	offset, size, v = c.Offset, c.Size, c.Value
	if size != 8 {
		e.note("a store of %d bytes at %#x of a page of doorbells, which take 8", size, offset)
		return
	}
	if page == cdb {
		e.storeCQ(offset, v)
		return
	}
	num := uint32(v >> 32)
	qp := e.k.Device.QP(num)
	switch {
	case qp != nil && qp.Kernel() == e.k && QPOf(qp) != nil:
	case e.options.Late: // it was there
		return
	default:
		e.note("a doorbell for QP %d, which is not there: %#016x at %#x", num, v, offset)
		return
	}
	if page == sdb {
		QPOf(qp).sendDoorbell(offset, v)
	} else {
		QPOf(qp).recvDoorbell(offset, v)
	}
}

func (e *model) storeCQ(offset int, v uint64) {
	num := uint32(v >> 32 & 0xffffff)
	q := cq(e.k.Device, num)
	switch {
	case q != nil && q.e == e:
	case e.options.Late:
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
func (e *model) wantStored(what fmt.Stringer, object uint32, record, v uint64) bool {
	got, ok := e.load(what, object, record)
	if ok && got != v && !e.options.Late {
		e.note("%s: the doorbell says %#016x, and its record %#016x", what, v, got)
	}
	return ok
}

func (q *QP) sendDoorbell(offset int, v uint64) {
	e, o := q.e, &q.e.options
	want := int(q.qp.Num%32) * 128
	if o.SDBType == sdbEntry {
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
	q.qp.Kernel().Ring(q.qp)
}

// recvDoorbell is of one receive. The half-word behind the index is nobody's: rdma-core
// leaves it as it was.
func (q *QP) recvDoorbell(offset int, v uint64) {
	e := q.e
	if want := int(q.qp.Num%128) * 32; offset != want {
		e.note("%v: the doorbell for receives is at %#x, not %#x", q, want, offset)
	}
	if e.wantStored(q, q.qp.Num, q.record+8, v) {
		q.takeRecvs(v)
	}
}

// takeRecvs takes the receives up to where a doorbell or its record says.
func (q *QP) takeRecvs(v uint64) {
	e := q.e
	n := uint32(uint16(uint32(v) - q.rqTold))
	switch {
	case n != 1 && !e.options.Late:
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
