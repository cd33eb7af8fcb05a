package pingpong

import (
	"fmt"

	"github.com/goverbs/goverbs/verbs"
)

// connect connects each QP to its counterpart.
//
// C: pp_connect_ctx
func (p *session) connect(e *end, local, remote []addr, sgid uint32) (err error) {
	if e.port.GRHRequired && remote[0].gid == (verbs.GID{}) {
		return fmt.Errorf("the peer sent no GID, which %s needs: start the peer with -g and the index of a GID", e.dev.Info().Name)
	}
	for i, qp := range e.qps {
		attr := &verbs.QPAttr{PathMTU: p.mtu, DestQPN: remote[i].qpn, RQPSN: remote[i].psn, SQPSN: local[i].psn, AH: p.path(remote[i], sgid)}
		if err := qp.Connect(attr); err != nil {
			return err
		}
	}
	if p.kind.qpType != verbs.QPTypeUD {
		return nil
	}
	path := p.path(remote[0], sgid)
	if e.ah, err = e.pd.CreateAH(&path); err != nil {
		return err
	}
	e.own(e.ah)
	return nil
}

// path is the way to the peer. C sends connected traffic with a hop limit of 1.
func (p *session) path(remote addr, sgid uint32) verbs.AHAttr {
	attr := verbs.AHAttr{DLID: remote.lid, SL: uint8(p.sl), Port: uint32(p.ibPort)}
	if remote.gid != (verbs.GID{}) {
		attr.Global, attr.DGID, attr.SGIDIndex, attr.HopLimit = true, remote.gid, sgid, 64
	}
	return attr
}
