package perf

import (
	"github.com/goverbs/goverbs/internal/perftest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// memory is the layout of an end's buffer. For each QP it has a part to send from,
// or to read into, and a part to receive into, which is also the part that the peer
// writes to and reads. Consecutive small messages use addresses at least a cache
// line apart, within the larger of the two ends' page sizes.
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

// access returns the peer's access rights to the buffer. For iWARP they include the
// destination of READs.
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
