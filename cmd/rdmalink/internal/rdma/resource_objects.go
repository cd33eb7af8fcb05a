package rdma

import (
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/verbs"
)

var qpKeys = []cli.FilterKey{
	cli.WordKey("link"), cli.NumberKey("lqpn"), cli.NumberKey("rqpn"), cli.NumberKey("pid"), cli.NumberKey("sq-psn"), cli.NumberKey("rq-psn"),
	qpTypeKey("type"), cli.EnumKey("path-mig-state", valueWords[verbs.PathMigState]()...),
	cli.EnumKey("state", valueWords[verbs.QPState]()...), cli.NumberKey("pdn"),
}

// qpTypeKey returns a filter for types of QPs.
func qpTypeKey(name string) cli.FilterKey {
	return cli.EnumKey(name, append(valueWords[verbs.QPType](), verbs.QPTypeDriver.String())...)
}

// showQP requests the QPs of all ports at once. QPs without a port come first.
func showQP(s *resourceShow) error {
	var get func(uint32) (netlinkrdma.QP, error)
	if s.port != 0 {
		get = func(lqpn uint32) (netlinkrdma.QP, error) { return s.t.RDMA.QP(s.dev.Index, s.port, lqpn) }
	}
	return forEach(s, "lqpn", s.t.RDMA.QPs(s.dev.Index, s.options()), get, s.qp)
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
	s.p.end(uint32(q.Port))
}

func (s *resourceShow) passQP(q *netlinkrdma.QP) bool {
	return s.hasPort(q.Port) && s.f.Number("lqpn", uint64(q.LQPN), true) && s.pass("rqpn", q.RQPN) && s.passOwner(q.Owner) &&
		s.f.Number("sq-psn", uint64(q.SQPSN), true) && s.pass("rq-psn", q.RQPSN) && s.f.Word("type", q.Type.String(), true) &&
		s.f.Word("path-mig-state", q.PathMigState.Value.String(), q.PathMigState.Known) &&
		s.f.Word("state", q.State.String(), true) && s.pass("pdn", q.PDN)
}

var cmIDKeys = []cli.FilterKey{
	cli.WordKey("link"), cli.NumberKey("lqpn"), qpTypeKey("qp-type"), cli.EnumKey("state", valueWords[netlinkrdma.CMState]()...),
	cli.EnumKey("ps", verbs.PortSpaceIPoIB.String(), verbs.PortSpaceIB.String(), verbs.PortSpaceTCP.String(), verbs.PortSpaceUDP.String()), cli.NumberKey("pid"),
	cli.WordKey("src-addr"), cli.NumberKey("src-port"), cli.WordKey("dst-addr"), cli.NumberKey("dst-port"), cli.NumberKey("cm-idn"),
}

func showCMID(s *resourceShow) error {
	var get func(uint32) (netlinkrdma.CMID, error)
	if s.port != 0 {
		get = func(number uint32) (netlinkrdma.CMID, error) {
			return s.t.RDMA.CMID(s.dev.Index, s.port, number)
		}
	}
	return forEach(s, "cm-idn", s.t.RDMA.CMIDs(s.dev.Index, s.options()), get, s.cmID)
}

func (s *resourceShow) cmID(m netlinkrdma.CMID) {
	if !s.passCMID(&m) {
		return
	}
	s.beginOnLink(m.Port)
	s.p.uint("cm-idn", uint64(m.CMIDN))
	if m.LQPN != 0 {
		s.p.uint("lqpn", uint64(m.LQPN))
	}
	if m.QPType.Known {
		s.p.word("qp-type", m.QPType.Value.String())
	}
	s.p.word("state", m.State.String())
	s.p.word("ps", m.PS.String())
	s.owner(m.Owner)
	if m.Src.Family != 0 {
		s.p.word("src-addr", m.Src.String())
	}
	if m.Dst.Family != 0 {
		s.p.word("dst-addr", m.Dst.String())
	}
	s.driver(m.Driver)
	s.p.end(uint32(m.Port))
}

