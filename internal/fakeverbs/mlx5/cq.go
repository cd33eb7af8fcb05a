package mlx5

import (
	"bytes"
	"encoding/binary"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// CQ is the device's side of a completion queue.
type CQ struct {
	Num uint32 // the device's number

	// Stamps holds the time stamps of successful completions, if KeepStamps is set.
	Stamps     []uint64
	KeepStamps bool

	m       *model
	cq      *fakeverbs.CQ
	uar     *uar
	ring    uint64 // address of the ring
	entries uint32
	size    uint64 // bytes per entry
	record  uint64
	pi      uint32 // entries written, free-running
	overrun bool   // a completion was lost

	everArmed bool
	lastArm   uint32
	armed     bool
	solicits  bool
	raised    uint32 // number of events
	held      uint16 // completions since the last event that should raise one
	late      *time.Timer
	entry     [64]byte // buffer for writing completions
}

// The opcodes of completions.
const (
	cqeRequest  = 0
	cqeWriteImm = 1
	cqeRecv     = 2
	cqeRecvImm  = 3
	cqeRecvInv  = 4
	cqeResize   = 5
	cqeReqErr   = 13
	cqeRespErr  = 14
	cqeInvalid  = 15
)

func (m *model) CreateCQ(cq *fakeverbs.CQ, r *ioctl.Request) error {
	if err := (fakeverbs.Bare{}).CreateCQ(cq, r); err != nil {
		return err
	}
	n, _ := r.Value(abi.UVERBS_ATTR_CREATE_CQ_CQE)
	if n > maxCQE {
		return syscall.EINVAL
	}
	const call = "CQ_CREATE"
	in, err := input[abi.Mlx5IbCreateCq](m, call, r, 22)
	if err != nil {
		return err
	}
	if in.CqeSize != 64 && in.CqeSize != 128 || in.Flags&^7 != 0 {
		return syscall.EINVAL
	}
	m.wantZero(call, "compression", uint64(in.CqeCompEn)|uint64(in.CqeCompResFormat))
	m.wantZero(call, "the reserved part", uint64(in.Reserved0)|uint64(in.Reserved1))
	m.wantZero(call, "flags beside the UAR's", uint64(in.Flags&^abi.MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX))
	q := &CQ{m: m, cq: cq, entries: fakeverbs.RoundPow2(uint32(n) + 1), size: uint64(in.CqeSize), ring: in.BufAddr, record: in.DbAddr}
	if q.uar, err = m.uarOfCQ(&in, r); err != nil {
		return err
	}
	if err := m.pin(call, in.BufAddr, uint64(q.entries)*q.size); err != nil {
		return err
	}
	if err := m.pinRecord(call, in.DbAddr); err != nil {
		return err
	}
	q.wantInvalid(call)
	addCQ(m.k.Device, q)
	m.cqs[q.Num] = q
	cq.Queue, cq.Entries = q, q.entries-1
	return answer(m, call, r, abi.Mlx5IbCreateCqResp{Cqn: q.Num})
}

// uarOfCQ returns the UAR for arming the CQ. In a context with dynamic UARs the request must name it.
func (m *model) uarOfCQ(in *abi.Mlx5IbCreateCq, r *ioctl.Request) (*uar, error) {
	number, named := r.Value(abi.MLX5_IB_ATTR_CREATE_CQ_UAR_INDEX)
	if in.Flags&abi.MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX != 0 {
		number, named = uint64(in.UarPageIndex), true
	} else {
		m.wantZero("CQ_CREATE", "the UAR's number, without its flag,", uint64(in.UarPageIndex))
	}
	switch {
	case !m.dynamic:
		if named {
			m.note("CQ_CREATE names UAR %d in a context without dynamic ones", number)
		}
		return m.uars[0], nil
	case !named:
		return nil, syscall.EINVAL
	}
	if u, _ := m.findUAR(uint32(number)); u != nil {
		return u, nil
	}
	m.note("CQ_CREATE names UAR %d, which is not the context's", number)
	return nil, syscall.EINVAL
}

// wantInvalid checks that no entry of a new queue looks like a completion.
func (q *CQ) wantInvalid(call string) {
	all := uint64(q.entries) * q.size
	if q.m.part == nil {
		q.m.part = make([]byte, 1<<14)
	}
	b := q.m.part[:min(all, uint64(len(q.m.part)))]
	for at := uint64(0); at < all; at += uint64(len(b)) {
		if err := q.m.k.User.Read(q.ring+at, b); err != nil {
			q.m.blame(err, "%v: its memory is gone", q)
			return
		}
		for end := q.size; end <= uint64(len(b)); end += q.size {
			if last := b[end-1]; last>>4 != cqeInvalid {
				q.m.note("%s: entry %d of a new queue ends with %#x, and is not marked as never written", call, (at+end)/q.size-1, last)
				return
			}
		}
	}
}

// at reads the last 64 bytes of an entry, which hold the completion.
func (q *CQ) at(i uint32) (b [64]byte) {
	q.m.blame(q.m.k.User.Read(q.address(i), b[:]), "%v: its memory is gone", q)
	return b
}

func (q *CQ) address(i uint32) uint64 {
	return q.ring + uint64(i&(q.entries-1))*q.size + q.size - 64
}

func addCQ(d *fakeverbs.Device, q *CQ) {
	d.Lock()
	defer d.Unlock()
	shared := shared(d)
	shared.cqs++
	q.Num = 0x400 + shared.cqs&0xfffff
}

// Free implements [fakeverbs.CQQueue].
func (q *CQ) Free() {
	q.armed = false
	q.m.forgetRecord(q.record)
	delete(q.m.cqs, q.Num)
}

// CQE is a completion that the device writes, without the owner bit.
type CQE struct {
	Opcode, Syndrome, Vendor uint8
	WQEOpcode                uint8
	Counter                  uint16
	QPN, Queue, Bytes        uint32
	Imm                      [4]byte // in wire order
	From                     uint32  // number of the sender, SL and GRH of a datagram
	SLID                     uint16
	Path                     uint8
	Solicited                bool
	Checks                   [2]byte // valid checksums and header types of a raw packet
	VLAN                     uint16  // the stripped VLAN tag
	Tag                      uint32  // flow tag, which replaces QPN if completions identify queues by index
	Data                     []byte  // data of a short message that isn't in the receive's memory
}

// Complete writes an entry, and raises an event if user space has requested one.
func (q *CQ) Complete(c CQE) {
	q.cq.Kernel().Lock()
	defer q.cq.Kernel().Unlock()
	q.complete(&c)
}

func (q *CQ) complete(c *CQE) {
	b, stamp := &q.entry, uint64(0)
	clear(b[:])
	binary.BigEndian.PutUint32(b[32:], c.Queue)
	binary.BigEndian.PutUint32(b[56:], uint32(c.WQEOpcode)<<24|c.QPN)
	binary.BigEndian.PutUint16(b[60:], c.Counter)
	if c.Opcode == cqeReqErr || c.Opcode == cqeRespErr {
		b[54], b[55] = c.Vendor, c.Syndrome
	} else {
		b[17] = c.Path
		binary.BigEndian.PutUint16(b[22:], c.SLID)
		binary.BigEndian.PutUint32(b[24:], c.From)
		copy(b[28:30], c.Checks[:])
		binary.BigEndian.PutUint16(b[30:], c.VLAN)
		copy(b[36:40], c.Imm[:])
		binary.BigEndian.PutUint32(b[44:], c.Bytes)
		stamp = q.m.clock.stamp()
		binary.BigEndian.PutUint64(b[48:], stamp)
	}
	b[63] = c.Opcode << 4
	if c.Solicited {
		b[63] |= 2
	}
	if !q.hasRoom() {
		if !q.overrun { // the event says that the device has stopped the CQ
			q.overrun = true
			q.cq.Overflow()
		}
		return
	}
	q.putData(b, c.Data)
	q.write(b)
	if q.KeepStamps && c.Opcode < cqeReqErr {
		q.Stamps = append(q.Stamps, stamp)
	}
	q.event(c.Solicited || b[54]|b[55] != 0 && c.Opcode >= cqeReqErr)
}

// hasRoom reports whether the CQ has room. It reads the consumer index from the record.
func (q *CQ) hasRoom() bool {
	ci := q.m.load(q, q.Num, q.record)
	if ci > 0xffffff {
		q.m.note("%v: the record says that %#x were consumed, which has more than 24 bits", q, ci)
	}
	used := (q.pi - ci) & 0xffffff
	if used > q.entries {
		q.m.note("%v: the record says that %d were consumed, of %d that were written", q, ci, q.pi)
		return true
	}
	return used < q.entries
}

// write writes an entry to the ring, the word with the owner bit last.
func (q *CQ) write(b *[64]byte) {
	if q.pi&q.entries != 0 {
		b[63] |= 1
	}
	user := q.m.k.User
	late := q.m.k.CrossCompletion(q.Num, b[:])
	at := q.address(q.pi)
	if late != nil {
		_ = user.Store32(at+60, binary.LittleEndian.Uint32(b[60:]))
		late()
	}
	if q.m.options.WeakLoads {
		q.putLate(at, b[:60])
	} else {
		if err := user.Write(at, b[:56]); err != nil {
			q.m.blame(err, "%v: its memory is gone", q)
		}
		_ = user.Store32(at+56, binary.LittleEndian.Uint32(b[56:]))
	}
	_ = user.Store32(at+60, binary.LittleEndian.Uint32(b[60:]))
	q.pi++
}

// weakWords holds words whose new values the program may not have loaded.
type weakWords struct {
	q  *CQ
	at uint64
	b  []byte
}

func (q *CQ) putLate(at uint64, b []byte) {
	q.m.weak = append(q.m.weak, weakWords{q, at, bytes.Clone(b)})
}

// LoadBarrier makes all writes visible to the program.
func (m *model) LoadBarrier() {
	if !m.options.WeakLoads {
		return
	}
	m.k.Lock()
	defer m.k.Unlock()
	for _, w := range m.weak {
		m.blame(m.k.User.Write(w.at, w.b), "%v: its memory is gone", w.q)
	}
	m.weak = nil
}

// event raises an event if the CQ is armed for this kind of completion. A CQ with moderation waits for the
// configured number of completions or time.
func (q *CQ) event(solicited bool) {
	if !q.armed || !solicited && q.solicits {
		return
	}
	q.held++
	m := &q.cq.Moderation
	if q.held >= m.CqCount {
		q.raise()
		return
	}
	if m.CqPeriod > 0 && q.held == 1 {
		q.late = time.AfterFunc(time.Duration(m.CqPeriod)*time.Microsecond, q.expire)
	}
}

func (q *CQ) raise() {
	q.armed, q.held = false, 0
	if q.late != nil {
		q.late.Stop()
	}
	q.raised++
	q.cq.RaiseEvent()
}

// expire is called at the end of a moderation period.
func (q *CQ) expire() {
	q.cq.Kernel().Lock()
	defer q.cq.Kernel().Unlock()
	if q.armed && q.held > 0 {
		q.raise()
	}
}

// arm handles a store to the doorbell, which has a sequence number, the kind of completions, and the
// consumer index. If there is a later completion, arm raises the event at once.
func (q *CQ) arm(v uint32) {
	m := q.m
	q.everArmed, q.lastArm = true, v
	sequence, ci := v>>28&3, v&0xffffff
	switch {
	case v>>30 != 0 || v>>25&7 != 0:
		m.note("%v: reserved bits of the doorbell are set: %#x", q, v)
	case (q.raised-sequence)&3 > 1:
		m.note("%v: it is armed with sequence number %d, and %d events were raised", q, sequence, q.raised)
	}
	if known := m.load(q, q.Num, q.record); known != ci && !m.options.Late {
		m.note("%v: it is armed from %d on, and the record says that %d were consumed", q, ci, known)
	}
	if sequence != q.raised&3 || (q.pi-ci)&0xffffff > q.entries {
		return // the sequence number is that of an unread event, or invalid
	}
	q.armed, q.solicits, q.held = true, v&(1<<24) != 0, 0
	for i := ci; i != q.pi&0xffffff; i = (i + 1) & 0xffffff {
		b := q.at(i)
		q.event(b[63]&2 != 0 || b[63]>>4 >= cqeReqErr)
	}
}

// ResizeCQ switches to another queue. A special completion marks the end of the old one.
func (m *model) ResizeCQ(cq *fakeverbs.CQ, n uint32, r *ioctl.Request) error {
	const call = "RESIZE_CQ"
	if n == 0 || n > maxCQE {
		return syscall.EINVAL
	}
	in, err := input[abi.Mlx5IbResizeCq](m, call, r, 10)
	if err != nil {
		return err
	}
	q := CQOf(cq)
	if uint64(in.CqeSize) != q.size {
		return syscall.EINVAL
	}
	m.wantZero(call, "the reserved part", uint64(in.Reserved0)|uint64(in.Reserved1))
	next := *q
	next.ring, next.entries = in.BufAddr, fakeverbs.RoundPow2(n+1)
	if err := m.pin(call, next.ring, uint64(next.entries)*next.size); err != nil {
		return err
	}
	used := (q.pi - m.load(q, q.Num, q.record)) & 0xffffff
	if used+1 >= next.entries || used >= q.entries {
		return syscall.EINVAL
	}
	next.wantInvalid(call)
	var marker [64]byte
	marker[63] = cqeResize << 4
	q.write(&marker)
	q.ring, q.entries, cq.Entries = next.ring, next.entries, next.entries-1
	return nil
}

// The completion may contain the data of a short message or of a READ, if the queue pair was created with
// that option. Up to cqeData bytes are in the first half of the completion. In entries of 128 bytes, up to
// longCQEData bytes are in the first half of the entry, before the completion.
const (
	cqeData     = 32
	longCQEData = 64

	dataInside = 1 << 2 // bit of the last byte
	dataBefore = 1 << 3
)

// Keeps reports whether completions may contain short messages.
func (q *QP) Keeps() bool { return q.scatters }

// RecvEntries returns the number of receives that the provider has room for.
func (q *QP) RecvEntries() uint32 { return q.rq.entries }

// Keep stores the data of a SEND if the completion can contain it, and reports whether it does. The memory
// of the receive doesn't change, because user space copies the data.
func (q *QP) Keep(r *fakeverbs.Recv, data []byte) bool {
	if q.qp.Type == abi.IB_UVERBS_QPT_UD || !CQOf(q.qp.RecvCQ).holds(data) {
		return false
	}
	r.Data = data
	return true
}

// KeepFetched is Keep for READs and atomics that complete. Every send of the queue pair must complete, unless
// user space has set a flag.
func (q *QP) KeepFetched(w *fakeverbs.Work, data []byte) bool {
	allowed := q.scattersAny || q.qp.Flags&abi.IB_UVERBS_QP_CREATE_SQ_SIG_ALL != 0
	if q.qp.Type != abi.IB_UVERBS_QPT_RC || !allowed || w.Flags&abi.IB_SEND_SIGNALED == 0 || !CQOf(q.qp.SendCQ).holds(data) {
		return false
	}
	w.Data = data
	return true
}

// holds reports whether there is data and a completion has room for it.
func (q *CQ) holds(data []byte) bool {
	most := cqeData
	if q.size == 128 {
		most = longCQEData
	}
	return len(data) > 0 && len(data) <= most
}

// putData writes the data of a message into a completion, or before it.
func (q *CQ) putData(b *[64]byte, data []byte) {
	switch {
	case len(data) == 0:
	case len(data) <= cqeData:
		copy(b[:], data)
		b[63] |= dataInside
	default:
		if at := q.address(q.pi) - longCQEData; q.m.options.WeakLoads {
			q.putLate(at, data)
		} else {
			_ = q.m.k.User.Write(at, data)
		}
		b[63] |= dataBefore
	}
}
