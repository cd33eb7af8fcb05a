package efa

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// device is the state that all openings of a device share. The device's lock guards it.
type device struct {
	ahs map[peer]*address
	// used has the numbers of addresses.
	used     map[uint16]bool
	cqs      map[uint16]bool // the numbers of CQs
	counters int             // that exist
}

func newDevice() *device {
	return &device{ahs: make(map[peer]*address), used: make(map[uint16]bool), cqs: make(map[uint16]bool)}
}

func shared(d *fakeverbs.Device) *device { return d.Shared.(*device) }

// peer is a port that the queue pairs of a PD can reach.
type peer struct {
	k   *fakeverbs.Kernel
	pd  uint32
	gid [16]byte
}

// address is the device's entry for a peer. There is one for all address handles of a PD with the same GID.
type address struct {
	num  uint16
	uses int
	ah   *fakeverbs.AH // one of its address handles
}

// unknown is the number of an address that a PD has no address handle for.
const unknown = 0xffff

// CreateAH creates an address handle. Only the GID counts.
func (m *model) CreateAH(ah *fakeverbs.AH, r *ioctl.Request) error {
	if err := m.wantNoInput(r); err != nil {
		return err
	}
	if ah.Attr.IsGlobal == 0 || ah.Attr.Grh.Dgid == [16]byte{} {
		return syscall.EINVAL
	}
	d := m.k.Device
	d.Lock()
	defer d.Unlock()
	s, key := shared(d), peer{m.k, ah.PD, ah.Attr.Grh.Dgid}
	a := s.ahs[key]
	if a == nil {
		if len(s.used) >= maxAH {
			return syscall.ENOMEM
		}
		a = &address{ah: ah}
		for s.used[a.num] {
			a.num++
		}
		s.used[a.num], s.ahs[key] = true, a
	}
	a.uses++
	ah.Num = uint32(a.num) + 1 // 0 is that of no address
	return answer(m, "CREATE_AH", r, abi.EfaIbvCreateAhResp{EfaAddressHandle: a.num})
}

// DestroyAH ends an address handle. Before Linux 7.3, the kernel does not count the address handles of an address:
// the first one that is destroyed takes it from the others. See [QP.Reaches] for sends to it.
func (m *model) DestroyAH(ah *fakeverbs.AH) {
	if ah.Num == 0 {
		return
	}
	d, num := m.k.Device, uint16(ah.Num-1)
	d.Lock()
	defer d.Unlock()
	s, key := shared(d), peer{m.k, ah.PD, ah.Attr.Grh.Dgid}
	a := s.ahs[key]
	if a == nil || a.num != num {
		return // another address handle took it along
	}
	if a.uses--; a.uses == 0 || m.options.Kernel != Linux73 {
		delete(s.ahs, key)
		delete(s.used, num)
	}
}

// address returns the address of a PD with a GID, or nil.
func (m *model) address(pd uint32, gid [16]byte) *address {
	d := m.k.Device
	d.Lock()
	defer d.Unlock()
	return shared(d).ahs[peer{m.k, pd, gid}]
}

// byNumber returns the address of a PD with a number, or nil.
func (m *model) byNumber(pd uint32, num uint16) *address {
	d := m.k.Device
	d.Lock()
	defer d.Unlock()
	for key, a := range shared(d).ahs {
		if a.num == num && key.k == m.k && key.pd == pd {
			return a
		}
	}
	return nil
}

// Reaches reports whether the address of a send still exists. The device aborts sends whose address has ended.
func (q *QP) Reaches(w *fakeverbs.Work) bool {
	q.qp.Kernel().Lock()
	defer q.qp.Kernel().Unlock()
	s := q.wires[w]
	if s == nil {
		return false
	}
	a := q.m.byNumber(q.qp.PD, s.ah)
	return a != nil && a.ah.Attr.Grh.Dgid == w.To.AH.Attr.Grh.Dgid
}

// Knows reports whether the queue pair's PD has an address handle for a GID. Without one, the peer may neither
// read nor write memory.
func (q *QP) Knows(gid [16]byte) bool {
	q.qp.Kernel().Lock()
	defer q.qp.Kernel().Unlock()
	return q.m.address(q.qp.PD, gid) != nil
}
