package fakeverbs

import (
	"github.com/goverbs/goverbs/internal/abi"
)

// covers tells whether the region has a piece of memory.
func (mr *MR) covers(addr, length uint64) bool {
	return addr >= mr.Start && addr-mr.Start <= mr.Length && length <= mr.Length-(addr-mr.Start)
}

// LocalOK tells whether a work request of the queue pair may name a piece of memory, to be
// read or written. Nothing needs no key.
func (qp *QP) LocalOK(s SGE, write bool) bool {
	if s.Length == 0 {
		return true
	}
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	if qp.k.isNull(s.LKey) {
		return true
	}
	mr := qp.k.keys[s.LKey]
	return mr != nil && mr.PD == qp.PD && !mr.ended && mr.covers(s.Addr, uint64(s.Length)) &&
		(!write || mr.Access&abi.IB_UVERBS_ACCESS_LOCAL_WRITE != 0)
}

// RemoteOK tells whether a peer's key opens memory to it. Right is an access flag.
func (qp *QP) RemoteOK(key uint32, addr, length uint64, right uint32) bool {
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	if mw := qp.k.windows[key]; mw != nil {
		return mw.to(qp) && mw.Bound.Access&right == right && mw.covers(addr, length)
	}
	mr := qp.k.keys[key]
	return mr != nil && mr.PD == qp.PD && !mr.ended && mr.Access&right == right && mr.covers(addr, length)
}

// QPAccess are the rights that the queue pair gives to its peer at all.
func (qp *QP) QPAccess() uint32 {
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	return qp.Attrs.QpAccessFlags
}

// Invalidate ends a key of a region, or of a window of type 2, and reports whether there
// was such a one.
func (qp *QP) Invalidate(key uint32) bool {
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	if mw := qp.k.windows[key]; mw != nil {
		if mw.Type != 2 || !mw.to(qp) {
			return false
		}
		mw.Bound = nil
		return true
	}
	mr := qp.k.keys[key]
	if mr == nil || mr.PD != qp.PD || mr.ended {
		return false
	}
	mr.ended = true
	return true
}

// Bind opens a window, or with length 0 closes it, and reports whether it may.
func (qp *QP) Bind(b *Binding) bool {
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	mw, mr := qp.k.windows[b.RKey], qp.k.keys[b.LKey]
	const writes = abi.IB_UVERBS_ACCESS_REMOTE_WRITE | abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC
	switch {
	case mw == nil || mw.pd != qp.PD || mw.Type == 2 && mw.Bound != nil:
		return false
	case b.Length == 0 && mw.Type == 1:
		mw.Bound = nil
	case mr == nil || mr.PD != qp.PD || mr.ended || mr.Access&abi.IB_UVERBS_ACCESS_MW_BIND == 0 || !mr.covers(b.Addr, b.Length),
		b.Access&writes != 0 && mr.Access&abi.IB_UVERBS_ACCESS_LOCAL_WRITE == 0:
		return false
	default:
		mw.Bound, mw.qp = b, qp
	}
	delete(qp.k.windows, mw.RKey)
	mw.RKey = mw.RKey&^0xff | b.NewRKey&0xff
	qp.k.windows[mw.RKey] = mw
	return true
}

// HasKey tells whether a key is one of the opening's.
func (qp *QP) HasKey(key uint32) bool {
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	return qp.k.keys[key] != nil || qp.k.windows[key] != nil
}

// Memory is what a key that is right names: where the memory is, and at which address in there.
func (qp *QP) Memory(key uint32, addr uint64) (Memory, uint64) {
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	if mr := qp.k.keys[key]; mr != nil && mr.DM != nil {
		return &mr.DM.memory, mr.DM.Start + mr.Offset + addr - mr.Start
	}
	return qp.k.User, addr
}

// RemoteMemory is Memory for a peer's request. The race detector does not see what a peer does
// with memory of this process, as it sees nothing of a device's access.
func (qp *QP) RemoteMemory(key uint32, addr uint64) (Memory, uint64) {
	m, at := qp.Memory(key, addr)
	if l, ok := m.(*lent); ok && raceEnabled {
		return unseen{l}, at
	}
	return m, at
}
