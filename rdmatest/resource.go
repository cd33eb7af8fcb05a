package rdmatest

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
	"github.com/goverbs/goverbs/verbs"
)

// changes reports whether an operation of netlink changes something. A fabric is only changed by its methods.
func changes(op uint16) bool {
	switch op {
	case abi.RDMA_NLDEV_CMD_SET, abi.RDMA_NLDEV_CMD_SYS_SET, abi.RDMA_NLDEV_CMD_NEWLINK, abi.RDMA_NLDEV_CMD_DELLINK,
		abi.RDMA_NLDEV_CMD_NEWDEV, abi.RDMA_NLDEV_CMD_DELDEV, abi.RDMA_NLDEV_CMD_STAT_SET, abi.RDMA_NLDEV_CMD_STAT_DEL,
		abi.RDMA_NLDEV_CMD_FRMR_POOLS_SET:
		return true
	}
	return false
}

// lists reports whether an operation of netlink lists objects.
func lists(op uint16) bool {
	switch op {
	case abi.RDMA_NLDEV_CMD_RES_GET, abi.RDMA_NLDEV_CMD_RES_QP_GET, abi.RDMA_NLDEV_CMD_RES_CM_ID_GET, abi.RDMA_NLDEV_CMD_RES_CQ_GET,
		abi.RDMA_NLDEV_CMD_RES_MR_GET, abi.RDMA_NLDEV_CMD_RES_PD_GET, abi.RDMA_NLDEV_CMD_RES_CTX_GET, abi.RDMA_NLDEV_CMD_RES_SRQ_GET:
		return true
	}
	return false
}

// objects returns what netlink lists of the objects of all programs.
func (d *Device) objects() (all nltest.Objects) {
	for _, k := range d.verbs.Openings() {
		d.list(k, &all)
	}
	all.CMID = d.cmIDs()
	return all
}

// cmIDs returns the connection manager's IDs that have this device, sorted by their numbers.
func (d *Device) cmIDs() (all []netlinkrdma.CMID) {
	d.fabric.mu.Lock()
	defer d.fabric.mu.Unlock()
	for _, handle := range slices.Sorted(maps.Keys(d.fabric.manager.ids)) {
		if id := d.fabric.manager.ids[handle]; id.d == d && !id.dropped {
			all = append(all, id.resource())
		}
	}
	return all
}

func (id *cmID) resource() netlinkrdma.CMID {
	r := netlinkrdma.CMID{Owner: netlinkrdma.Owner{TID: uint32(id.channel.owner)}, Port: 1, CMIDN: id.handle, LQPN: id.qpn, PS: verbs.PortSpaceTCP,
		State: netlinkrdma.CMStateAddrBound, Src: addrOf(id.src), Dst: addrOf(id.dst)}
	typ := verbs.QPTypeRC
	if id.datagram {
		r.PS, typ = verbs.PortSpaceUDP, verbs.QPTypeUD
	}
	r.QPType = netlinkrdma.Opt[verbs.QPType]{Value: typ, Known: id.qpn != 0}
	switch {
	case id.listens:
		r.State = netlinkrdma.CMStateListen
	case id.parted:
		r.State = netlinkrdma.CMStateDisconnect
	case id.begun:
		r.State = netlinkrdma.CMStateConnect
	case id.routed:
		r.State = netlinkrdma.CMStateRouteResolved
	case id.to != nil:
		r.State = netlinkrdma.CMStateAddrResolved
	}
	return r
}

func addrOf(a netip.AddrPort) netlinkrdma.CMAddr {
	var b [128]uint8
	if a.IsValid() {
		putSockaddr(&b, a)
	}
	return netlinkrdma.CMAddr{Family: uint16(b[0]), AddrPort: a}
}

func (d *Device) list(k *fakeverbs.Kernel, all *nltest.Objects) {
	owner := netlinkrdma.Owner{TID: uint32(k.Owner)}
	cqs, pds, srqs := len(all.CQ), len(all.PD), len(all.SRQ)
	receivers := make(map[*fakeverbs.SRQ][]netlinkrdma.QPRange)
	var listed []*fakeverbs.SRQ
	context := k.Track(func(r fakeverbs.Resource) {
		switch b := r.Body.(type) {
		case fakeverbs.PD:
			all.PD = append(all.PD, netlinkrdma.PD{Owner: owner, PDN: r.Number, Users: uint64(r.Users)})
		case *fakeverbs.CQ:
			all.CQ = append(all.CQ, netlinkrdma.CQ{Owner: owner, CQN: r.Number, CQE: b.Entries, Users: uint64(r.Users)})
		case *fakeverbs.MR:
			all.MR = append(all.MR, netlinkrdma.MR{Owner: owner, MRN: r.Number, Length: b.Length, PDN: some(r.PD)})
		case *fakeverbs.QP:
			all.QP = append(all.QP, resourceQP(owner, b, r.PD))
			if b.SRQ != nil {
				receivers[b.SRQ] = append(receivers[b.SRQ], netlinkrdma.QPRange{First: b.Num, Last: b.Num})
			}
		case *fakeverbs.SRQ:
			s := netlinkrdma.SRQ{Owner: owner, SRQN: r.Number, PDN: some(r.PD), CQN: some(r.CQ)}
			if b.CQ != nil {
				s.Type = netlinkrdma.SRQTypeXRC
			}
			all.SRQ = append(all.SRQ, s)
			listed = append(listed, b)
		}
	})
	if context == 0 {
		return
	}
	all.Context = append(all.Context, netlinkrdma.Context{Owner: owner, CTXN: context})
	for i := range all.CQ[cqs:] {
		all.CQ[cqs+i].CTXN = some(context)
	}
	for i := range all.PD[pds:] {
		all.PD[pds+i].CTXN = some(context)
	}
	for i, srq := range listed {
		all.SRQ[srqs+i].LQPN = receivers[srq]
	}
}

func some(n uint32) netlinkrdma.Opt[uint32] {
	return netlinkrdma.Opt[uint32]{Value: n, Known: n != 0}
}

func resourceQP(owner netlinkrdma.Owner, b *fakeverbs.QP, pd uint32) netlinkrdma.QP {
	a := &b.Attrs
	qp := netlinkrdma.QP{Owner: owner, LQPN: b.Num, Type: verbs.QPType(b.Type), State: verbs.QPState(b.CurState), Port: int(a.PortNum),
		SQPSN: a.SqPsn, PDN: some(pd)}
	switch b.Type {
	case abi.IB_UVERBS_QPT_RC, abi.IB_UVERBS_QPT_UC:
		qp.RQPN = netlinkrdma.Opt[uint32]{Value: a.DestQpNum, Known: true}
		qp.RQPSN = netlinkrdma.Opt[uint32]{Value: a.RqPsn, Known: true}
		fallthrough
	case abi.IB_UVERBS_QPT_XRC_INI, abi.IB_UVERBS_QPT_XRC_TGT:
		qp.PathMigState = netlinkrdma.Opt[verbs.PathMigState]{Value: verbs.PathMigState(a.PathMigState), Known: true}
	}
	return qp
}
