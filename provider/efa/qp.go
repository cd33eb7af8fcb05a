package efa

import (
	"fmt"
	"math/bits"
	"sync/atomic"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

// qp holds a QP's two queues, which the kernel has allocated.
type qp struct {
	ctx            *efaContext
	pd             *pd
	num            uint32
	typ            verbs.QPType
	sendCQ, recvCQ *cq
	sq             sendQueue
	rq             recvQueue
	signaled       verbs.SendFlags // SendSignaled if all sends are so
	forms          [8]form         // of sends, by opcode; none has a higher one
	heads          [8]uint64       // of those that PostSend posts by itself, by opcode
	unsolicited    bool            // writes with immediate data consume no receives
	state          verbs.QPState   // written with both queues held
}

// CreateQP chooses the sizes of the queues as rdma-core does, because the kernel takes them as they
// are.
func (c *efaContext) CreateQP(r *driver.CreateQP) (driver.QP, error) {
	if r.Type != verbs.QPTypeSRD && r.Type != verbs.QPTypeUD || r.SRQ != nil {
		return nil, fmt.Errorf("%w: EFA supports only SRD and UD QPs with their own receive queues", verbs.ErrNotSupported)
	}
	q := &qp{ctx: c, pd: r.PD.(*pd), typ: r.Type, sendCQ: r.SendCQ.(*cq), recvCQ: r.RecvCQ.(*cq)}
	if r.SignalAll {
		q.signaled = verbs.SendSignaled
	}
	for op := range q.forms {
		q.forms[op] = c.form(r.Type, verbs.Opcode(op))
	}
	var req abi.EfaIbvCreateQp
	if r.Flags&verbs.QPUnsolicitedWriteRecv != 0 {
		if r.Type != verbs.QPTypeSRD || !c.has(abi.EFA_QUERY_DEVICE_CAPS_UNSOLICITED_WRITE_RECV) {
			return nil, fmt.Errorf("%w: writes that need no receive (QPUnsolicitedWriteRecv) on a %v QP of this device", verbs.ErrNotSupported, r.Type)
		}
		r.Flags &^= verbs.QPUnsolicitedWriteRecv
		req.Flags |= abi.EFA_CREATE_QP_WITH_UNSOLICITED_WRITE_RECV
		q.unsolicited = true
	}
	if c.wideIDs() {
		req.Flags |= abi.EFA_CREATE_QP_WITH_SQ_64_BIT_REQ_ID
	}
	if err := q.plan(&r.Cap); err != nil {
		return nil, err
	}
	for op, f := range q.forms {
		if !f.remote && !f.imm && q.sq.size == wqeSize {
			q.heads[op] = f.head
		}
	}
	req.SqRingSize, req.RqRingSize = q.sq.entries*q.sq.size, q.rq.entries*sgeSize
	cap := r.Cap
	var resp abi.EfaIbvCreateQpResp
	if err := r.Do(driver.UHW{In: abi.Bytes(&req), Out: abi.Bytes(&resp)}); err != nil {
		return nil, err
	}
	r.Cap = cap
	if q.num = r.Num; q.num > maxQPN {
		return nil, fmt.Errorf("the kernel returned invalid QP number %#x", q.num)
	}
	if err := q.adopt(r, &resp); err != nil {
		return nil, err
	}
	q.restart()
	return q, c.qps.Set(q.num, q)
}

// wideIDs reports whether sends have ids of 64 bits.
func (c *efaContext) wideIDs() bool { return c.has(abi.EFA_QUERY_DEVICE_CAPS_SQ_64_BIT_REQ_ID) }

// plan chooses the sizes of the queues, and stores them in want.
func (q *qp) plan(want *verbs.QPCap) error {
	l, a := &q.ctx.limits, &q.ctx.attr
	want.MaxSendWR, want.MaxRecvWR = max(want.MaxSendWR, 1), max(want.MaxRecvWR, 1)
	want.MaxSendSGE, want.MaxRecvSGE = max(want.MaxSendSGE, 1), max(want.MaxRecvSGE, 1)
	if inline := uint32(l.InlineBufSizeEx); want.MaxInline > inline {
		return fmt.Errorf("%w: MaxInline %d, but this device takes at most %d", verbs.ErrNotSupported, want.MaxInline, inline)
	}
	most := uint32(shortInline)
	if q.sq.size = wqeSize; want.MaxInline > shortInline {
		q.sq.size, most = longWQE, longInline
	}
	want.MaxInline = min(uint32(l.InlineBufSizeEx), most)
	q.sq.maxInline = int(want.MaxInline)
	room := min(l.MaxLlqSize/q.sq.size, mostPosted)
	if want.MaxSendWR > room || uint32(l.MinSqWr) > room || pow2(max(want.MaxSendWR, uint32(l.MinSqWr))) > room {
		return fmt.Errorf("%w: %d sends of %d bytes, but a send queue of this device has %d bytes", verbs.ErrNotSupported,
			max(want.MaxSendWR, uint32(l.MinSqWr)), q.sq.size, l.MaxLlqSize)
	}
	q.sq.entries = pow2(max(want.MaxSendWR, uint32(l.MinSqWr)))
	if most := min(a.MaxRqWr, mostPosted); want.MaxRecvSGE > most || want.MaxRecvWR > most/want.MaxRecvSGE {
		return fmt.Errorf("%w: %d receives of %d SGEs, but a receive queue of this device has %d SGEs", verbs.ErrNotSupported, want.MaxRecvWR, want.MaxRecvSGE, most)
	}
	q.rq.entries = pow2(want.MaxRecvWR * want.MaxRecvSGE)
	want.MaxSendWR, want.MaxRecvWR = q.sq.entries, q.rq.entries/want.MaxRecvSGE
	q.sq.depth, q.rq.depth = want.MaxSendWR, want.MaxRecvWR
	q.sq.maxSGE, q.rq.maxSGE = int(want.MaxSendSGE), int(want.MaxRecvSGE)
	q.sq.batch = mostPosted
	if l.MaxTxBatch > 0 {
		q.sq.batch = uint32(l.MaxTxBatch) * wqeSize / q.sq.size
	}
	if l.MinSqWr > 0 {
		q.sq.batch = min(q.sq.batch, max(q.sq.entries-1, 1))
	}
	if q.sq.batch == 0 {
		return fmt.Errorf("%w: MaxInline %d, because this device takes only %d bytes of sends at once", verbs.ErrNotSupported, want.MaxInline, wqeSize)
	}
	return nil
}

// adopt checks the kernel's answer and maps the queues.
func (q *qp) adopt(r *driver.CreateQP, resp *abi.EfaIbvCreateQpResp) (err error) {
	page := r.PageSize()
	if uint64(resp.LlqDescOffset) >= uint64(page) || resp.LlqDescOffset%wqeSize != 0 {
		return fmt.Errorf("the kernel returned invalid offset %#x of a send queue", resp.LlqDescOffset)
	}
	if size := q.rq.entries * sgeSize; resp.RqMmapSize < uint64(size) || resp.RqMmapSize > roundUp(uint64(size), page) {
		return fmt.Errorf("the kernel returned a receive queue of %d bytes in place of %d", resp.RqMmapSize, size)
	}
	length := roundUp(uint64(resp.LlqDescOffset)+uint64(q.sq.entries*q.sq.size), page)
	if q.sq.wqes, err = r.MapPage(int64(resp.LlqDescMmapKey), int(length)); err != nil {
		return err
	}
	q.sq.start = int(resp.LlqDescOffset)
	if q.sq.doorbell, err = mapDoorbell(r, resp.SqDbMmapKey, resp.SqDbOffset); err != nil {
		return err
	}
	if q.rq.doorbell, err = mapDoorbell(r, resp.RqDbMmapKey, resp.RqDbOffset); err != nil {
		return err
	}
	ring, err := r.Map(int64(resp.RqMmapKey), int(resp.RqMmapSize), mmap.ProtWrite)
	if err != nil {
		return err
	}
	q.rq.ring, err = mmap.NewArray[rqe](ring, 0, q.rq.entries)
	return err
}

// roundUp rounds up to whole pages.
func roundUp(n uint64, page int) uint64 { return (n + uint64(page) - 1) / uint64(page) * uint64(page) }

// doorbell is a register of 4 bytes.
type doorbell struct {
	page   *mmap.Page
	offset int
}

func mapDoorbell(r driver.Memory, key uint64, offset uint32) (d doorbell, err error) {
	if d.page, err = r.MapPage(int64(key), r.PageSize()); err != nil {
		return d, err
	}
	if d.offset = int(offset); !d.page.Holds(uint64(offset), 4) {
		return d, fmt.Errorf("the kernel returned invalid offset %#x of a doorbell", offset)
	}
	return d, nil
}

// Modify implements driver.QPModifier. A QP in RESET starts again with empty queues, in the first lap.
func (q *qp) Modify(r *driver.ModifyQP) error {
	if err := r.Do(driver.UHW{}); err != nil {
		return err
	}
	if q.state = r.To; r.To == verbs.QPStateReset && r.Mask&verbs.QPAttrState != 0 {
		q.restart()
	}
	return nil
}

// restart empties both queues. Late completions of their earlier work requests match none.
func (q *qp) restart() {
	generation := q.ctx.nextGeneration(q.num)
	q.sq.pc, q.rq.pc = 0, 0
	q.sq.work.Store(newPool(q.sq.depth, q.sq.entries, generation, q.ctx.wideIDs()))
	q.rq.work.Store(newPool(q.rq.depth, q.rq.entries, generation, false))
}

// Destroy implements driver.Destroyer. The device flushes the queues while it destroys the QP, and
// package uverbs takes these completions off the CQs before do returns.
func (q *qp) Destroy(do func() error) error {
	err := do()
	if err == nil {
		q.ctx.qps.Delete(q.num, q)
	}
	return err
}

// Survives implements driver.Survivor.
func (q *qp) Survives(wc *verbs.WC) bool {
	return wc.VendorErr != statusFlushed && wc.VendorErr != statusQPFault
}

// QueryMask implements driver.QueryMasker.
func (q *qp) QueryMask() verbs.QPAttrMask {
	return verbs.QPAttrState | verbs.QPAttrPKeyIndex | verbs.QPAttrPort | verbs.QPAttrQKey | verbs.QPAttrSQPSN | verbs.QPAttrCap | verbs.QPAttrRNRRetry
}

// DataOrder implements driver.DataOrderer.
func (q *qp) DataOrder(op verbs.Opcode) verbs.DataOrder {
	if op == verbs.OpRDMAWrite && q.typ == verbs.QPTypeSRD && q.ctx.has(abi.EFA_QUERY_DEVICE_CAPS_DATA_POLLING_128) {
		return verbs.DataOrderAligned128
	}
	return 0
}

// pool has the outstanding work requests of a queue. They complete in any order, so each has a place
// of its own, and its id names the place. The side that posts and the side that polls hold different
// locks. Each place belongs to the former while it is free, and else to the latter.
type pool struct {
	places     []place // a power of two, of which some may never be used
	taken      uint32  // free-running; only the posting side uses it
	given      atomic.Uint32
	generation uint64 // in its place in an id
}

// place is a work request, if outstanding is set. free is not a part of it: the places also hold a ring of the
// numbers of free places.
type place struct {
	id          uint64
	outstanding atomic.Uint32
	free        uint32
}

// newPool returns a pool of n places for a queue of a number of entries. The id of a work request has
// 16 bits, or 64 if it is wide.
func newPool(n, entries, generation uint32, wide bool) *pool {
	shift, mask := bits.Len32(entries-1), uint64(idLow)
	if wide {
		shift, mask = 32, 1<<64-1
	}
	p := &pool{places: make([]place, pow2(n)), generation: uint64(generation) << shift & mask}
	for i := range n {
		p.places[i].free = i
	}
	p.given.Store(n)
	return p
}

// room returns the number of free places.
func (p *pool) room() uint32 { return p.given.Load() - p.taken }

// take gives a work request a place, of which there must be one, and returns the device's id of it.
func (p *pool) take(id uint64) uint64 {
	places, taken := p.places, p.taken
	i := places[int(taken)&(len(places)-1)].free
	p.taken = taken + 1
	w := &places[int(i)&(len(places)-1)] // not masked in fact, but so its index needs no check
	w.id = id
	mmap.StoreRelease(&w.outstanding, 1)
	return p.generation | uint64(i)
}

// complete finds the work request that has the device's id, frees its place, and fills in the program's id. It reports
// whether the work request is outstanding.
func (p *pool) complete(device uint64, wc *verbs.WC) bool {
	i, places := device^p.generation, p.places // the generation's bits are 0 if it is the same
	if i >= uint64(len(places)) || places[i].outstanding.Load() == 0 {
		return false
	}
	wc.WRID = places[i].id
	p.give(places, &places[i], i)
	return true
}

// give frees place i of places, which is w. That saves looking both up again.
func (p *pool) give(places []place, w *place, i uint64) {
	mmap.StoreRelease(&w.outstanding, 0)
	given := p.given.Load()
	places[int(given)&(len(places)-1)].free = uint32(i)
	mmap.StoreRelease(&p.given, given+1)
}
