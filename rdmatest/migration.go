package rdmatest

import (
	"sync"

	"github.com/goverbs/goverbs/internal/abi"
)

// CutPath drops everything that is sent to one of the LIDs of a device on InfiniBand, as if a switch on the
// path failed, until heal is called. Each port has two LIDs. A queue pair whose alternate path leads to the
// other one migrates to it after its retries, if it is armed. A device on Ethernet has no LIDs.
func (d *Device) CutPath(lid uint16) (heal func()) {
	d.setCut(lid, true)
	return sync.OnceFunc(func() { d.setCut(lid, false) })
}

func (d *Device) setCut(lid uint16, cut bool) {
	d.fabric.mu.Lock()
	defer d.fabric.mu.Unlock()
	if i := lid - d.lid; d.lid != 0 && i < 1<<lmc {
		d.cutLIDs[i] = cut
		d.fabric.pumpAll()
	}
}

// isCut reports whether nothing arrives at a LID of the device.
func (d *Device) isCut(lid uint16) bool { return d.cutLIDs[lid-d.lid] }

// migrates exchanges the migration state in a packet and its acknowledgement, and reports whether both arrive.
func (f *Fabric) migrates(p, to *pair) bool {
	if !to.hears(p) {
		return false
	}
	if !isReliable(p.qp) {
		return true
	}
	back := to.qp.Attr().Dest
	return f.at(to.d, back.SgidIndex, back.Dgid, back.Dlid) == p.d && p.hears(to)
}

// hears handles the bit "migrated" of a packet of the peer (IBA 17.2.8). If the peer has not migrated, the
// queue pair becomes armed. If the peer has, an armed queue pair migrates too, unless the packet arrived on
// a path other than its alternate path. Then hears drops the packet.
func (p *pair) hears(from *pair) bool {
	own, peers := p.qp.Attr(), from.qp.Attr()
	switch migrated := peers.PathMigState == abi.IB_MIG_MIGRATED; {
	case !migrated:
		p.qp.Arm()
	case own.PathMigState != abi.IB_MIG_ARMED:
	case own.AltDest.Dlid != from.d.base()|uint16(peers.Dest.SrcPathBits) || peers.Dest.Dlid != p.d.base()|uint16(own.AltDest.SrcPathBits):
		p.qp.Raise(abi.IB_EVENT_PATH_MIG_ERR)
		return false
	default:
		return p.qp.Migrate()
	}
	return true
}
