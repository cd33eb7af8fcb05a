package providertest

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/verbs"
)

// Mutations change one crossing of the seam at a time, and list the observers that notice.
type Mutations struct {
	Tours []Tour
	// Bits returns the bits of byte i of a site to change, one at a time.
	Bits func(s *Site, i int) []int
	// Answers are attributes of the driver's own methods, whose answers are sites, too.
	Answers map[string][]uint16
	// Stores are changes of how and when something is stored.
	Stores func(*Site) []Change
	// Address reports whether a byte is part of an address, as any memory may be at another
	// address.
	Address func(s *Site, i int) bool
	// Why is asked first for the reason why nobody notices a change that is not one of a byte.
	Why     func(site, change string) string
	Reasons []Reason
	// RecordBytes is how long a doorbell record is.
	RecordBytes int
	// Noticed is how many changes are noticed by the model, by the traffic, by either of them, and by neither. The
	// model reports a violation. The traffic receives wrong data, or none. For a wrong address, the memory
	// at that address decides between the two.
	Noticed [4]int
}

// Reason is the reason why nobody can notice changes of these bytes of sites with these prefixes.
type Reason struct {
	sites       string
	first, last int
	bits        string // those among them; all when empty
	why         string
}

// Because makes a Reason.
func Because(sites string, first, last int, bits, why string) Reason {
	return Reason{sites, first, last, bits, why}
}

// row is a line of the list: a change, and the observers that noticed it.
type row struct {
	what  string
	bytes [2]int // first and last, with bits
	bits  string
	other string // what else was changed
	who   notice
	why   string // the reason if nobody did
}

func (r *row) String() string {
	where := r.other
	switch {
	case where != "":
	case r.bytes[0] == r.bytes[1]:
		where = fmt.Sprintf("byte %d", r.bytes[0])
	default:
		where = fmt.Sprintf("bytes %d-%d", r.bytes[0], r.bytes[1])
	}
	if r.bits != "" {
		where += " bits " + r.bits
	}
	return strings.TrimRight(fmt.Sprintf("%-40s %-36s %-8s %s", r.what, where, r.who, r.why), " ")
}

// Test makes all changes, one at a time. It fails if nobody notices a change and there is no reason for
// that, or if their numbers are others than Noticed. With -v or after a failure it prints the list.
func (m *Mutations) Test(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine: nothing for the race detector")
	}
	var rows []row
	count := make(map[notice]int)
	for _, s := range m.sites(t) {
		rows = append(rows, m.eachByte(t, s, count)...)
		for _, c := range m.Stores(s) {
			r := row{what: s.String(), other: c.What, who: m.mutated(t, s, -1, c.Do)}
			count[r.who]++
			rows = append(rows, r)
		}
	}
	var list strings.Builder
	for _, r := range m.explained(t, rows) {
		list.WriteString(r.String() + "\n")
	}
	t.Log("\n" + list.String())
	if got := [4]int{count[byModel], count[byTraffic], count[byEither], count[byNobody]}; got != m.Noticed {
		t.Errorf("the model, the traffic, either and nobody noticed %v changes, want %v: if that is right, change Noticed", got, m.Noticed)
	}
}

func (m *Mutations) eachByte(t *testing.T, s *Site, count map[notice]int) (rows []row) {
	for i := range s.Bytes {
		bits := m.Bits(s, i)
		by := map[notice]string{}
		for _, bit := range bits {
			who := m.mutated(t, s, i, flip(i, bit))
			if who != byNobody && s.Kind == fakeverbs.CallIn && m.Address != nil && m.Address(s, i) {
				who = byEither
			}
			by[who] += fmt.Sprint(bit)
			count[who]++
		}
		for _, who := range []notice{byModel, byTraffic, byEither, byNobody} {
			if by[who] == "" {
				continue
			}
			r := row{what: s.String(), bytes: [2]int{i, i}, who: who}
			if r.bits = by[who]; len(r.bits) == len(bits) {
				r.bits = ""
			}
			rows = append(rows, r)
		}
	}
	return rows
}

