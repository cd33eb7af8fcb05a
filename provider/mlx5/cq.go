package mlx5

import (
	"errors"
	"fmt"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

// cq is a completion queue in this process's memory, which the device writes. The owner bit
// of entries changes each time the device wraps around.
type cq struct {
	ctx      *mlx5Context
	region   *mmap.Region
	ring     mmap.Array[cqe]
	step     uint32 // of an entry in ring: 1, or 2 where it is the second of two
	entries  uint32 // a power of two
	ci       uint32 // free-running
	place    uint32 // of the next entry: slot(ci)
	record   record
	register *mmap.Page
	num      uint32
	doorbell uint64 // the number's half of what arms the queue
	events   uint32 // that were read from the channel, modulo 4, where the arming word has them
	lost     bool   // the queue was lost when it was resized; its entries are invalid
	peek     mmap.Peek
	byIndex  *driver.Table[qp] // the QPs, if completions name them by index; else empty
	ext      verbs.WCExtMask   // the fields that PollExt fills in
	short    bool              // short messages may come in completions
}

// maxCQE is the number of entries that the arming word's index has room for.
const maxCQE = 1 << 24

// CreateCQ creates a CQ. It asks the kernel for one entry less than the queue has, because
// the kernel adds one and rounds up.
func (c *mlx5Context) CreateCQ(r *driver.CreateCQ) (driver.CQ, error) {
	step := uint32(1)
	if r.MaxInline > cqeInsideSize {
		step = longCQESize / cqeSize
	}
	q := newCQ(c, step)
	q.short = r.MaxInline > 0
	if err := q.extend(r.Ext); err != nil {
		return nil, err
	}
	if err := q.alloc(r, r.CQE); err != nil {
		return nil, err
	}
	var err error
	if q.record, err = c.records.take(); err != nil {
		return nil, err
	}
	r.CQE = q.entries - 1
	if err := q.create(r); err != nil {
		c.records.give(q.record)
		return nil, err
	}
	r.CQE = q.entries - 1
	return q, nil
}

// newCQ returns a CQ without a queue.
func newCQ(c *mlx5Context, step uint32) *cq {
	q := &cq{ctx: c, step: step, place: step - 1, register: c.registers.cq, byIndex: &c.qps}
	if !c.indexed {
		q.byIndex = &noQueues
	}
	return q
}

var noQueues driver.Table[qp]

func (q *cq) create(r *driver.CreateCQ) error {
	s := &q.ctx.registers
	req := abi.Mlx5IbCreateCq{BufAddr: q.region.Addr(), DbAddr: q.record.addr, CqeSize: q.step * cqeSize}
	var uar []driver.Attr
	switch {
	case !s.dynamic:
	case s.cqUAR <= maxUARInRequest:
		req.Flags, req.UarPageIndex = abi.MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX, uint16(s.cqUAR)
	default:
		uar = []driver.Attr{{ID: abi.MLX5_IB_ATTR_CREATE_CQ_UAR_INDEX, In: abi.Bytes(&s.cqUAR)}}
	}
	var resp abi.Mlx5IbCreateCqResp
	if err := r.Do(driver.UHW{In: abi.Bytes(&req), Out: abi.Bytes(&resp)}, uar...); err != nil {
		return err
	}
	if q.num = resp.Cqn; q.num > cqeNumberMask {
		return fmt.Errorf("the kernel returned invalid CQ number %#x", q.num)
	}
	q.doorbell = words(0, q.num)
	return nil
}

// maxUARInRequest is the largest UAR number that the request's field has room for.
const maxUARInRequest = 1<<16 - 1

// alloc makes a queue for more than n entries, none of which is valid.
func (q *cq) alloc(memory driver.Memory, n uint32) error {
	if n >= maxCQE {
		return fmt.Errorf("%w: a CQ of %d entries, devices have at most %d", verbs.ErrNotSupported, n, uint32(maxCQE-1))
	}
	entries := pow2(n + 1)
	slots := entries * q.step
	region, err := memory.Alloc(int(slots)*cqeSize, nil)
	if err != nil {
		return err
	}
	ring, err := mmap.NewArray[cqe](region, 0, slots)
	if err != nil {
		return err
	}
	q.region, q.ring, q.entries = region, ring, entries
	q.clear()
	q.peek.Hide()
	return nil
}

// clear makes all entries of the queue invalid.
func (q *cq) clear() {
	for i := range q.entries {
		q.at(i).counterOwn.Store(cqeInvalid)
	}
}

// slot returns the position in ring of the entry with a free-running index.
func (q *cq) slot(i uint32) uint32 { return i*q.step + q.step - 1 }

// advance moves on to the next entry.
func (q *cq) advance() {
	q.ci++
	q.place += q.step
}

// moveTo makes the entry with a free-running index the next one.
func (q *cq) moveTo(i uint32) { q.ci, q.place = i, q.slot(i) }

func (q *cq) at(i uint32) *cqe { return q.ring.At(q.slot(i)) }

// front returns the 64 bytes before a long entry.
func (q *cq) front(i uint32) *cqe { return q.ring.At(q.slot(i) - 1) }

// Arm requests an event at the next completion after the last one that was polled. The
// device ignores it while an event is unread.
func (q *cq) Arm(solicitedOnly bool) error {
	v := q.events | q.ci&armConsumed
	if solicitedOnly {
		v |= armSolicited
	}
	word := be32(v)
	mmap.StoreRelease(q.record.word[armWord], word)
	q.register.StoreWC64(uarCQ, uint64(word)|q.doorbell)
	return nil
}

// Event implements driver.EventCounter.
func (q *cq) Event() { q.events = (q.events + 1<<armEventShift) & (3 << armEventShift) }

// Destroy implements driver.Destroyer.
func (q *cq) Destroy(do func() error) error {
	err := do()
	if err == nil {
		q.ctx.records.give(q.record)
	}
	return err
}

var errLost = fmt.Errorf("%w: the queue was lost when it was resized: close the object that it belongs to", verbs.ErrClosed)

// Poll reads completions. It skips those that match no work request. It reads successful sends and
// writes of one QP, the most frequent completions, by itself, and leaves the rest to mixed.
func (q *cq) Poll(wcs []verbs.WC) (n int, bad bool, err error) {
	e := q.ring.At(q.place)
	v, ready := e.counterOwn.Load(), 1
	if !q.owned(v, q.ci) {
		if q.lost {
			return 0, false, errLost
		}
		q.peek.Expect(&e.counterOwn, v)
		return 0, false, nil
	}
	if len(wcs) != 1 {
		if ready = q.count(len(wcs)); ready == 0 {
			return 0, false, nil
		}
	}
	if q.register.Watched() {
		q.register.FromDevice()
	}
	mmap.FromDevice() // inlined, as the method can't be
	queue := e.queue
	if p := q.byIndex.Get(be32(queue) & cqeNumberMask); p != nil && p.sendCQ == q {
		done, produced := p.sq.completed.Load(), p.sq.produced.Load()
		if w := p.sq.plain(e.counterOwn.Load(), done, produced); w != nil {
			wcs[0] = verbs.WC{WRID: w.id, Opcode: w.op, QPN: p.num}
			done, n = w.number+1, 1
			if ready > 1 {
				done, n = q.alike(p, queue, wcs[:ready], done, produced)
			}
			mmap.StoreRelease(&p.sq.completed, done)
			q.ci += uint32(n)
			q.place += uint32(n) * q.step
		}
	}
	if n < ready {
		n, bad = q.mixed(wcs, n, ready-n)
	}
	q.consumed()
	return n, bad, nil
}

// alike reads the entries after the first as long as they complete successful sends and writes of the
// same QP. It returns how many requests are done, and the number of entries with the first. It is no part
// of Poll, whose variables then fit into registers.
func (q *cq) alike(p *qp, queue uint32, wcs []verbs.WC, done, produced uint32) (doneNow uint32, n int) {
	at := q.place
	for n = 1; n < len(wcs); n++ {
		at += q.step
		e := q.ring.At(at)
		if e.queue != queue {
			break
		}
		w := p.sq.plain(e.counterOwn.Load(), done, produced)
		if w == nil {
			break
		}
		wcs[n] = verbs.WC{WRID: w.id, Opcode: w.op, QPN: p.num}
		done = w.number + 1
	}
	return done, n
}

// mixed reads entries of all kinds into wcs from n on. ready of them are ready; if none of
// those matches a work request, mixed looks for more.
func (q *cq) mixed(wcs []verbs.WC, n, ready int) (all int, bad bool) {
	for combined := verbs.StatusSuccess; ; ready = q.ready(len(wcs)) {
		for end := q.ci + uint32(ready); q.ci != end; {
			if q.complete(q.ci, &wcs[n]) {
				combined |= wcs[n].Status
				n++
			}
			q.advance()
		}
		if n > 0 || ready == 0 {
			return n, combined != verbs.StatusSuccess
		}
	}
}

// consumed updates the record of how far the queue was read.
func (q *cq) consumed() {
	q.record.set(consumedWord, q.ci&armConsumed)
	q.peek.Clear()
}

// Peek implements driver.Peeker.
func (q *cq) Peek() *mmap.Peek { return &q.peek }

// ready returns the number of entries that can be read, at most want.
func (q *cq) ready(want int) (n int) {
	word := &q.ring.At(q.place).counterOwn
	if v := word.Load(); !q.owned(v, q.ci) {
		q.peek.Expect(word, v)
		return 0
	}
	if n = q.count(want); n > 0 {
		if q.register.Watched() {
			q.register.FromDevice()
		}
		mmap.FromDevice() // inlined, as the method can't be
	}
	return n
}

// count returns the number of entries that can be read after a load barrier, at most want. The
// caller has checked the first of them.
func (q *cq) count(want int) (n int) {
	if want = min(want, int(q.entries)); want <= 0 {
		return 0
	}
	at, i := q.place, q.ci
	for n = 1; n < want; n++ {
		at += q.step
		i++
		if !q.owned(q.ring.At(at).counterOwn.Load(), i) {
			break
		}
	}
	return n
}

// owned reports whether the device has written an entry, given its last word and its
// free-running index. The owner bit alternates with each lap, and is 0 in the first.
func (q *cq) owned(last, i uint32) bool {
	return last < cqeInvalid && last&cqeOwner != 0 == (i&q.entries != 0)
}

// complete reads an entry, each field once, and finds its work request. It reports whether
// there is one: the QP may be gone, and the device is not trusted.
func (q *cq) complete(i uint32, wc *verbs.WC) bool {
	e := q.at(i)
	last := e.counterOwn.Load()
	op, index := last>>cqeOpShift, be16(uint16(last))
	p, s := q.ctx.find(e, op)
	if p == nil {
		return false
	}
	*wc = verbs.WC{QPN: p.num}
	if p.typ == verbs.QPTypeXRCTarget {
		wc.QPN = be32(e.opQPN) & cqeNumberMask
	}
	data := q.message(p, i, last)
	switch op {
	case cqeRequest:
		return p.sendCQ == q && p.sq.complete(q.ctx, index, be32(e.byteCount), data, wc)
	case cqeReqError:
		if p.sendCQ != q {
			return false
		}
		stream := p.sq.stream(index) // which is read before others may write there
		return p.sq.complete(q.ctx, index, 0, nil, wc) && e.fail(wc) && p.streams.failed(stream, wc.Status)
	case cqeWriteImm, cqeRecv, cqeRecvImm, cqeRecvInv:
		return p.recvCQ == q && p.received(s, index, data, wc) && p.describe(e, op, wc)
	case cqeRespError:
		if s != nil && e.syndrome == syndromeAborted && e.vendor == vendorPageFault {
			s.repost(index)
			return false
		}
		return p.recvCQ == q && p.received(s, index, nil, wc) && e.fail(wc)
	}
	return false
}

// find finds the QP of a completion, and the SRQ that a receive came from, if any.
func (c *mlx5Context) find(e *cqe, op uint32) (*qp, *srq) {
	number := be32(e.queue) & cqeNumberMask
	if c.indexed {
		p := c.qps.Get(number)
		if p == nil {
			return nil, nil
		}
		return p, p.srq
	}
	p := c.qps.Get(be32(e.opQPN) & cqeNumberMask)
	if op == cqeRequest || op == cqeReqError || number == 0 {
		return p, nil
	}
	s := c.srqs.Get(number)
	if s != nil && s.target != nil {
		p = s.target
	}
	return p, s
}

// fail fills in a completion with an error. It returns true, as complete does.
func (e *cqe) fail(wc *verbs.WC) bool {
	*wc = verbs.WC{WRID: wc.WRID, QPN: wc.QPN, Status: statusOf(e.syndrome), VendorErr: uint32(e.vendor)}
	return true
}

// describe fills in the completion of a receive. It returns true, as complete does.
func (q *qp) describe(e *cqe, op uint32, wc *verbs.WC) bool {
	if wc.Status != verbs.StatusSuccess {
		return true
	}
	wc.Opcode, wc.ByteLen = verbs.WCRecv, be32(e.byteCount)
	switch op {
	case cqeWriteImm:
		wc.Opcode, wc.Imm, wc.Flags = verbs.WCRecvRDMAWithImm, be32(e.imm), verbs.WCWithImm
	case cqeRecvImm:
		wc.Imm, wc.Flags = be32(e.imm), verbs.WCWithImm
	case cqeRecvInv:
		wc.Imm, wc.Flags = be32(e.imm), verbs.WCWithInv
		q.ctx.device.Unbind(wc.Imm)
	}
	if q.typ != verbs.QPTypeUD {
		return q.typ != verbs.QPTypeRawPacket || e.describeFrame(wc)
	}
	from := be32(e.flagsQPN)
	wc.SrcQPN = from & cqeNumberMask
	if from>>28&3 != 0 {
		wc.Flags |= verbs.WCGRH
	}
	if !q.ethernet {
		wc.SL, wc.SLID, wc.DLIDPathBits = uint8(from>>24&0xf), be16(e.slid), e.path&0x7f
		return true
	}
	// Over RoCE the bits of the SL say which headers the packet had, and the SL is its VLAN priority.
	if e.headers&hasVLAN != 0 {
		wc.SL = uint8(be16(e.vlan) >> 13)
	}
	return true
}

// extend prepares a CQ for extended work completions.
func (q *cq) extend(want verbs.WCExtMask) error {
	const packet = verbs.WCExtFlowTag | verbs.WCExtVLAN | verbs.WCExtChecksum
	switch {
	case want&^(verbs.WCExtTimestamp|verbs.WCExtWallClock|packet) != 0:
		return fmt.Errorf("%w: unknown completion field %#x", verbs.ErrNotSupported, uint32(want))
	case want&verbs.WCExtFlowTag != 0 && !q.ctx.indexed:
		return fmt.Errorf("%w: completions of this mlx5 device have the QP number in place of the flow tag", verbs.ErrNotSupported)
	}
	q.ext = want
	if want&verbs.WCExtWallClock == 0 {
		return nil
	}
	if q.ctx.limits.ClockInfoVersions&1 == 0 {
		return fmt.Errorf("%w: this kernel does not report how to convert the device's clock to time", verbs.ErrNotSupported)
	}
	return q.ctx.clock.open(q.ctx.device)
}

// PollExt implements driver.ExtPoller.
func (q *cq) PollExt(wcs []verbs.WC, ext []verbs.WCExt) (n int, bad bool, err error) {
	if q.lost {
		return 0, false, errLost
	}
	var now reading
	if q.ext&verbs.WCExtWallClock != 0 {
		now = q.ctx.clock.read()
	}
	odd, first := verbs.StatusSuccess, q.ci
	for n < len(wcs) && q.ready(1) > 0 {
		if q.complete(q.ci, &wcs[n]) {
			odd |= wcs[n].Status
			ext[n] = verbs.WCExt{}
			if wcs[n].Status == verbs.StatusSuccess { // failed completions have none of the fields
				q.at(q.ci).extend(q, &now, &ext[n])
			}
			n++
		}
		q.advance()
	}
	if q.ci != first {
		q.consumed()
	}
	return n, odd != verbs.StatusSuccess, nil
}

// extend fills in the fields that the CQ was created with. Those of packets are 0 in completions
// of sends and of other QPs.
func (e *cqe) extend(q *cq, now *reading, ext *verbs.WCExt) {
	ticks := be64(e.timestamp())
	if q.ext&verbs.WCExtTimestamp != 0 {
		ext.Timestamp = ticks
	}
	if q.ext&verbs.WCExtWallClock != 0 {
		ext.WallClock = now.time(ticks)
	}
	op := e.counterOwn.Load() >> cqeOpShift
	if op != cqeRecv || q.ext&(verbs.WCExtFlowTag|verbs.WCExtVLAN|verbs.WCExtChecksum) == 0 {
		return
	}
	if p, _ := q.ctx.find(e, op); p == nil || p.typ != verbs.QPTypeRawPacket {
		return
	}
	if q.ext&verbs.WCExtFlowTag != 0 {
		ext.FlowTag = be32(e.opQPN) & cqeNumberMask
	}
	headers := e.headers
	if q.ext&verbs.WCExtVLAN != 0 && headers&hasVLAN != 0 {
		ext.VLAN = be16(e.vlan)
	}
	if q.ext&verbs.WCExtChecksum != 0 {
		ext.Flags = verbs.WCExtFlags(e.right&layersRight)>>1 | layer3s[headers>>2&3] | layer4s[headers>>4&7]
	}
}

// The headers that the device found in a packet, by their numbers. TCP has several.
var (
	layer3s = [4]verbs.WCExtFlags{1: verbs.WCExtIPv6, headerIPv4: verbs.WCExtIPv4}
	layer4s = [8]verbs.WCExtFlags{1: verbs.WCExtTCP, 2: verbs.WCExtUDP, 3: verbs.WCExtTCP, 4: verbs.WCExtTCP}
)

var errNoMarker = errors.New("the old queue of a resized CQ has no end marker: close the CQ")

// Resize replaces the queue by a new one. The kernel writes a marker into the old queue,
// after all entries of the device. The device counts the marker as an entry, so the entries
// before it move one slot further in the new queue.
func (q *cq) Resize(r *driver.ResizeCQ) error {
	if q.lost {
		return errLost
	}
	next := cq{step: q.step}
	if err := next.alloc(r, r.CQE); err != nil {
		return err
	}
	req := abi.Mlx5IbResizeCq{BufAddr: next.region.Addr(), CqeSize: uint16(q.step * cqeSize)}
	r.CQE = next.entries - 1
	if err := r.Do(driver.UHW{In: abi.Bytes(&req)}); err != nil {
		return err
	}
	r.CQE = next.entries - 1
	if !q.copyTo(&next) {
		q.lost = true
		q.clear()
		q.peek.Hide()
		return errNoMarker
	}
	old := q.region
	q.region, q.ring, q.entries = next.region, next.ring, next.entries
	q.moveTo(q.ci + 1)
	q.consumed()
	q.peek.Hide()
	return r.Free(old)
}

// copyTo copies the entries up to the marker. It reports whether there is one.
func (q *cq) copyTo(next *cq) bool {
	for i := q.ci; i-q.ci < q.entries; i++ {
		from := q.at(i)
		last := from.counterOwn.Load()
		if !q.owned(last, i) {
			return false
		}
		if last>>cqeOpShift == cqeResize {
			return true
		}
		q.ctx.registers.cq.FromDevice()
		to := next.at(i + 1)
		q.copyEntry(next, i+1, i)
		last &^= cqeOwner
		if (i+1)&next.entries != 0 {
			last |= cqeOwner
		}
		to.counterOwn.Store(last)
	}
	return false
}

// Clean removes the completions of a QP or WQ that is in RESET or destroyed. Later entries
// move into their slots. The owner bit belongs to the slot and stays.
func (q *cq) Clean(of any) {
	p := of.(completer).named()
	if q.lost {
		return
	}
	end := q.ci
	for end-q.ci < q.entries && q.owned(q.at(end).counterOwn.Load(), end) {
		end++
	}
	q.ctx.registers.cq.FromDevice()
	to := end
	for from := end; from != q.ci; {
		from--
		e := q.at(from)
		if q.isOf(e, p) {
			q.forget(e, p)
			continue
		}
		if to--; to != from {
			q.move(to, from)
		}
	}
	if to != q.ci {
		q.moveTo(to)
		q.consumed()
	}
}

// completer is a QP or WQ. named returns the QP that its completions name.
type completer interface{ named() *qp }

func (q *qp) named() *qp  { return q }
func (d *dct) named() *qp { return d.found }

func (q *cq) isOf(e *cqe, p *qp) bool {
	if q.ctx.indexed {
		return be32(e.queue)&cqeNumberMask == p.index
	}
	return be32(e.opQPN)&cqeNumberMask == p.num
}

// forget gives back the receive of an SRQ that an entry completes.
func (q *cq) forget(e *cqe, p *qp) {
	last := e.counterOwn.Load()
	switch last >> cqeOpShift {
	case cqeWriteImm, cqeRecv, cqeRecvImm, cqeRecvInv, cqeRespError:
		if _, s := q.ctx.find(e, last>>cqeOpShift); s != nil && p.recvCQ == q {
			var wc verbs.WC
			s.complete(be16(uint16(last)), nil, &wc)
		}
	}
}

// move copies an entry to another slot, except for the owner bit.
func (q *cq) move(to, from uint32) {
	e := q.at(to)
	owner := e.counterOwn.Load() & cqeOwner
	q.copyEntry(q, to, from)
	e.counterOwn.Store(q.at(from).counterOwn.Load()&^cqeOwner | owner)
}

// copyEntry copies all but the last word of an entry, which may hold a message, to a slot
// of the same CQ or of its next queue.
func (q *cq) copyEntry(to *cq, at, from uint32) {
	copy(abi.Bytes(to.at(at))[:cqeSize-4], abi.Bytes(q.at(from)))
	if q.step > 1 {
		copy(abi.Bytes(to.front(at)), abi.Bytes(q.front(from)))
	}
}

// statuses maps the device's syndromes. Other syndromes become StatusGeneralErr.
var statuses = [...]verbs.Status{
	0x01:            verbs.StatusLocLenErr,
	0x02:            verbs.StatusLocQPOpErr,
	0x04:            verbs.StatusLocProtErr,
	0x05:            verbs.StatusWRFlushErr,
	0x06:            verbs.StatusMWBindErr,
	0x10:            verbs.StatusBadRespErr,
	0x11:            verbs.StatusLocAccessErr,
	0x12:            verbs.StatusRemInvReqErr,
	0x13:            verbs.StatusRemAccessErr,
	0x14:            verbs.StatusRemOpErr,
	0x15:            verbs.StatusRetryExcErr,
	0x16:            verbs.StatusRNRRetryExcErr,
	syndromeAborted: verbs.StatusRemAbortErr,
}

// With this syndrome the device reports that a receive of an SRQ has memory in an on-demand region
// that is not there yet. The message comes again, and the QP has not failed.
const (
	syndromeAborted = 0x22
	vendorPageFault = 0x93
)

func statusOf(syndrome uint8) verbs.Status {
	if int(syndrome) < len(statuses) && statuses[syndrome] != verbs.StatusSuccess {
		return statuses[syndrome]
	}
	return verbs.StatusGeneralErr
}
