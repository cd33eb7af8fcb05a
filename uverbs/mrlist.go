package uverbs

import (
	"sync"

	"github.com/goverbs/goverbs/verbs"
)

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
	return mr != nil && mr.access&verbs.AccessOnDemand != 0
}

// read takes bytes from the region of a key, as its device would.
func (r *regions) read(lkey uint32, addr uint64, b []byte) bool {
	return r.at(lkey, addr, len(b), 0, func(data []byte) { copy(b, data) })
}

// write puts bytes into the region of a key, as its device would.
func (r *regions) write(lkey uint32, addr uint64, b []byte) bool {
	return r.at(lkey, addr, len(b), verbs.AccessLocalWrite, func(data []byte) { copy(data, b) })
}

// at has n bytes of the region of a key used, if its rights and bounds allow that.
func (r *regions) at(lkey uint32, addr uint64, n int, rights verbs.Access, use func(data []byte)) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	mr := r.open[lkey]
	if mr == nil || mr.access&rights != rights {
		return false
	}
	off := addr
	if mr.access&verbs.AccessZeroBased == 0 {
		off -= mr.iova
	}
	if size := uint64(len(mr.data)); off > size || uint64(n) > size-off {
		return false
	}
	use(mr.data[off:][:n])
	return true
}

func (mr *MR) enlist() { mr.pd.dev.regions.add(mr) }
func (mr *MR) delist() { mr.pd.dev.regions.remove(mr) }
