package main

import "github.com/goverbs/goverbs/netlinkrdma"

var pdKeys = []filterKey{{"dev", false}, {"users", true}, {"pid", true}, {"ctxn", true}, {"pdn", true}}

func showPD(s *resourceShow) error {
	get := func(pdn uint32) (netlinkrdma.PD, error) { return s.t.RDMA.GetPD(s.dev.Index, pdn) }
	return forEach(s, "pdn", s.t.RDMA.DumpPD(s.dev.Index, s.options()), get, s.pd)
}

func (s *resourceShow) pd(d netlinkrdma.PD) {
	if !s.f.number("users", d.Users, true) || !s.passOwner(d.Owner) || !s.pass("ctxn", d.CTXN) || !s.f.number("pdn", uint64(d.PDN), true) {
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
