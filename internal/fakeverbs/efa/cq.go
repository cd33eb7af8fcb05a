package efa

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/mmap"
)

// CQ is the device's side of a completion queue.
type CQ struct {
	Num uint16 // the device's number

	m        *model
	cq       *fakeverbs.CQ
	ring     *mmap.Region // of all parts
	size     uint32       // of an entry
	sgid     bool         // entries have the GID of an unknown sender
	ids64    bool         // entries of sends have ids of 64 bits
	channel  bool
	parts    []part
	doorbell int64  // key; 0 if there is no doorbell
	total    uint32 // entries written to all parts, free-running
	last     [longCQE]byte

	consumed uint32 // entries that user space has read according to the doorbell, free-running
	armed    bool
	raised   uint32 // events
}

// part is a part of a completion queue.
type part struct {
	pi  uint32 // entries written, free-running
	old []byte // the part as the device last wrote it
}

// The sizes of completions.
const (
	shortCQE = 16
	longCQE  = 32
)

func (q *CQ) String() string { return fmt.Sprintf("CQ %d", q.Num) }

func (m *model) CreateCQ(cq *fakeverbs.CQ, r *ioctl.Request) error {
	const least, size = 12, 16 // up to the flags, and all
	n, _ := r.Value(abi.UVERBS_ATTR_CREATE_CQ_CQE)
	if cq.Flags != 0 {
		return syscall.EOPNOTSUPP
	}
	if n > maxCQE {
		return syscall.EINVAL
	}
	in, err := input[abi.EfaIbvCreateCq](m, r, least, size)
	if err != nil {
		return err
	}
	q := &CQ{m: m, cq: cq, size: in.CqEntrySize, sgid: in.Flags&abi.EFA_CREATE_CQ_WITH_SGID != 0,
		ids64: in.Flags&abi.EFA_CREATE_CQ_WITH_SQ_COMP_64_BIT_REQ_ID != 0, channel: in.Flags&abi.EFA_CREATE_CQ_WITH_COMPLETION_CHANNEL != 0}
	if err := m.checkCQ(q, &in); err != nil {
		return err
	}
	if q.channel != cq.HasChannel() {
		m.note("CQ_CREATE: flags are %#x of a CQ with a channel: %t", in.Flags, cq.HasChannel())
	}
	if cq.Entries = uint32(n); cq.Entries&(cq.Entries-1) != 0 {
		m.note("CQ_CREATE: %d entries, which is no power of two", n)
		return syscall.EINVAL
	}
	key, ring, err := m.addQueue(&cq.Mem, int(cq.Entries*q.size)*int(in.NumSubCqs))
	if err != nil {
		return err
	}
	if err := m.addCQ(q); err != nil {
		return err
	}
	q.ring, cq.Queue = ring, q
	for range in.NumSubCqs {
		q.parts = append(q.parts, part{old: make([]byte, cq.Entries*q.size)})
	}
	resp := abi.EfaIbvCreateCqResp{QMmapKey: uint64(key), QMmapSize: uint64(m.sizes[key]), CqIdx: q.Num}
	if q.channel || !m.options.NoCQDoorbell {
		at := int(q.Num) * doorbellSize % fakeverbs.PageSize
		q.doorbell = m.addPage(&page{what: q, store: q.rung, offset: at, noWC: true, object: uint32(q.Num), queue: fakeverbs.EntryCQE})
		resp.CompMask, resp.DbOff, resp.DbMmapKey = abi.EFA_CREATE_CQ_RESP_DB_OFF, uint32(at), uint64(q.doorbell)
	}
	return answer(m, "CQ_CREATE", r, resp)
}

// doorbellSize is the distance between doorbells. They have 4 bytes, but a sandbox sees words of 8.
const doorbellSize = 8

// checkCQ makes the driver's checks of a CQ, in its order.
func (m *model) checkCQ(q *CQ, in *abi.EfaIbvCreateCq) error {
	flags := uint8(abi.EFA_CREATE_CQ_WITH_COMPLETION_CHANNEL | abi.EFA_CREATE_CQ_WITH_SGID)
	if m.options.Kernel == Linux73 {
		flags |= abi.EFA_CREATE_CQ_WITH_SQ_COMP_64_BIT_REQ_ID
	}
	unknownMask := syscall.EOPNOTSUPP
	if m.options.Kernel == Linux61 {
		unknownMask = syscall.EINVAL
	}
	switch {
	case in.CompMask != 0:
		return unknownMask
	case in.Reserved58 != [5]uint8{}:
		return syscall.EINVAL
	case in.Flags&^flags != 0,
		q.sgid && !m.has(abi.EFA_QUERY_DEVICE_CAPS_CQ_WITH_SGID), q.channel && !m.has(abi.EFA_QUERY_DEVICE_CAPS_CQ_NOTIFICATIONS),
		q.ids64 && !m.has(abi.EFA_QUERY_DEVICE_CAPS_SQ_64_BIT_REQ_ID):
		return syscall.EOPNOTSUPP
	case in.CqEntrySize != shortCQE && in.CqEntrySize != longCQE, in.CqEntrySize == shortCQE && q.sgid, in.NumSubCqs != m.subCQs():
		return syscall.EINVAL
	}
	return nil
}

// addCQ assigns the lowest free number.
func (m *model) addCQ(q *CQ) error {
	d := m.k.Device
	d.Lock()
	defer d.Unlock()
	s := shared(d)
	if len(s.cqs) >= maxCQ {
		return syscall.ENOMEM
	}
	for s.cqs[q.Num] {
		q.Num++
	}
	s.cqs[q.Num] = true
	return nil
}

