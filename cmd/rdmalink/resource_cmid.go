package main

import "github.com/goverbs/goverbs/netlinkrdma"

var cmIDKeys = []filterKey{
	{"link", false}, {"lqpn", true}, {"qp-type", false}, {"state", false}, {"ps", false}, {"pid", true},
	{"src-addr", false}, {"src-port", true}, {"dst-addr", false}, {"dst-port", true}, {"cm-idn", true},
}

func showCMID(s *resourceShow) error {
	var get func(uint32) (netlinkrdma.CMID, error)
	if s.port != 0 {
		get = func(number uint32) (netlinkrdma.CMID, error) {
			return s.t.RDMA.GetCMID(s.dev.Index, s.port, number)
		}
	}
	return forEach(s, "cm-idn", s.t.RDMA.DumpCMID(s.dev.Index, s.options()), get, s.cmID)
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
	s.p.end(m.Port)
}

func (s *resourceShow) passCMID(m *netlinkrdma.CMID) bool {
	return s.hasPort(m.Port) && s.f.number("lqpn", uint64(m.LQPN), m.LQPN != 0) &&
		s.f.word("qp-type", m.QPType.Value.String(), m.QPType.Known) &&
		s.f.word("state", m.State.String(), true) && s.f.word("ps", m.PS.String(), true) && s.passOwner(m.Owner) &&
		s.passAddr("src", m.Src) && s.passAddr("dst", m.Dst) && s.f.number("cm-idn", uint64(m.CMIDN), true)
}

// passAddr looks at the filters for an address and its port.
func (s *resourceShow) passAddr(end string, a netlinkrdma.CMAddr) bool {
	if len(s.f) == 0 {
		return true
	}
	known := a.AddrPort.IsValid()
	return s.f.word(end+"-addr", a.AddrPort.Addr().String(), known) && s.f.number(end+"-port", uint64(a.AddrPort.Port()), known)
}
