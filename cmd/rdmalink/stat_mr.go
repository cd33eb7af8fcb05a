package main

import (
	"context"
	"errors"
	"strings"

	"github.com/goverbs/goverbs/netlinkrdma"
)

// statMRCommand takes a filter where others have a command, as iproute2's mr
// does; so show and help are words of its own.
func statMRCommand(above ...string) command {
	return command{
		names:   []string{"mr"},
		leads:   true,
		args:    "[show] [dev DEV] [mrn MRN]",
		summary: "memory regions, and what is counted of each",
		run: func(ctx context.Context, t *tool, w *words) error {
			switch word := w.peek(); {
			case word == "":
			case strings.HasPrefix("help", word):
				return helpCommand(append(above, "mr")...).run(ctx, t, &words{})
			case strings.HasPrefix("show", word) || strings.HasPrefix("list", word):
				w.advance()
			}
			return t.showResourceKind(&resourceKind{name: "mr", keys: []filterKey{{"dev", false}, {"mrn", true}}, show: showMRCounters}, w)
		},
	}
}

func showMRCounters(s *resourceShow) error {
	get := func(mrn uint32) (netlinkrdma.MRCounters, error) { return s.t.RDMA.GetMRCounters(s.dev.Index, mrn) }
	err := forEach(s, "mrn", s.t.RDMA.DumpMRCounters(s.dev.Index, s.options()), get, s.mrCounters)
	return s.unlessNamed("dev", err)
}

func (s *resourceShow) mrCounters(m netlinkrdma.MRCounters) {
	if !s.f.number("mrn", uint64(m.MRN), true) {
		return
	}
	s.beginOnDevice()
	s.p.uint("mrn", uint64(m.MRN))
	s.p.counters(m.Counters)
	s.p.end(0)
}

// unlessNamed is no error when all devices are shown, and one has no such
// statistics, or is gone.
func (s *resourceShow) unlessNamed(key string, err error) error {
	if s.f.get(key) == nil && errors.Is(err, netlinkrdma.ErrNoStatistics) {
		return nil
	}
	return err
}
