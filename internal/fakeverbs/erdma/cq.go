package erdma

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// CQ is the device's side of a completion queue.
type CQ struct {
	Num uint32 // the device's number

	e            *model
	cq           *fakeverbs.CQ
	ring         uint64 // address of the ring
	record       uint64
	pi           uint32      // entries written, free-running
	old          []byte      // ring as the device last wrote it, or zeros
	entry, there [entry]byte // entry to write, and the bytes that it replaces

	arms     uint32
	ci       uint32 // consumer index of the last arm
	armed    bool
	solicits bool   // armed for solicited and failed completions only
	raised   uint32 // events
	asked    uint32 // entries up to the last one that was solicited or failed
}

func (q *CQ) String() string { return fmt.Sprintf("CQ %d", q.Num) }

func (e *model) CreateCQ(cq *fakeverbs.CQ, r *ioctl.Request) error {
	if err := (fakeverbs.Bare{}).CreateCQ(cq, r); err != nil {
		return err
	}
	if cq.Entries > maxCQE {
		return syscall.EINVAL
	}
	in, err := input[abi.ErdmaUreqCreateCq](e, "CQ_CREATE", r)
	if err != nil {
		return err
	}
	if in.Rsvd0 != 0 {
		e.note("CQ_CREATE: the reserved word is %#x", in.Rsvd0)
	}
	size := cq.Entries * entry
	if err := e.pin("CQ_CREATE", in.QbufVa, in.QbufLen, 1); err != nil {
		return err
	}
	if in.QbufLen != uint32((size+erdmaPage-1)/erdmaPage*erdmaPage) {
		e.note("CQ_CREATE: %d entries take %d bytes, and the queue has %d", cq.Entries, size, in.QbufLen)
		return syscall.EINVAL
	}
	e.wantZeros("CQ_CREATE", in.QbufVa, in.QbufLen)
	if err := e.pinRecord("CQ_CREATE", in.DbRecordVa); err != nil {
		return err
	}
	q := &CQ{e: e, cq: cq, ring: in.QbufVa, record: in.DbRecordVa, old: make([]byte, size)}
	addCQ(e.k.Device, q)
	cq.Queue = q
	e.keepRecord(q.record, q.String())
	return answerWhole(e, "CQ_CREATE", r, abi.ErdmaUrespCreateCq{CqId: q.Num, NumCqe: cq.Entries})
}

// addCQ assigns the next number to a CQ, as the driver does.
func addCQ(d *fakeverbs.Device, q *CQ) {
	shared := shared(d)
	d.Lock()
	defer d.Unlock()
	if shared.cqs == nil {
		shared.cqs = make(map[uint32]*CQ)
	}
	const most = 1<<20 - 1
	for {
		shared.lastCQN = shared.lastCQN%most + 1
		if shared.cqs[shared.lastCQN] == nil {
			break
		}
	}
	q.Num = shared.lastCQN
	shared.cqs[q.Num] = q
}

// Free releases the number and the record.
func (q *CQ) Free() {
	q.e.forgetRecord(q.record)
	d := q.e.k.Device
	d.Lock()
	defer d.Unlock()
	delete(shared(d).cqs, q.Num)
}

func cq(d *fakeverbs.Device, num uint32) *CQ {
	d.Lock()
	defer d.Unlock()
	return shared(d).cqs[num]
}

// beforeFirst returns the record of a CQ that was never armed.
func (q *CQ) beforeFirst() uint64 { return 0xff<<56 | uint64(q.Num)<<32 | 3<<28 }

// wantRecord checks the record of a CQ that has not been armed, because hardware treats it as that of the
// last arm. The first arm may have written the record but not the doorbell. call is the call that creates
// a QP, or empty.
func (q *CQ) wantRecord(call string) {
	o := &q.e.options
	if q.arms != 0 || o.Late {
		return
	}
	v, ok := q.e.loadAs(fakeverbs.Crossing{Call: call, Object: q.Num, Queue: fakeverbs.EntryCQE}, q, q.record)
	first := v>>56 == 0 && uint32(v>>32) == q.Num && v>>31&1 == 1
	if old := o.OldRecords && v == 0; ok && v != q.beforeFirst() && !first && !old {
		q.e.note("%v: the record of a CQ that was never armed is %#016x, not %#016x", q, v, q.beforeFirst())
	}
}

