package main

import (
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/verbs"
)

var qpKeys = []filterKey{
	{"link", false}, {"lqpn", true}, {"rqpn", true}, {"pid", true}, {"sq-psn", true}, {"rq-psn", true},
	{"type", false}, {"path-mig-state", false}, {"state", false}, {"pdn", true},
}

// showQP asks for the QPs of all ports at once; those without come first.
func showQP(s *resourceShow) error {
	var get func(uint32) (netlinkrdma.QP, error)
	if s.port != 0 {
		get = func(lqpn uint32) (netlinkrdma.QP, error) { return s.t.RDMA.GetQP(s.dev.Index, s.port, lqpn) }
	}
	return forEach(s, "lqpn", s.t.RDMA.DumpQP(s.dev.Index, s.options()), get, s.qp)
}

func (s *resourceShow) qp(q netlinkrdma.QP) {
	if !s.passQP(&q) {
		return
	}
	s.beginOnLink(q.Port)
	s.p.uint("lqpn", uint64(q.LQPN))
	s.optional("rqpn", q.RQPN)
	s.p.word("type", q.Type.String())
	if q.Type == verbs.QPTypeDriver && q.Subtype != "" {
		s.p.word("subtype", q.Subtype)
	}
	s.p.word("state", q.State.String())
	s.optional("rq-psn", q.RQPSN)
	s.p.uint("sq-psn", uint64(q.SQPSN))
	if q.PathMigState.Known {
		s.p.word("path-mig-state", q.PathMigState.Value.String())
	}
	s.optional("pdn", q.PDN)
	s.owner(q.Owner)
	s.driver(q.Driver)
	s.p.end(q.Port)
}

func (s *resourceShow) passQP(q *netlinkrdma.QP) bool {
	return s.hasPort(q.Port) && s.f.number("lqpn", uint64(q.LQPN), true) && s.pass("rqpn", q.RQPN) && s.passOwner(q.Owner) &&
		s.f.number("sq-psn", uint64(q.SQPSN), true) && s.pass("rq-psn", q.RQPSN) && s.f.word("type", q.Type.String(), true) &&
		s.f.word("path-mig-state", q.PathMigState.Value.String(), q.PathMigState.Known) &&
		s.f.word("state", q.State.String(), true) && s.pass("pdn", q.PDN)
}
