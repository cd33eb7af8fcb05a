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

// rq is a queue pair's own receive queue.
type rq struct {
	q       *QP
	addr    uint64
	entries uint32
	size    uint32 // bytes of one
	taken   uint32 // free-running
	busy    []uint32
	entry   []byte // that was read last
}

func (r *rq) reset() { r.taken, r.busy = 0, nil }

// oldest reads the oldest receive. What there is, the record tells; nothing else does.
func (r *rq) oldest() (b []byte, place uint32, ok bool) {
	m := r.q.m
	rec := m.load(r.q, r.q.qp.Num, r.q.record)
	n := uint32(uint16(rec - r.taken))
	switch {
	case rec > 0xffff:
		m.note("%v: the record of receives is %#x, which has more than 16 bits", r.q, rec)
	case n > r.entries:
		m.note("%v: the record tells of %d receives, of a queue of %d", r.q, n, r.entries)
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
	m.blame(m.k.User.Read(r.addr+uint64(place*r.size), b), "%v: its receive queue is gone", r.q)
	return b, place, true
}

// next takes it.
func (r *rq) next() (*fakeverbs.Recv, bool) {
	b, place, ok := r.oldest()
	if !ok {
		return nil, false
	}
	r.q.m.k.CrossEntry(fakeverbs.EntryRQE, r.q.qp.Num, b)
	r.busy = append(r.busy, place)
	to := &fakeverbs.Recv{Index: uint32(uint16(r.taken))}
	r.q.m.scatter(r.q, to, b)
	r.taken++
	return to, true
}

// scatter reads the SGEs of a receive up to the end, or to the mark that there are no more.
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
	addr    uint64
	entries uint32
	size    uint32 // bytes of one
	record  uint64
	taken   uint32 // how many, free-running
	next    uint16 // place of the next
	busy    []uint16
	xrc     bool
	index   uint32 // user space's own, of XRC
}

// CreateSRQ computes the distance of entries from what the core is told.
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
	s := &SRQ{m: m, addr: in.BufAddr, record: in.DbAddr, entries: fakeverbs.RoundPow2(srq.MaxWR + 1), size: max(32, fakeverbs.RoundPow2(16+16*srq.MaxSGE))}
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

// ModifySRQ has a limit only.
func (m *model) ModifySRQ(srq *fakeverbs.SRQ, in *abi.IbUverbsModifySrq, r *ioctl.Request) error {
	if in.AttrMask&abi.IB_SRQ_MAX_WR != 0 {
		return syscall.EINVAL
	}
	return m.Bare.ModifySRQ(srq, in, r)
}

// Free implements [SRQQueue].
func (s *SRQ) Free() {
	s.m.forgetRecord(s.record)
	if s.xrc {
		delete(s.m.indexes, s.index)
	}
}

// oldest reads the next receive of the list that leads through the entries.
func (s *SRQ) oldest() (b []byte, ok bool) {
	m := s.m
	rec := m.load(named("SRQ"), s.Num, s.record)
	n := uint32(uint16(rec - s.taken))
	switch {
	case rec > 0xffff:
		m.note("SRQ %d: its record is %#x, which has more than 16 bits", s.Num, rec)
	case n+uint32(len(s.busy)) >= s.entries:
		m.note("SRQ %d: the record tells of %d receives, and %d are not completed, of %d entries", s.Num, n, len(s.busy), s.entries)
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

// take takes it.
func (s *SRQ) take() (*fakeverbs.Recv, bool) {
	b, ok := s.oldest()
	if !ok {
		return nil, false
	}
	m, place := s.m, s.next
	m.k.CrossShared(s.Num, b)
	if b[0]|b[1] != 0 || slices.ContainsFunc(b[4:16], func(v byte) bool { return v != 0 }) {
		m.note("SRQ %d: reserved bytes of entry %d are set: %x", s.Num, place, b[:16])
	}
	if s.next = binary.BigEndian.Uint16(b[2:]); uint32(s.next) >= s.entries {
		m.note("SRQ %d: entry %d is followed by %d, of %d", s.Num, place, s.next, s.entries)
		s.next = 0
	}
	s.busy = append(s.busy, place)
	s.taken++
	to := &fakeverbs.Recv{Index: uint32(place)}
	m.scatter(named("SRQ"), to, b[16:])
	return to, true
}

func (s *SRQ) done(index uint32) {
	s.busy = slices.DeleteFunc(s.busy, func(place uint16) bool { return uint32(place) == index })
}
