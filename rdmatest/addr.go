package rdmatest

import (
	"net/netip"
	"slices"

	"github.com/goverbs/goverbs/internal/abi"
)

// AddAddr gives the network device of a device on RoCE an address, and takes the address from the device that had it,
// as when it moves to another host. The GID table has it at the lowest free index, unless the table is full. An index
// that queue pairs or address handles still use is not free. Programs that have a device open whose table changes
// receive the event GID_CHANGE. As on Linux, IDs of the connection manager receive no event. On other devices AddAddr
// does nothing, because their GIDs don't depend on addresses.
func (d *Device) AddAddr(a netip.Addr) {
	f := d.fabric
	f.mu.Lock()
	defer f.mu.Unlock()
	a = a.Unmap()
	old := f.owner(a)
	if !d.verbs.IsRoCE() || old == d {
		return
	}
	if old != nil {
		old.removeAddr(a)
	}
	d.addrs = append(slices.Clip(d.addrs), a)
	i := 0
	for i < len(d.gids) && (d.hasGID(i) || d.usesGID(i)) {
		i++
	}
	gids := slices.Clone(d.gids)
	switch {
	case i < len(gids):
		gids[i] = a.As16()
	case i < int(d.verbs.Limits.Port.GidTblLen):
		gids = append(gids, a.As16())
	}
	d.setGIDs(gids)
}

// RemoveAddr takes an address from the network device of a device on RoCE. Nothing that is sent to the address arrives
// any more, and queue pairs and address handles with its GID send nothing: connections retry as often as their retry
// counts allow. Other than that, it does what AddAddr does. If the device does not have the address, RemoveAddr does
// nothing.
func (d *Device) RemoveAddr(a netip.Addr) {
	d.fabric.mu.Lock()
	defer d.fabric.mu.Unlock()
	d.removeAddr(a.Unmap())
}

func (d *Device) removeAddr(a netip.Addr) {
	i := slices.Index(d.addrs, a)
	if i < 0 || !d.verbs.IsRoCE() {
		return
	}
	d.addrs = slices.Delete(slices.Clone(d.addrs), i, i+1)
	gids := slices.Clone(d.gids)
	if i := slices.Index(gids, a.As16()); i >= 0 {
		gids[i] = [16]byte{}
	}
	d.setGIDs(gids)
}

// setGIDs replaces the GID table, in which free indices are zero, and raises the event.
func (d *Device) setGIDs(gids [][16]byte) {
	if slices.Equal(d.gids, gids) {
		return
	}
	d.gids = gids
	d.verbs.SetGIDs(gids...)
	d.verbs.Raise(abi.IB_EVENT_GID_CHANGE)
	d.fabric.pumpAll()
}

// hasGID reports whether the GID table has an entry at an index.
func (d *Device) hasGID(i int) bool {
	gids := d.gidTable()
	return i < len(gids) && gids[i] != [16]byte{}
}

// usesGID reports whether a queue pair or an address handle has a GID index.
func (d *Device) usesGID(i int) bool {
	for _, k := range d.verbs.Openings() {
		for _, qp := range k.QueuePairs() {
			if a := qp.Attr(); a.QpState >= abi.IB_QPS_RTR && a.Dest.IsGlobal != 0 && int(a.Dest.SgidIndex) == i {
				return true
			}
		}
		for _, ah := range k.AddressHandles() {
			if ah.Attr.IsGlobal != 0 && int(ah.Attr.Grh.SgidIndex) == i {
				return true
			}
		}
	}
	return false
}
