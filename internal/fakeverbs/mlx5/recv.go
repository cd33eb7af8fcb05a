package mlx5

import (
	"encoding/binary"
	"fmt"
	"slices"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// rq is the receive queue of a queue pair.
type rq struct {
	q       *QP
	addr    uint64
	entries uint32
	size    uint32 // bytes per entry
	taken   uint32 // number of taken receives, free-running
	busy    []uint32
	entry   []byte // the entry that was read last
}

func (r *rq) reset() { r.taken, r.busy = 0, nil }

// oldest reads the oldest receive. Only the record has the number of receives.
func (r *rq) oldest() (b []byte, place uint32, ok bool) {
	m := r.q.m
	rec := m.load(r.q, r.q.qp.Num, r.q.record)
	n := uint32(uint16(rec - r.taken))
	switch {
	case rec > 0xffff:
		m.note("%v: the record of receives is %#x, which has more than 16 bits", r.q, rec)
	case n > r.entries:
		m.note("%v: the record counts %d receives, of a queue of %d", r.q, n, r.entries)
		return nil, 0, false
	}
	if n == 0 || r.entries == 0 {
		return nil, 0, false
	}
	place = r.taken & (r.entries - 1)
	if slices.Contains(r.busy, place) {
		m.note("%v: receive %d is posted where another is not completed", r.q, r.taken)
	}
	r.entry = slices.Grow(r.entry[:0], int(r.size))[:r.size]
	b = r.entry
	if err := m.k.User.Read(r.addr+uint64(place*r.size), b); err != nil {
		m.blame(err, "%v: its receive queue is gone", r.q)
	}
	return b, place, true
}

// next takes the oldest receive.
func (r *rq) next() (*fakeverbs.Recv, bool) {
	b, place, ok := r.oldest()
	if !ok {
		return nil, false
	}
	r.q.m.k.CrossEntry(fakeverbs.EntryRQE, r.q.qp.Num, b)
	r.busy = append(r.busy, place)
	to := r.q.m.k.NewRecv()
	to.Index = uint32(uint16(r.taken))
	r.q.m.scatter(r.q, to, b)
	r.taken++
	return to, true
}

// scatter reads the SGEs of a receive up to the end or the end mark.
func (m *model) scatter(what fmt.Stringer, to *fakeverbs.Recv, b []byte) {
	to.SGL = to.SGLRoom[:0]
	for ; len(b) > 0; b = b[16:] {
		s := fakeverbs.SGE{Length: binary.BigEndian.Uint32(b), LKey: binary.BigEndian.Uint32(b[4:]), Addr: binary.BigEndian.Uint64(b[8:])}
		if s.Length == 0 {
			if s.LKey != 0x100 || s.Addr != 0 {
				m.note("%s: a receive ends with an SGE of key %#x at %#x", what, s.LKey, s.Addr)
			}
			return
		}
		if s.Length&(1<<31) != 0 {
			m.note("%s: a receive has an SGE of %#x bytes", what, s.Length)
		}
		to.SGL = append(to.SGL, s)
	}
}

func (r *rq) done(index uint32) {
	r.busy = slices.DeleteFunc(r.busy, func(place uint32) bool { return place == index&(r.entries-1) })
}

// SRQ is the device's side of a shared receive queue.
type SRQ struct {
	Num uint32

	m       *model
	srq     *fakeverbs.SRQ
	addr    uint64
	entries uint32
	size    uint32 // bytes of one
	record  uint64
	taken   uint32 // number of taken receives, free-running
	next    uint16 // index of the next receive
	busy    []uint16
	present map[uint32]bool // keys of on-demand regions whose memory is present
	faulted int             // index of the last receive if its memory was missing, otherwise -1
	xrc     bool
	index   uint32 // user space's index of an XRC SRQ
}

// CreateSRQ creates an SRQ. It computes the size of entries from the core's attributes.
func (m *model) CreateSRQ(srq *fakeverbs.SRQ, r *ioctl.Request) error {
	const call = "SRQ_CREATE"
	if srq.MaxWR > maxSRQ || srq.MaxSGE > maxRQDesc/16-1 || srq.Limit > srq.MaxWR {
		return syscall.EINVAL
	}
	in, err := input[abi.Mlx5IbCreateSrq](m, call, r, 32)
	if err != nil {
		return err
	}
	if in.Reserved0 != 0 || in.Reserved1 != 0 {
		return syscall.EINVAL
	}
	m.wantZero(call, "the flags", uint64(in.Flags))
	s := &SRQ{m: m, srq: srq, faulted: -1, present: make(map[uint32]bool), addr: in.BufAddr, record: in.DbAddr, entries: fakeverbs.RoundPow2(srq.MaxWR + 1), size: max(32, fakeverbs.RoundPow2(16+16*srq.MaxSGE))}
	if srq.CQ == nil {
		m.wantZero(call, "the index of an SRQ without completions", uint64(in.Uidx))
	} else if err := m.xrcIndex(s, in.Uidx); err != nil {
		return err
	}
	if err := m.pin(call, in.BufAddr, uint64(s.entries)*uint64(s.size)); err != nil {
		return err
	}
	if err := m.pinRecord(call, in.DbAddr); err != nil {
		return err
	}
	addSRQ(m.k.Device, s)
	if srq.CQ != nil {
		srq.Num = s.Num
	}
	srq.Queue, srq.MaxWR, srq.MaxSGE = s, s.entries-1, s.size/16-1
	return answer(m, call, r, abi.Mlx5IbCreateSrqResp{Srqn: s.Num})
}

func addSRQ(d *fakeverbs.Device, s *SRQ) {
	d.Lock()
	defer d.Unlock()
	shared := shared(d)
	shared.srqs++
	s.Num = 0x30 + shared.srqs&0xfffff
}

// ModifySRQ modifies an SRQ. It supports only the limit.
func (m *model) ModifySRQ(srq *fakeverbs.SRQ, in *abi.IbUverbsModifySrq, r *ioctl.Request) error {
	if in.AttrMask&abi.IB_SRQ_MAX_WR != 0 {
		return syscall.EINVAL
	}
	return m.Bare.ModifySRQ(srq, in, r)
}

// Free implements [fakeverbs.SRQQueue].
func (s *SRQ) Free() {
	s.m.forgetRecord(s.record)
	if s.xrc {
		delete(s.m.indexes, s.index)
	}
}

// oldest reads the next receive of the linked list of entries.
func (s *SRQ) oldest() (b []byte, ok bool) {
	m := s.m
	rec := m.load(named("SRQ"), s.Num, s.record)
	n := uint32(uint16(rec - s.taken))
	switch {
	case rec > 0xffff:
		m.note("SRQ %d: its record is %#x, which has more than 16 bits", s.Num, rec)
	case n+uint32(len(s.busy)) >= s.entries:
		m.note("SRQ %d: the record counts %d receives, and %d are not completed, of %d entries", s.Num, n, len(s.busy), s.entries)
		return nil, false
	}
	if n == 0 {
		return nil, false
	}
	if slices.Contains(s.busy, s.next) {
		m.note("SRQ %d: its list leads to entry %d, which is not completed", s.Num, s.next)
	}
	b = make([]byte, s.size)
	m.blame(m.k.User.Read(s.addr+uint64(s.next)*uint64(s.size), b), "SRQ %d: its memory is gone", s.Num)
	return b, true
}

// take takes the next receive.
func (s *SRQ) take() (*fakeverbs.Recv, bool) {
	b, ok := s.oldest()
	if !ok {
		return nil, false
	}
	m, place := s.m, s.next
	m.k.CrossShared(s.Num, b)
	if !m.options.OldBytes && (b[0]|b[1] != 0 || slices.ContainsFunc(b[4:16], func(v byte) bool { return v != 0 })) {
		m.note("SRQ %d: reserved bytes of entry %d are set: %x", s.Num, place, b[:16])
	}
	if s.next = binary.BigEndian.Uint16(b[2:]); uint32(s.next) >= s.entries {
		m.note("SRQ %d: entry %d is followed by %d, of %d", s.Num, place, s.next, s.entries)
		s.next = 0
	}
	if int(place) == s.faulted {
		m.note("SRQ %d: a receive is posted in entry %d, where the device still reads one that it gave back", s.Num, place)
	}
	s.faulted = -1
	s.busy = append(s.busy, place)
	s.taken++
	if s.srq.Limit > 0 && uint32(uint16(m.load(named("SRQ"), s.Num, s.record)-s.taken)) < s.srq.Limit {
		s.srq.Limit = 0 // there is only one event
		m.k.Raise(s.srq.Cookie, abi.IB_EVENT_SRQ_LIMIT_REACHED)
	}
	to := m.k.NewRecv()
	to.Index = uint32(place)
	m.scatter(named("SRQ"), to, b[16:])
	return to, true
}

// isMissing reports whether memory of a receive is missing. It will be present the next time.
func (s *SRQ) isMissing(r *fakeverbs.Recv) (missing bool) {
	for mr := range fakeverbs.Objects[*fakeverbs.MR](s.m.k) {
		for _, e := range r.SGL {
			if e.LKey == mr.Key && mr.Access&abi.IB_UVERBS_ACCESS_ON_DEMAND != 0 && !s.present[e.LKey] {
				s.present[e.LKey], missing = true, true
			}
		}
	}
	return missing
}

func (s *SRQ) done(index uint32) {
	s.busy = slices.DeleteFunc(s.busy, func(place uint16) bool { return uint32(place) == index })
}

// CreateWQ creates a WQ, which the model implements as the receive queue of an internal queue pair.
func (m *model) CreateWQ(w *fakeverbs.WQ, r *ioctl.Request) error {
	const call = "WQ_CREATE"
	if m.options.Infiniband || m.version == 0 || w.Flags&^abi.IB_UVERBS_WQ_FLAGS_CVLAN_STRIPPING != 0 {
		return syscall.EOPNOTSUPP
	}
	in, err := input[abi.Mlx5IbCreateWq](m, call, r, 40)
	if err != nil {
		return err
	}
	switch {
	case in.CompMask != 0 || in.SingleStrideLogNumOfBytes|in.SingleWqeLogNumOfStrides|in.TwoByteShiftEn != 0:
		return syscall.EOPNOTSUPP
	case w.MaxWR == 0:
		return syscall.EINVAL
	}
	m.wantZero(call, "the flags", uint64(in.Flags))
	qp := fakeverbs.NewQP(m.k, &fakeverbs.QP{Num: w.Num, PD: w.PD, RecvCQ: w.CQ, WQ: w, Type: abi.IB_UVERBS_QPT_RAW_PACKET,
		Cap: abi.IbUverbsQpCap{MaxRecvWr: w.MaxWR, MaxRecvSge: w.MaxSGE}})
	q := &QP{m: m, qp: qp, record: in.DbAddr, index: in.UserIndex, register: -1}
	sizes := &abi.Mlx5IbCreateQp{BufAddr: in.BufAddr, RqWqeCount: in.RqWqeCount, RqWqeShift: in.RqWqeShift}
	if err := q.checkSizes(sizes); err != nil {
		return err
	}
	if err := q.pinQueues(call, sizes); err != nil {
		return err
	}
	if err := m.takeIndex(call, q.index); err != nil {
		return err
	}
	if err := m.pinRecord(call, in.DbAddr); err != nil {
		delete(m.indexes, q.index)
		return err
	}
	qp.SetQueues(q)
	w.Queue = q
	return answer(m, call, r, abi.Mlx5IbCreateWqResp{ResponseLength: 8})
}

// StandIn implements [fakeverbs.WQQueue].
func (q *QP) StandIn() *fakeverbs.QP { return q.qp }

// EndWQ implements [fakeverbs.WQQueue].
func (q *QP) EndWQ() {
	q.m.forgetRecord(q.record)
	delete(q.m.indexes, q.index)
	q.qp.EndQueues()
	q.qp.CurState = abi.IB_QPS_RESET
}

// ModifyWQ changes the state of a WQ. It receives packets in the ready state, and drops its receives in
// RESET.
func (m *model) ModifyWQ(w *fakeverbs.WQ, in *abi.IbUverbsExModifyWq, r *ioctl.Request) error {
	b, _ := r.Bytes(abi.UVERBS_ATTR_UHW_IN)
	if len(b) < 8 {
		return syscall.EINVAL
	}
	if !fakeverbs.IsZero(b) {
		return syscall.EOPNOTSUPP
	}
	was := w.State
	if err := (fakeverbs.Bare{}).ModifyWQ(w, in, r); err != nil {
		return err
	}
	q := w.Queue.(*QP)
	switch {
	case w.State == was:
	case w.State == fakeverbs.WQReset:
		q.rq.reset()
		q.qp.CurState = abi.IB_QPS_RESET
	case w.State == fakeverbs.WQReady:
		if v := m.load(q, w.Num, q.record); v != 0 {
			m.note("WQ %d: its record is %d when it becomes ready", w.Num, v)
		}
		q.qp.CurState = abi.IB_QPS_RTR
	default:
		q.EnterError()
	}
	return nil
}

const hashKey = 40 // bytes

// CreateRSSQP creates an RSS queue pair. The device can hash addresses of one version of IP, and ports of
// one transport.
func (m *model) CreateRSSQP(qp *fakeverbs.QP, r *ioctl.Request) error {
	const call = "QP_CREATE"
	in, err := input[abi.Mlx5IbCreateQpRss](m, call, r, 152)
	switch both := func(a, b uint64) bool { return in.RxHashFieldsMask&a != 0 && in.RxHashFieldsMask&b != 0 }; {
	case err != nil:
		return err
	case qp.Type != abi.IB_UVERBS_QPT_RAW_PACKET, in.CompMask != 0, in.Flags != 0, in.RxHashFunction != fakeverbs.HashToeplitz, in.RxHashFieldsMask&^fakeverbs.HashFields != 0:
		return syscall.EOPNOTSUPP
	case in.RxKeyLen != hashKey || in.Reserved != [6]uint8{}, both(fakeverbs.HashIPv4, fakeverbs.HashIPv6), both(fakeverbs.HashTCP, fakeverbs.HashUDP):
		return syscall.EINVAL
	}
	if !fakeverbs.IsZero(in.RxHashKey[hashKey:]) {
		m.note("QP_CREATE: bytes behind the key of %d bytes are set", hashKey)
	}
	qp.Hash = &fakeverbs.Hash{Fields: in.RxHashFieldsMask, Key: in.RxHashKey[:hashKey:hashKey]}
	return answer(m, call, r, abi.Mlx5IbCreateQpResp{})
}

// CreateTarget reads the private bytes of a target QP. They have the same format as those of other QPs, but
// the queues are unused. librdmacm requests receives nevertheless, and libmlx5 then passes the size of a
// receive queue that it doesn't create.
func (m *model) CreateTarget(r *ioctl.Request) error {
	const call = "QP_CREATE"
	in, err := input[abi.Mlx5IbCreateQp](m, call, r, 48)
	switch {
	case err != nil:
		return err
	case m.badIndex(in.Uidx):
		return syscall.EINVAL
	}
	var asked abi.IbUverbsQpCap
	ioctl.Argument(r, abi.UVERBS_ATTR_CREATE_QP_CAP, &asked)
	m.wantZero(call, "a queue of a target QP", uint64(in.SqWqeCount)|in.SqBufAddr)
	if asked.MaxRecvWr == 0 {
		m.wantZero(call, "a receive queue of a target QP", uint64(in.RqWqeCount)|uint64(in.RqWqeShift))
	}
	if !m.options.OldBytes {
		in.Uidx &= uint32(m.version) * 0xffffff
		if !m.options.NoECE {
			in.EceOptions &^= askECE
		}
		m.wantZero(call, "what a target QP does not need", in.BufAddr|in.DbAddr|uint64(in.Flags|in.BfregIndex|in.Uidx|in.EceOptions)|
			uint64(in.Reserved)|uint64(in.DciStreams.LogNumConcurent)|uint64(in.DciStreams.LogNumErrored))
	}
	var resp abi.Mlx5IbCreateQpResp
	if !m.options.NoECE {
		resp.EceOptions = askECE | ECE
	}
	return answer(m, call, r, resp)
}

// badIndex reports whether an index is invalid. With one version of completions user space chooses the index
// by which they identify an object. The other version has no index.
func (m *model) badIndex(index uint32) bool {
	const none = 0xffffff
	return m.version == 0 && index != none || m.version == 1 && index >= none
}

// xrcIndex takes the index of an XRC SRQ. Such SRQs share the indexes of queue pairs.
func (m *model) xrcIndex(s *SRQ, index uint32) error {
	if err := m.takeIndex("SRQ_CREATE", index); err != nil {
		return err
	}
	s.xrc, s.index = true, index
	return nil
}

// takeIndex takes the index of an object other than a queue pair.
func (m *model) takeIndex(call string, index uint32) error {
	if m.badIndex(index) {
		return syscall.EINVAL
	}
	if m.isTaken(index) {
		m.note("%s: index %d is that of another object", call, index)
	}
	m.indexes[index] = true
	return nil
}

// sharedNumber reads the number of the peer's SRQ.
func (c *reader) sharedNumber() {
	b := c.take("the number of an SRQ", 16)
	c.SRQN = binary.BigEndian.Uint32(b)
	if !c.q.m.options.OldBytes {
		c.wantZeros("the number of an SRQ", b[4:])
	}
	if c.SRQN>>24 != 0 {
		c.note("an SRQ's number of %#x", c.SRQN)
	}
}

// target is the queues of a target QP that receives through an SRQ of its domain, which may belong to another
// process. The lock is that of the SRQ's kernel.
type target struct {
	fakeverbs.Gone
	qp  *fakeverbs.QP // view of the SRQ's process
	srq *fakeverbs.SRQ
}

func (t *target) NextRecv() (*fakeverbs.Recv, bool) { return SRQOf(t.srq).take() }

func (t *target) RecvDone(r *fakeverbs.Recv, wc abi.IbUverbsWc, solicited bool) {
	c := received(r, &wc, solicited)
	s := SRQOf(t.srq)
	s.done(r.Index)
	c.QPN, c.Counter, c.Queue = t.qp.Num, uint16(r.Index), s.index
	if s.m.version == 0 {
		c.Queue = s.Num
	}
	CQOf(t.srq.CQ).complete(&c)
}

// EnterError moves the target to the error state from any state.
func (t *target) EnterError() {
	_ = t.qp.Shared(func() error {
		t.qp.CurState = abi.IB_QPS_ERR
		return nil
	})
}

// Target implements the SRQ queues that target QPs receive through.
func (s *SRQ) Target(view *fakeverbs.QP, srq *fakeverbs.SRQ) fakeverbs.Queues {
	return &target{qp: view, srq: srq}
}