// CQE is a completion as the device writes it.
type CQE struct {
	Opcode, QueueType, Syndrome uint8
	Index, QPN                  uint32
	Imm                         uint32 // the number, little-endian
	InvalidatedKey              uint32 // big-endian, with the opcode for it
	Size                        uint32
	Solicited                   bool
}

// The opcodes and queues of completions.
const (
	receive    = 4
	recvImm    = 5
	recvInv    = 6
	rspSendImm = 12

	sendQueue = 0
	recvQueue = 1
)

// Complete writes an entry, and raises an event if user space has requested one.
func (q *CQ) Complete(c CQE) {
	q.cq.Kernel().Lock()
	defer q.cq.Kernel().Unlock()
	q.complete(&c)
}

func (q *CQ) complete(c *CQE) {
	q.wantRecord("")
	b := &q.entry
	clear(b[:])
	hdr := uint32(c.Opcode)<<16 | uint32(c.QueueType)<<8 | uint32(c.Syndrome)
	if q.pi&q.cq.Entries == 0 {
		hdr |= 1 << 31
	}
	binary.BigEndian.PutUint32(b[0:], hdr)
	binary.BigEndian.PutUint32(b[4:], c.Index)
	binary.BigEndian.PutUint32(b[8:], c.QPN)
	if c.Opcode == recvInv {
		binary.BigEndian.PutUint32(b[12:], c.InvalidatedKey)
	} else {
		binary.LittleEndian.PutUint32(b[12:], c.Imm)
	}
	binary.BigEndian.PutUint32(b[16:], c.Size)
	q.write(b)
	if c.Solicited || c.Syndrome != 0 {
		q.asked = q.pi
	}
	q.event()
}

// write writes an entry to the ring, the word with the owner bit last. Only the device may write to the ring.
func (q *CQ) write(b *[entry]byte) {
	user := q.e.k.User
	at := uint64(q.pi&(q.cq.Entries-1)) * entry
	there := &q.there
	if err := user.Read(q.ring+at, there[:]); err != nil {
		q.e.gone(err, "%v: its memory is gone", q)
		return
	}
	old := q.old[at:][:entry]
	if string(there[:]) != string(old) {
		q.e.note("%v: somebody wrote to entry %d", q, q.pi)
	}
	if late := q.e.k.CrossCompletion(q.Num, b[:]); late != nil {
		_ = user.Store32(q.ring+at, binary.LittleEndian.Uint32(b[:]))
		late()
	}
	_ = user.Write(q.ring+at+4, b[4:])
	_ = user.Store32(q.ring+at, binary.LittleEndian.Uint32(b[:]))
	copy(old, b[:])
	q.pi++
}

// event raises an event if the CQ is armed for the kind of a completion after those that user space has
// read. The completion may be older than the arm, because user space polls before its arm arrives here.
func (q *CQ) event() {
	last := q.pi
	if q.solicits {
		last = q.asked
	}
	if ahead := (last - q.ci) & 0xffffff; q.armed && ahead > 0 && ahead <= q.cq.Entries {
		q.armed = false
		q.raised++
		q.cq.RaiseEvent()
	}
}

// arm handles a store to the CQ's doorbell.
func (q *CQ) arm(v uint64) {
	e := q.e
	index, events, ci := uint32(v>>56), uint32(v>>28&3), uint32(v&0xffffff)
	switch {
	case v>>31&1 == 0:
		e.note("%v: a doorbell that does not arm: %#016x", q, v)
	case v>>24&0xf != 0:
		e.note("%v: reserved bits of the doorbell are set: %#016x", q, v)
	case index != q.arms&0xff && !e.options.Late:
		e.note("%v: arm %d has index %d", q, q.arms, index)
	case (ci-q.ci)&0xffffff > (q.pi-q.ci)&0xffffff:
		e.note("%v: an arm says that %d completions were read, after %d, and there are %d", q, ci, q.ci, q.pi)
	}
	q.arms = q.arms&^0xff | index + 1
	q.ci = ci
	// An unread event also stands for later ones. While there is one, arming has no effect.
	switch (q.raised - events) & 3 {
	case 0:
		q.armed, q.solicits = true, v>>30&1 != 0
		q.event()
	case 1:
		if q.raised == 0 {
			e.note("%v: an arm counts %d events, and there was none", q, events)
		}
	default:
		e.note("%v: an arm counts %d events (modulo 4), and there were %d", q, events, q.raised)
	}
}