// Free releases the number and the doorbell.
func (q *CQ) Free() {
	q.m.removePage(q.doorbell)
	d := q.m.k.Device
	d.Lock()
	defer d.Unlock()
	delete(shared(d).cqs, q.Num)
}

// IsArmed implements [fakeverbs.CQQueue].
func (q *CQ) IsArmed() bool { return q.armed }

// CQE is a completion as the device writes it.
type CQE struct {
	ReqID       uint64 // 16 bits, or 64 of a send with such ids
	Status      uint8
	Queue       uint8 // sendQueue or recvQueue
	Op          uint8
	QPN         uint32
	HasImm      bool
	Unsolicited bool
	Length      uint32
	AH          uint16
	SrcQP       uint32
	Imm         uint32   // the number
	SGID        [16]byte // of an unknown sender
}

// The queues of completions.
const (
	sendQueue = 1
	recvQueue = 2
)

// Complete writes an entry to a part of the queue, and raises an event if user space has requested one.
func (q *CQ) Complete(c CQE, part int) {
	q.cq.Kernel().Lock()
	defer q.cq.Kernel().Unlock()
	q.complete(&c, part)
}

func (q *CQ) complete(c *CQE, num int) {
	p := &q.parts[num]
	depth := q.cq.Entries
	if q.doorbell != 0 && !q.m.options.Late && q.total-q.consumed >= depth*uint32(len(q.parts)) {
		q.m.note("%v: a completion is lost: %d are not read, of %d entries", q, q.total-q.consumed, depth)
		return
	}
	b := q.last[:q.size]
	clear(b)
	binary.LittleEndian.PutUint16(b, uint16(c.ReqID))
	b[2] = c.Status
	b[3] = c.Queue<<1 | c.Op<<4
	if p.pi&depth == 0 {
		b[3] |= 1
	}
	if c.HasImm {
		b[3] |= 1 << 3
	}
	if c.Unsolicited {
		b[3] |= 1 << 7
	}
	binary.LittleEndian.PutUint16(b[4:], uint16(c.QPN))
	if c.Queue == sendQueue {
		if q.ids64 {
			binary.LittleEndian.PutUint16(b[6:], uint16(c.ReqID>>16))
			binary.LittleEndian.PutUint32(b[8:], uint32(c.ReqID>>32))
		}
	} else {
		binary.LittleEndian.PutUint16(b[6:], uint16(c.Length))
		binary.LittleEndian.PutUint16(b[8:], c.AH)
		binary.LittleEndian.PutUint16(b[10:], uint16(c.SrcQP))
		binary.LittleEndian.PutUint32(b[12:], c.Imm)
		if q.size == longCQE {
			q.extend(b[shortCQE:], c)
		}
	}
	q.write(p, num, b)
	q.event()
}

// extend writes the second half of a completion of a receive. The length of a WRITE and the GID of an unknown sender
// have the same place. The model prefers the length.
func (q *CQ) extend(b []byte, c *CQE) {
	switch {
	case c.Op == opWrite:
		binary.LittleEndian.PutUint16(b, uint16(c.Length>>16))
	case q.sgid && c.AH == unknown:
		copy(b, c.SGID[:])
	}
}

// write writes an entry, the word with the phase last. Only the device may write to the ring.
func (q *CQ) write(p *part, num int, b []byte) {
	at := int(p.pi&(q.cq.Entries-1)) * len(b)
	start := num*len(p.old) + at
	there, old := q.ring.Bytes()[start:][:len(b)], p.old[at:][:len(b)]
	if string(there) != string(old) {
		q.m.note("%v: somebody wrote to entry %d", q, p.pi)
	}
	late := q.m.k.CrossCompletion(uint32(q.Num), b)
	word, err := q.ring.Word(start)
	if err != nil {
		return // the CQ is being destroyed
	}
	if late != nil {
		word.Store(binary.NativeEndian.Uint32(b))
		late()
	}
	copy(there[4:], b[4:])
	word.Store(binary.NativeEndian.Uint32(b))
	copy(old, b)
	p.pi++
	q.total++
}

// rung handles a store to the doorbell.
func (q *CQ) rung(_ int, v uint64) {
	const reserved, arm = 0x1fff << 16, 1 << 31
	m := q.m
	read := uint32(uint16(uint32(v) - q.consumed))
	switch {
	case v&reserved != 0:
		m.note("%v: reserved bits of the doorbell are set: %#08x", q, v)
	case read > q.total-q.consumed:
		m.note("%v: the doorbell says that %d completions were read, after %d, and there are %d", q, uint16(v), q.consumed, q.total)
		return
	}
	q.consumed += read
	// A word that was polled may have been an arm before. An event too many does no harm.
	if arms := v&arm != 0 || m.polled && q.channel; !arms {
		return // an earlier arm stays valid
	}
	if !q.channel {
		m.note("%v: a CQ without a channel is armed", q)
		return
	}
	// An unread event also stands for later ones. While there is one, arming has no effect.
	switch events := uint32(v >> 29); (q.raised - events) & 3 {
	case 0:
		q.armed = true
		q.event()
	case 1:
		if q.raised == 0 {
			m.note("%v: an arm counts %d events, and there was none", q, events&3)
		}
	default:
		m.note("%v: an arm counts %d events (modulo 4), and there were %d", q, events&3, q.raised)
	}
}

// event raises an event if the CQ is armed and there are completions that user space has not read.
func (q *CQ) event() {
	if q.armed && q.total != q.consumed {
		q.armed = false
		q.raised++
		q.cq.RaiseEvent()
	}
}