func (s *resourceShow) passCMID(m *netlinkrdma.CMID) bool {
	return s.hasPort(m.Port) && s.f.Number("lqpn", uint64(m.LQPN), m.LQPN != 0) &&
		s.f.Word("qp-type", m.QPType.Value.String(), m.QPType.Known) &&
		s.f.Word("state", m.State.String(), true) && s.f.Word("ps", m.PS.String(), true) && s.passOwner(m.Owner) &&
		s.passAddr("src", m.Src) && s.passAddr("dst", m.Dst) && s.f.Number("cm-idn", uint64(m.CMIDN), true)
}

// passAddr reports whether an address and its port pass their filters.
func (s *resourceShow) passAddr(end string, a netlinkrdma.CMAddr) bool {
	if len(s.f) == 0 {
		return true
	}
	known := a.AddrPort.IsValid()
	return s.f.Word(end+"-addr", a.AddrPort.Addr().String(), known) && s.f.Number(end+"-port", uint64(a.AddrPort.Port()), known)
}

var cqKeys = []cli.FilterKey{
	cli.WordKey("dev"), cli.NumberKey("users"), cli.EnumKey("poll-ctx", valueWords[netlinkrdma.PollContext]()...), cli.NumberKey("pid"), cli.NumberKey("cqn"), cli.NumberKey("ctxn"),
}

func showCQ(s *resourceShow) error {
	get := func(cqn uint32) (netlinkrdma.CQ, error) { return s.t.RDMA.CQ(s.dev.Index, cqn) }
	return forEach(s, "cqn", s.t.RDMA.CQs(s.dev.Index, s.options()), get, s.cq)
}

func (s *resourceShow) cq(q netlinkrdma.CQ) {
	if !s.passCQ(&q) {
		return
	}
	s.beginOnDevice()
	s.p.uint("cqn", uint64(q.CQN))
	s.p.uint("cqe", uint64(q.CQE))
	s.p.uint("users", q.Users)
	if q.PollContext.Known {
		s.p.word("poll-ctx", q.PollContext.Value.String())
	}
	if q.AdaptiveModeration.Known {
		s.p.onOff("adaptive-moderation", q.AdaptiveModeration.Value)
	}
	s.optional("ctxn", q.CTXN)
	s.owner(q.Owner)
	s.driver(q.Driver)
	s.p.end(0)
}

func (s *resourceShow) passCQ(q *netlinkrdma.CQ) bool {
	return s.f.Number("users", q.Users, true) && s.f.Word("poll-ctx", q.PollContext.Value.String(), q.PollContext.Known) &&
		s.passOwner(q.Owner) && s.f.Number("cqn", uint64(q.CQN), true) && s.pass("ctxn", q.CTXN)
}

var mrKeys = []cli.FilterKey{
	cli.WordKey("dev"), cli.NumberKey("rkey"), cli.NumberKey("lkey"), cli.NumberKey("mrlen"), cli.NumberKey("pid"), cli.NumberKey("mrn"), cli.NumberKey("pdn"),
}

func showMR(s *resourceShow) error {
	get := func(mrn uint32) (netlinkrdma.MR, error) { return s.t.RDMA.MR(s.dev.Index, mrn) }
	return forEach(s, "mrn", s.t.RDMA.MRs(s.dev.Index, s.options()), get, s.mr)
}

func (s *resourceShow) mr(m netlinkrdma.MR) {
	if !s.passMR(&m) {
		return
	}
	s.beginOnDevice()
	s.p.uint("mrn", uint64(m.MRN))
	s.key("rkey", m.RKey)
	s.key("lkey", m.LKey)
	if m.IOVA.Known {
		s.p.hex("iova", m.IOVA.Value)
	}
	s.p.uint("mrlen", m.Length)
	s.optional("pdn", m.PDN)
	s.owner(m.Owner)
	s.driver(m.Driver)
	s.p.end(0)
}

func (s *resourceShow) passMR(m *netlinkrdma.MR) bool {
	return s.pass("rkey", m.RKey) && s.pass("lkey", m.LKey) && s.f.Number("mrlen", m.Length, true) &&
		s.passOwner(m.Owner) && s.f.Number("mrn", uint64(m.MRN), true) && s.pass("pdn", m.PDN)
}

var pdKeys = []cli.FilterKey{cli.WordKey("dev"), cli.NumberKey("users"), cli.NumberKey("pid"), cli.NumberKey("ctxn"), cli.NumberKey("pdn")}

