package main

import "github.com/goverbs/goverbs/netlinkrdma"

var contextKeys = []filterKey{{"dev", false}, {"pid", true}, {"ctxn", true}}

func showContext(s *resourceShow) error {
	get := func(ctxn uint32) (netlinkrdma.Context, error) { return s.t.RDMA.GetContext(s.dev.Index, ctxn) }
	return forEach(s, "ctxn", s.t.RDMA.DumpContext(s.dev.Index, s.options()), get, s.context)
}

func (s *resourceShow) context(x netlinkrdma.Context) {
	if !s.passOwner(x.Owner) || !s.f.number("ctxn", uint64(x.CTXN), true) {
		return
	}
	s.beginOnDevice()
	s.p.uint("ctxn", uint64(x.CTXN))
	s.owner(x.Owner)
	s.driver(x.Driver)
	s.p.end(0)
}
