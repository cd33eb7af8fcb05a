package main

import "github.com/goverbs/goverbs/netlinkrdma"

var mrKeys = []filterKey{
	{"dev", false}, {"rkey", true}, {"lkey", true}, {"mrlen", true}, {"pid", true}, {"mrn", true}, {"pdn", true},
}

func showMR(s *resourceShow) error {
	get := func(mrn uint32) (netlinkrdma.MR, error) { return s.t.RDMA.GetMR(s.dev.Index, mrn) }
	return forEach(s, "mrn", s.t.RDMA.DumpMR(s.dev.Index, s.options()), get, s.mr)
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
	return s.pass("rkey", m.RKey) && s.pass("lkey", m.LKey) && s.f.number("mrlen", m.Length, true) &&
		s.passOwner(m.Owner) && s.f.number("mrn", uint64(m.MRN), true) && s.pass("pdn", m.PDN)
}