func showPD(s *resourceShow) error {
	get := func(pdn uint32) (netlinkrdma.PD, error) { return s.t.RDMA.PD(s.dev.Index, pdn) }
	return forEach(s, "pdn", s.t.RDMA.PDs(s.dev.Index, s.options()), get, s.pd)
}

func (s *resourceShow) pd(d netlinkrdma.PD) {
	if !s.f.Number("users", d.Users, true) || !s.passOwner(d.Owner) || !s.pass("ctxn", d.CTXN) || !s.f.Number("pdn", uint64(d.PDN), true) {
		return
	}
	s.beginOnDevice()
	s.p.uint("pdn", uint64(d.PDN))
	s.key("local_dma_lkey", d.LocalDMALKey)
	s.p.uint("users", d.Users)
	s.key("unsafe_global_rkey", d.UnsafeGlobalRKey)
	s.optional("ctxn", d.CTXN)
	s.owner(d.Owner)
	s.driver(d.Driver)
	s.p.end(0)
}

var contextKeys = []cli.FilterKey{cli.WordKey("dev"), cli.NumberKey("pid"), cli.NumberKey("ctxn")}

func showContext(s *resourceShow) error {
	get := func(ctxn uint32) (netlinkrdma.Context, error) { return s.t.RDMA.Context(s.dev.Index, ctxn) }
	return forEach(s, "ctxn", s.t.RDMA.Contexts(s.dev.Index, s.options()), get, s.context)
}

func (s *resourceShow) context(x netlinkrdma.Context) {
	if !s.passOwner(x.Owner) || !s.f.Number("ctxn", uint64(x.CTXN), true) {
		return
	}
	s.beginOnDevice()
	s.p.uint("ctxn", uint64(x.CTXN))
	s.owner(x.Owner)
	s.driver(x.Driver)
	s.p.end(0)
}

var srqKeys = []cli.FilterKey{
	cli.WordKey("dev"), cli.NumberKey("pid"), cli.NumberKey("srqn"), cli.EnumKey("type", valueWords[netlinkrdma.SRQType]()...), cli.NumberKey("pdn"), cli.NumberKey("cqn"), cli.NumberKey("lqpn"),
}

func showSRQ(s *resourceShow) error {
	get := func(srqn uint32) (netlinkrdma.SRQ, error) { return s.t.RDMA.SRQ(s.dev.Index, srqn) }
	return forEach(s, "srqn", s.t.RDMA.SRQs(s.dev.Index, s.options()), get, s.srq)
}

func (s *resourceShow) srq(r netlinkrdma.SRQ) {
	if !s.passSRQ(&r) {
		return
	}
	s.beginOnDevice()
	s.p.uint("srqn", uint64(r.SRQN))
	s.p.word("type", r.Type.String())
	if len(r.LQPN) > 0 {
		s.p.list("lqpn", len(r.LQPN), func(i int) { s.p.value(r.LQPN[i].String()) })
	}
	s.optional("pdn", r.PDN)
	s.optional("cqn", r.CQN)
	s.owner(r.Owner)
	s.driver(r.Driver)
	s.p.end(0)
}

// passSRQ reports whether an SRQ passes. A filter for QPs also reduces the list of its
// QPs to those that pass.
func (s *resourceShow) passSRQ(r *netlinkrdma.SRQ) bool {
	if f := s.f.Get("lqpn"); f != nil {
		if r.LQPN = common(r.LQPN, f.Ranges); len(r.LQPN) == 0 {
			return false
		}
	}
	return s.passOwner(r.Owner) && s.f.Number("srqn", uint64(r.SRQN), true) && s.f.Word("type", r.Type.String(), true) &&
		s.pass("pdn", r.PDN) && s.pass("cqn", r.CQN)
}

// common returns the intersection of QP ranges with number ranges.
func common(qps []netlinkrdma.QPRange, ranges [][2]uint64) []netlinkrdma.QPRange {
	var all []netlinkrdma.QPRange
	for _, q := range qps {
		for _, r := range ranges {
			first, last := max(uint64(q.First), r[0]), min(uint64(q.Last), r[1])
			if first <= last {
				all = append(all, netlinkrdma.QPRange{First: uint32(first), Last: uint32(last)})
			}
		}
	}
	return all
}
