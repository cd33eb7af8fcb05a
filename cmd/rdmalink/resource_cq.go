package main

import "github.com/goverbs/goverbs/netlinkrdma"

var cqKeys = []filterKey{
	{"dev", false}, {"users", true}, {"poll-ctx", false}, {"pid", true}, {"cqn", true}, {"ctxn", true},
}

func showCQ(s *resourceShow) error {
	get := func(cqn uint32) (netlinkrdma.CQ, error) { return s.t.RDMA.GetCQ(s.dev.Index, cqn) }
	return forEach(s, "cqn", s.t.RDMA.DumpCQ(s.dev.Index, s.options()), get, s.cq)
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
	return s.f.number("users", q.Users, true) && s.f.word("poll-ctx", q.PollContext.Value.String(), q.PollContext.Known) &&
		s.passOwner(q.Owner) && s.f.number("cqn", uint64(q.CQN), true) && s.pass("ctxn", q.CTXN)
}
