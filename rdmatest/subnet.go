package rdmatest

import (
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

// SubnetPort is the port of a device in an InfiniBand subnet, for example in one of package madtest. It must be
// comparable. Its methods may be called concurrently, and must not call methods of the fabric.
type SubnetPort interface {
	// State returns the state of the port.
	State() SubnetState
	// Route returns the port at which a packet for a LID arrives, or nil if it gets nowhere.
	Route(lid uint16) SubnetPort
}

// SubnetState is what a subnet and its manager have set at a port.
type SubnetState struct {
	NodeGUID verbs.GUID // of the device
	State    verbs.PortState
	Phys     verbs.PhysState
	LID      uint16 // 0: none yet
	LMC      uint8
	SMLID    uint16
	SMSL     uint8
	CapMask  uint32
	Width    uint8       // as in struct ibv_port_attr
	Speed    uint8       // as in struct ibv_port_attr
	GIDs     []verbs.GID // by GID index
}

// join puts the device on a subnet.
func (d *Device) join(p SubnetPort) {
	d.subnet = p
	d.verbs.NodeGUID = reversed(p.State().NodeGUID)
	d.verbs.SetInfiniBand(0, 0)
	d.verbs.Subnet = func(port abi.IbUverbsQueryPortResp) (abi.IbUverbsQueryPortResp, [][16]byte) {
		s := p.State()
		port.State, port.PhysState, port.Lid, port.Lmc, port.SmLid, port.SmSl = uint8(s.State), uint8(s.Phys), s.LID, s.LMC, s.SMLID, s.SMSL
		port.PortCapFlags, port.ActiveWidth, port.ActiveSpeed = s.CapMask, s.Width, s.Speed
		return port, arrays(s.GIDs)
	}
}

func arrays(gids []verbs.GID) [][16]byte {
	all := make([][16]byte, len(gids))
	for i, g := range gids {
		all[i] = g
	}
	return all
}

// base returns the first LID of the device's port, or 0 if it has none.
func (d *Device) base() uint16 {
	if d.subnet != nil {
		return d.subnet.State().LID
	}
	return d.lid
}

// gidTable returns the GIDs of the device by their index, those that are free as zero.
func (d *Device) gidTable() [][16]byte {
	if d.subnet != nil {
		return arrays(d.subnet.State().GIDs)
	}
	return d.gids
}
