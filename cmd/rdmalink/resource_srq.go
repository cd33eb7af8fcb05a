package main

import "github.com/goverbs/goverbs/netlinkrdma"

var srqKeys = []filterKey{
	{"dev", false}, {"pid", true}, {"srqn", true}, {"type", false}, {"pdn", true}, {"cqn", true}, {"lqpn", true},
}

func showSRQ(s *resourceShow) error {
	get := func(srqn uint32) (netlinkrdma.SRQ, error) { return s.t.RDMA.GetSRQ(s.dev.Index, srqn) }
	return forEach(s, "srqn", s.t.RDMA.DumpSRQ(s.dev.Index, s.options()), get, s.srq)
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

// passSRQ leaves, with a filter for QPs, only those of the list that pass.
func (s *resourceShow) passSRQ(r *netlinkrdma.SRQ) bool {
	if f := s.f.get("lqpn"); f != nil {
		if r.LQPN = common(r.LQPN, f.ranges); len(r.LQPN) == 0 {
			return false
		}
	}
	return s.passOwner(r.Owner) && s.f.number("srqn", uint64(r.SRQN), true) && s.f.word("type", r.Type.String(), true) &&
		s.pass("pdn", r.PDN) && s.pass("cqn", r.CQN)
}

// common gives what of the runs of QPs lies in the ranges.
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
