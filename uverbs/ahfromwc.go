package uverbs

import (
	"fmt"
	"math"
	"syscall"

	"github.com/goverbs/goverbs/verbs"
)

// AHFromWC makes the address handle to answer a message with that a UD QP
// received through port (from 1). wc is the completion, grh the first 40 bytes of
// the receive buffer. The answer goes to wc.SrcQP. Handles cost a system call and
// the look at the GID table two more, so keep one a peer, not one a message.
//
// C: ibv_create_ah_from_wc
func (pd *PD) AHFromWC(port uint32, wc *verbs.WC, grh []byte) (*verbs.AH, error) {
	attr, err := pd.dev.AHAttrFromWC(port, wc, grh)
	if err != nil {
		return nil, err
	}
	return pd.CreateAH(attr)
}

// AHAttrFromWC finds the address for [PD.AHFromWC]. SGIDIndex is the slot that
// the message came to; flow label, traffic class and hop limit are the message's.
// A message to a multicast group came to no GID of the port's and is refused;
// [ParseGRH] tells the sender, and [Device.ChooseGID] a GID to answer from.
//
// C: ibv_init_ah_from_wc
func (d *Device) AHAttrFromWC(port uint32, wc *verbs.WC, grh []byte) (*verbs.AHAttr, error) {
	const op = "find the sender of a message to"
	if wc == nil || wc.Status != verbs.StatusSuccess {
		return nil, d.fail(op, syscall.EINVAL, "only a completion without an error tells of one")
	}
	attr := &verbs.AHAttr{DLID: wc.SLID, SL: wc.SL, SrcPathBits: wc.DLIDPathBits, Port: port}
	if wc.Flags&verbs.WCGRH == 0 {
		return d.localAddress(attr, port)
	}
	g, why := parseGRH(grh)
	if why == "" {
		why = g.unanswerable()
	}
	if why != "" {
		return nil, d.fail(op, syscall.EINVAL, why)
	}
	index, err := d.findGID(port, &g)
	if err != nil {
		return nil, err
	}
	attr.Global, attr.DGID, attr.SGIDIndex = true, g.SGID, index
	attr.FlowLabel, attr.TrafficClass, attr.HopLimit = g.FlowLabel, g.TrafficClass, g.HopLimit
	return attr, nil
}

// localAddress is the way by LID, which only InfiniBand has.
func (d *Device) localAddress(attr *verbs.AHAttr, port uint32) (*verbs.AHAttr, error) {
	p, err := d.QueryPort(port)
	if err != nil {
		return nil, err
	}
	if p.LinkLayer == verbs.LinkEthernet || p.GRHRequired {
		return nil, d.fail("find the sender of a message to", syscall.EINVAL, "the completion has no WCGRH, without which RoCE names no sender; is it that of a receive?")
	}
	return attr, nil
}

func (g *GRH) unanswerable() string {
	switch {
	case g.DGID.IsMulticast():
		return fmt.Sprintf("it came to the multicast group %v, which is no GID to answer from: make the address with ParseGRH and ChooseGID", g.DGID)
	case g.SGID.IsMulticast() || g.SGID.Addr().IsUnspecified():
		return fmt.Sprintf("its sender has the address %v, which is nobody's", g.SGID)
	}
	return ""
}

// findGID finds the slot of the port's table that a message came to.
func (d *Device) findGID(port uint32, g *GRH) (uint32, error) {
	table, err := d.GIDTable()
	if err != nil {
		return 0, err
	}
	for i := range table {
		e := &table[i]
		if e.Port == port && e.GID == g.DGID && (e.Type == verbs.GIDTypeRoCEv2) == (g.Type == verbs.GIDTypeRoCEv2) && e.Index <= math.MaxUint8 {
			return e.Index, nil
		}
	}
	return 0, d.fail("find the sender of a message to", verbs.ErrNoGID, fmt.Sprintf("it came to %v, which is no GID (any more) of port %d", g.DGID.Addr(), port))
}
