package providertest

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Tour is short traffic that uses each form of request, each kind of completion and each
// doorbell, and goes around all queues. It is what mutations have to disturb.
type Tour struct {
	// Start makes a pair, whose kernel is told to change before it is used. The pair carries
	// out the traffic in run.
	Start func(t testing.TB, change func(*fakeverbs.Kernel)) (p *Pair, run func())
	// Labels returns a function that is shown each crossing in turn, and says what it is for.
	Labels func() func(*fakeverbs.Crossing) string
	// Keep leaves out sites. Nil keeps all.
	Keep func(site string) bool
}

// Site is a place where something crosses the seam: the first crossing of its kind and label
// in a tour.
type Site struct {
	Kind  fakeverbs.CrossingKind
	Label string
	Bytes []byte
	// First of its kind in all tours.
	First bool

	tour *Tour
	n    int // which crossing of the tour it is
}

func (s *Site) String() string { return strings.TrimSpace(fmt.Sprintf("%s %s", s.Kind, s.Label)) }

// Change is what is done to a crossing.
type Change struct {
	What string
	Do   func(*Pair, *fakeverbs.Crossing)
}

// sites lists them. A site that an earlier tour has is not taken again.
func (m *Mutations) sites(t *testing.T) (all []*Site) {
	seen := make(map[string]bool)
	kinds := make(map[fakeverbs.CrossingKind]bool)
	for i := range m.Tours {
		tour, n := &m.Tours[i], 0
		label := tour.Labels()
		p, run := tour.Start(t, func(k *fakeverbs.Kernel) {
			k.Cross = func(c *fakeverbs.Crossing) {
				s := &Site{Kind: c.Kind, Label: label(c), Bytes: m.bytes(c), tour: tour, n: n}
				n++
				name := s.String()
				if len(s.Bytes) == 0 || seen[name] || tour.Keep != nil && !tour.Keep(name) {
					return
				}
				s.First = !kinds[s.Kind]
				seen[name], kinds[s.Kind] = true, true
				all = append(all, s)
			}
		})
		run()
		p.Close()
		p.NoViolations()
	}
	return all
}

// bytes are those of an entry or a call, or else the value.
func (m *Mutations) bytes(c *fakeverbs.Crossing) []byte {
	switch {
	case c.Bytes == nil && c.Kind == fakeverbs.Doorbell:
		return binary.LittleEndian.AppendUint64(nil, c.Value)
	case c.Kind == fakeverbs.Record:
		return binary.LittleEndian.AppendUint64(nil, c.Value)[:m.RecordBytes]
	}
	return slices.Clone(c.Bytes)
}

// flip changes a bit.
func flip(byte, bit int) func(*Pair, *fakeverbs.Crossing) {
	return func(_ *Pair, c *fakeverbs.Crossing) {
		if c.Bytes != nil {
			c.Bytes[byte] ^= 1 << bit
		} else {
			c.Value ^= 1 << (8*byte + bit)
		}
	}
}

// HandedOverEarly has a completion be seen before it is written.
var HandedOverEarly = Change{"is handed over before it is written", func(p *Pair, c *fakeverbs.Crossing) { c.Torn(p.pollEarly) }}

// WrittenLate has an entry be written after the doorbell.
var WrittenLate = Change{"is written after the doorbell", func(_ *Pair, c *fakeverbs.Crossing) { clear(c.Bytes) }}

// NotMade leaves out a doorbell.
var NotMade = Change{"is not made", func(_ *Pair, c *fakeverbs.Crossing) { c.Drop = true }}

// pollEarly keeps for Reap what it finds.
func (p *Pair) pollEarly() {
	for i := range p.Side {
		wcs := make([]verbs.WC, 2*p.CQE)
		if n, err := p.Side[i].CQ.Poll(wcs); err == nil {
			p.Side[i].Early = append(p.Side[i].Early, wcs[:n]...)
		}
	}
}

// notice says who noticed a mutation.
type notice string

const (
	byModel   notice = "model"
	byTraffic notice = "traffic"
	byEither  notice = "either"
	byNobody  notice = "-"
)

// mutated runs the tour with a change at the site, and tells who noticed. That anything
// panics is an error whatever was changed.
func (s *Site) mutated(t *testing.T, change func(*Pair, *fakeverbs.Crossing)) notice {
	var p *Pair
	var k *fakeverbs.Kernel
	probe := &probe{}
	at := 0
	panicked := probe.run(func() {
		var run func()
		p, run = s.tour.Start(probe, func(kernel *fakeverbs.Kernel) {
			k = kernel
			k.Cross = func(c *fakeverbs.Crossing) {
				if at == s.n {
					change(p, c)
				}
				at++
			}
		})
		run()
	})
	switch {
	case panicked != "":
		t.Errorf("%v, crossing %d: %s", s, s.n, panicked)
		return byNobody
	case len(k.Violations()) > 0:
		return byModel
	case probe.failed:
		return byTraffic
	}
	return byNobody
}