// explained joins neighbouring rows with the same result, and adds the reasons where nobody
// noticed. Each reason must apply to a row.
func (m *Mutations) explained(t *testing.T, rows []row) (all []row) {
	used := make(map[int]bool)
	for _, r := range rows {
		if r.who == byNobody {
			if r.why = m.why(&r, used); r.why == "" {
				t.Errorf("nobody notices, and there is no reason: %v", &r)
			}
		}
		if n := len(all); n > 0 && r.other == "" && r.bits == "" {
			l := &all[n-1]
			if l.other == "" && l.bits == "" && l.what == r.what && l.who == r.who && l.why == r.why && l.bytes[1]+1 == r.bytes[0] {
				l.bytes[1] = r.bytes[0]
				continue
			}
		}
		all = append(all, r)
	}
	for i, reason := range m.Reasons {
		if !used[i] {
			t.Errorf("reason %d explains nothing: %+v", i, reason)
		}
	}
	return all
}

// why returns the reason for a row, or none.
func (m *Mutations) why(r *row, used map[int]bool) string {
	if r.other != "" {
		if m.Why == nil {
			return ""
		}
		return m.Why(r.what, r.other)
	}
	for i, w := range m.Reasons {
		if strings.HasPrefix(r.what, w.sites) && r.bytes[0] >= w.first && r.bytes[0] <= w.last && (w.bits == "" || strings.Trim(r.bits, w.bits) == "") {
			used[i] = true
			return w.why
		}
	}
	return ""
}

// Tour is short traffic that uses each form of request, each kind of completion and each
// doorbell, and goes around all queues. Mutations have to disturb it.
type Tour struct {
	// Start makes a pair, whose kernel is passed to change before it is used. The pair carries
	// out the traffic in run.
	Start func(t testing.TB, change func(*fakeverbs.Kernel)) (p *Pair, run func())
	// Labels returns a function that labels each crossing in turn by its purpose.
	Labels func() func(*fakeverbs.Crossing) string
	// Keep leaves out sites. Nil keeps all.
	Keep func(site string) bool
	// Only makes this a second tour for sites of others: a change of one of these bytes is made
	// here if nobody noticed it there.
	Only func(site string, i int) bool
}

// Site is a place where something crosses the seam: the first crossing of its kind and label
// in each of the tours that have it.
type Site struct {
	Kind  fakeverbs.CrossingKind
	Label string
	Bytes []byte
	// First of its kind in all tours.
	First bool

	tours []*Tour
}

func (s *Site) String() string { return strings.TrimSpace(fmt.Sprintf("%s %s", s.Kind, s.Label)) }

// Change is a change of a crossing.
type Change struct {
	What string
	Do   func(*Pair, *fakeverbs.Crossing)
}

// sites lists the sites of all tours, in order of their first place.
func (m *Mutations) sites(t *testing.T) (all []*Site) {
	known := make(map[string]*Site)
	kinds := make(map[fakeverbs.CrossingKind]bool)
	for i := range m.Tours {
		tour := &m.Tours[i]
		label, here := tour.Labels(), make(map[string]bool)
		p, run := tour.Start(t, func(k *fakeverbs.Kernel) {
			m.watch(k, func(c *fakeverbs.Crossing) {
				s := &Site{Kind: c.Kind, Label: label(c), Bytes: m.bytes(c)}
				name := s.String()
				if len(s.Bytes) == 0 || here[name] || tour.Keep != nil && !tour.Keep(name) {
					return
				}
				here[name] = true
				if before := known[name]; before != nil {
					before.tours = append(before.tours, tour)
					return
				}
				if tour.Only != nil {
					return
				}
				s.First, s.tours = !kinds[s.Kind], []*Tour{tour}
				known[name], kinds[s.Kind] = s, true
				all = append(all, s)
			})
		})
		run()
		p.Close()
		p.NoViolations()
	}
	return all
}

