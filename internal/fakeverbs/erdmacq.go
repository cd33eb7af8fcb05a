package fakeverbs

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// ERDMACQ is the device's side of a completion queue.
type ERDMACQ struct {
	Num uint32 // the device's number

	e            *erdma
	cq           *CQ
	ring         uint64 // address
	record       uint64
	pi           uint32           // entries written, free-running
	old          []byte           // what the device last wrote, or zeros
	entry, there [erdmaEntry]byte // to write, and what is there before

	arms     uint32
	ci       uint32 // as the last arm told
	armed    bool
	solicits bool   // armed for solicited and failed completions only
	raised   uint32 // events
	asked    uint32 // entries up to the last one that was solicited or failed
}

func (q *ERDMACQ) String() string { return fmt.Sprintf("CQ %d", q.Num) }

func (e *erdma) createCQ(cq *CQ, r *ioctl.Request) error {
	if err := (bare{}).createCQ(cq, r); err != nil {
		return err
	}
	if cq.Entries > erdmaMaxCQE {
		return syscall.EINVAL
	}
	in, err := erdmaInput[abi.ErdmaUreqCreateCq](e, "CQ_CREATE", r)
	if err != nil {
		return err
	}
	if in.Rsvd0 != 0 {
		e.note("CQ_CREATE: the reserved word is %#x", in.Rsvd0)
	}
	size := cq.Entries * erdmaEntry
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
	q := &ERDMACQ{e: e, cq: cq, ring: in.QbufVa, record: in.DbRecordVa, old: make([]byte, size)}
	e.k.device.addERDMACQ(q)
	cq.ERDMA = q
	e.keepRecord(q.record, q.String())
	return answerWhole(e, "CQ_CREATE", r, abi.ErdmaUrespCreateCq{CqId: q.Num, NumCqe: cq.Entries})
}

// addERDMACQ gives a CQ the next number, as the driver does.
func (d *Device) addERDMACQ(q *ERDMACQ) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.erdma.cqs == nil {
		d.erdma.cqs = make(map[uint32]*ERDMACQ)
	}
	const most = 1<<20 - 1
	for {
		d.erdma.lastCQN = d.erdma.lastCQN%most + 1
		if d.erdma.cqs[d.erdma.lastCQN] == nil {
			break
		}
	}
	q.Num = d.erdma.lastCQN
	d.erdma.cqs[q.Num] = q
}

// free lets go of the number and the record.
func (q *ERDMACQ) free() {
	q.e.forgetRecord(q.record)
	d := q.e.k.device
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.erdma.cqs, q.Num)
}

func (d *Device) erdmaCQ(num uint32) *ERDMACQ {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.erdma.cqs[num]
}

// beforeFirst is what the record of a CQ holds that was never armed.
func (q *ERDMACQ) beforeFirst() uint64 { return 0xff<<56 | uint64(q.Num)<<32 | 3<<28 }

// wantRecord looks at the record of a CQ that was not armed: hardware takes it for the last
// arm's. The first arm may be on its way, with the record written and the doorbell not.
func (q *ERDMACQ) wantRecord() {
	if q.arms != 0 || q.e.k.ERDMA.Late || q.e.k.ERDMA.OldRecords {
		return
	}
	v, ok := q.e.load(q, q.Num, q.record)
	if first := v>>56 == 0 && uint32(v>>32) == q.Num && v>>31&1 == 1; ok && v != q.beforeFirst() && !first {
		q.e.note("%v: the record of a CQ that was never armed is %#016x, not %#016x", q, v, q.beforeFirst())
	}
}

// ERDMACQE is a completion as the device writes it.
type ERDMACQE struct {
	Opcode, QueueType, Syndrome uint8
	Index, QPN                  uint32
	Imm                         uint32 // the number, little-endian
	InvalidatedKey              uint32 // big-endian, with the opcode for it
	Size                        uint32
	Solicited                   bool
}

// The opcodes and queues of completions.
const (
	erdmaReceive    = 4
	erdmaRecvImm    = 5
	erdmaRecvInv    = 6
	erdmaRspSendImm = 12

	erdmaSendQueue = 0
	erdmaRecvQueue = 1
)

// Complete writes an entry, and raises an event if user space asked for one.
func (q *ERDMACQ) Complete(c ERDMACQE) {
	q.cq.k.mu.Lock()
	defer q.cq.k.mu.Unlock()
	q.complete(&c)
}

func (q *ERDMACQ) complete(c *ERDMACQE) {
	q.wantRecord()
	b := &q.entry
	clear(b[:])
	hdr := uint32(c.Opcode)<<16 | uint32(c.QueueType)<<8 | uint32(c.Syndrome)
	if q.pi&q.cq.Entries == 0 {
		hdr |= 1 << 31
	}
	binary.BigEndian.PutUint32(b[0:], hdr)
	binary.BigEndian.PutUint32(b[4:], c.Index)
	binary.BigEndian.PutUint32(b[8:], c.QPN)
	if c.Opcode == erdmaRecvInv {
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

// write puts an entry into the ring, the word with the owner bit last. Only the device
// writes there.
func (q *ERDMACQ) write(b *[erdmaEntry]byte) {
	user := q.e.k.User
	at := uint64(q.pi&(q.cq.Entries-1)) * erdmaEntry
	there := &q.there
	if err := user.Read(q.ring+at, there[:]); err != nil {
		q.e.gone(err, "%v: its memory is gone", q)
		return
	}
	old := q.old[at:][:erdmaEntry]
	if string(there[:]) != string(old) {
		q.e.note("%v: somebody wrote to entry %d", q, q.pi)
	}
	c := q.e.k.cross(Crossing{Kind: EntryCQE, Object: q.Num, Bytes: b[:]})
	if c.Late != nil {
		_ = user.Store32(q.ring+at, binary.LittleEndian.Uint32(b[:]))
		c.Late()
	}
	_ = user.Write(q.ring+at+4, b[4:])
	_ = user.Store32(q.ring+at, binary.LittleEndian.Uint32(b[:]))
	copy(old, b[:])
	q.pi++
}

// event raises an event if the CQ is armed for a completion of a kind that there is behind
// those that user space said it had read. A completion may be older than the arm: user space
// looks for such before its arm gets here.
func (q *ERDMACQ) event() {
	last := q.pi
	if q.solicits {
		last = q.asked
	}
	if ahead := (last - q.ci) & 0xffffff; q.armed && ahead > 0 && ahead <= q.cq.Entries {
		q.armed = false
		q.raised++
		q.cq.event()
	}
}

// arm is a store to the CQ's doorbell.
func (q *ERDMACQ) arm(v uint64) {
	e := q.e
	index, events, ci := uint32(v>>56), uint32(v>>28&3), uint32(v&0xffffff)
	switch {
	case v>>31&1 == 0:
		e.note("%v: a doorbell that does not arm: %#016x", q, v)
	case v>>24&0xf != 0:
		e.note("%v: reserved bits of the doorbell are set: %#016x", q, v)
	case index != q.arms&0xff && !e.k.ERDMA.Late:
		e.note("%v: arm %d has index %d", q, q.arms, index)
	case (ci-q.ci)&0xffffff > (q.pi-q.ci)&0xffffff:
		e.note("%v: an arm says that %d completions were read, after %d, and there are %d", q, ci, q.ci, q.pi)
	}
	q.arms = q.arms&^0xff | index + 1
	q.ci = ci
	// An event that nobody has read stands for what comes; with it unread, arming does nothing.
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
