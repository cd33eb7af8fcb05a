package perf

import (
	"github.com/goverbs/goverbs/internal/perftest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// memory is how an end's buffer is divided: a part for each QP to send from, or
// where what it fetches comes to, and then one for each to receive into, which is
// also the part that the peer writes to and reads. Small messages walk through a
// part, a cache line or more a step, as far as the larger of the two ends' pages.
type memory struct {
	part, front int // bytes of a part; and before the receiving parts
	cycle, line int
}

func (o *Options) layout(sys perftest.System) memory {
	m := memory{cycle: sys.CycleBuffer, line: sys.CacheLine}
	m.part = roundUp(max(o.Size, m.cycle), m.line)
	if o.Type == verbs.QPTypeUD {
		m.part = roundUp(max(o.Size+uverbs.GRHSize, m.cycle), m.line)
	}
	m.front = o.QPCount * m.part
	return m
}

func roundUp(n, step int) int { return (n + step - 1) / step * step }

// walk says how far it is from a message of a size to the next, and how many
// there are before it begins again.
//
// C: increase_loc_addr
func (m memory) walk(size int) (step, slots int) {
	if size > m.cycle/2 {
		return 0, 1
	}
	step = roundUp(max(size, 1), m.line)
	return step, max(m.cycle/step, 1)
}

// access is what the peer may do with the buffer, and iWARP with what it reads
// into.
func (o *Options) access(iWARP bool) verbs.Access {
	a := verbs.AccessLocalWrite
	if o.ODP {
		a |= verbs.AccessOnDemand
	}
	switch o.Verb {
	case perftest.Write:
		a |= verbs.AccessRemoteWrite
	case perftest.Read:
		a |= verbs.AccessRemoteRead
		if iWARP {
			a |= verbs.AccessRemoteWrite
		}
	case perftest.Atomic:
		a |= verbs.AccessRemoteAtomic
	}
	return a
}