// watch calls f with each crossing, and with the answers of the driver's own methods.
func (m *Mutations) watch(k *fakeverbs.Kernel, f func(*fakeverbs.Crossing)) {
	k.Cross = f
	k.Tamper = func(call string, r *ioctl.Request) {
		ids := m.Answers[call]
		if len(ids) == 0 {
			return
		}
		c := &fakeverbs.Crossing{Kind: fakeverbs.CallOut, Call: call + " answer"}
		for _, id := range ids {
			b, _ := r.Bytes(id)
			c.Bytes = append(c.Bytes, b...)
		}
		f(c)
		rest := c.Bytes
		for _, id := range ids {
			b, _ := r.Bytes(id)
			rest = rest[copy(b, rest):]
		}
	}
}

// bytes returns the bytes of an entry or a call, or else of the value.
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
		switch {
		case byte < len(c.Bytes):
			c.Bytes[byte] ^= 1 << bit
		case c.Bytes == nil:
			c.Value ^= 1 << (8*byte + bit)
		}
	}
}

// HandedOverEarly makes a completion visible before it is written.
var HandedOverEarly = Change{"is handed over before it is written", func(p *Pair, c *fakeverbs.Crossing) { c.Torn(p.pollEarly) }}

// WrittenLate writes an entry after the doorbell.
var WrittenLate = Change{"is written after the doorbell", func(_ *Pair, c *fakeverbs.Crossing) { clear(c.Bytes) }}

// NotMade leaves out a doorbell.
var NotMade = Change{"is not made", func(_ *Pair, c *fakeverbs.Crossing) { c.Drop = true }}

// pollEarly keeps the completions that it finds for Reap.
func (p *Pair) pollEarly() {
	for i := range p.Side {
		wcs := make([]verbs.WC, 2*p.CQE)
		if n, err := p.Side[i].CQ.Poll(wcs); err == nil {
			p.Side[i].Early = append(p.Side[i].Early, wcs[:n]...)
		}
	}
}

// notice names the observers that noticed a mutation.
type notice string

const (
	byModel   notice = "model"
	byTraffic notice = "traffic"
	byEither  notice = "either"
	byNobody  notice = "-"
)

// mutated runs the tours with a change at the site, or at byte i of it, until somebody notices.
func (m *Mutations) mutated(t *testing.T, s *Site, i int, change func(*Pair, *fakeverbs.Crossing)) notice {
	for _, tour := range s.tours {
		if only := tour.Only; only != nil && (i < 0 || !only(s.String(), i)) {
			continue
		}
		if who := m.mutatedIn(t, s, tour, change); who != byNobody {
			return who
		}
	}
	return byNobody
}

// mutatedIn runs a tour with a change of the first crossing that has the site's name, and returns
// the observers that noticed. Its number may differ from run to run, because the program hears of
// events whenever it likes. A panic is an error for any change.
func (m *Mutations) mutatedIn(t *testing.T, s *Site, tour *Tour, change func(*Pair, *fakeverbs.Crossing)) notice {
	var p *Pair
	var k *fakeverbs.Kernel
	probe := &probe{}
	label, name, done := tour.Labels(), s.String(), false
	panicked := probe.run(func() {
		var run func()
		p, run = tour.Start(probe, func(kernel *fakeverbs.Kernel) {
			k = kernel
			m.watch(k, func(c *fakeverbs.Crossing) {
				if done {
					return
				}
				here := Site{Kind: c.Kind, Label: label(c)}
				if here.String() == name && (len(c.Bytes) > 0 || c.Kind == fakeverbs.Record || c.Kind == fakeverbs.Doorbell) {
					done = true
					change(p, c)
				}
			})
		})
		run()
	})
	switch {
	case panicked != "":
		t.Errorf("%v: %s", s, panicked)
		return byNobody
	case len(k.Violations()) > 0:
		return byModel
	case probe.failed:
		return byTraffic
	}
	return byNobody
}
