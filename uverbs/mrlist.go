package uverbs

import "sync"

// regions are the open memory regions of a device, by local key.
type regions struct {
	mu   sync.RWMutex
	open map[uint32]*MR
}

func (r *regions) add(mr *MR) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == nil {
		r.open = make(map[uint32]*MR)
	}
	r.open[mr.lkey] = mr
}

// remove returns when nobody writes to the region any more.
func (r *regions) remove(mr *MR) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, mr.lkey)
}

// isOnDemand tells of a key that it is of a region whose pages are not pinned.
func (r *regions) isOnDemand(lkey uint32) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	mr := r.open[lkey]
	return mr != nil && mr.access&AccessOnDemand != 0
}

// write puts bytes into the region of a key, as its device would.
func (r *regions) write(lkey uint32, addr uint64, b []byte) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	mr := r.open[lkey]
	if mr == nil || mr.access&AccessLocalWrite == 0 {
		return false
	}
	off := addr
	if mr.access&AccessZeroBased == 0 {
		off -= mr.iova
	}
	if n := uint64(len(mr.data)); off > n || uint64(len(b)) > n-off {
		return false
	}
	copy(mr.data[off:], b)
	return true
}

func (mr *MR) enlist() { mr.pd.dev.regions.add(mr) }
func (mr *MR) delist() { mr.pd.dev.regions.remove(mr) }
