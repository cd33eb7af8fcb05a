package rounds

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// fake is a Rings that only counts messages. Each step advances its clock by the cost of the step.
type fake struct {
	ticks         int64
	recvs         int // posted receives
	arrived, done int // completions of receives and of sends
	held, late    int // sends without a doorbell; completions that Poll misses
	writes        bool
}

func (f *fake) clock() int64 { return f.ticks }

// takes advances the clock between two reads.
func (f *fake) takes(ticks int64, now Clock) (int64, error) {
	start := now()
	f.ticks += ticks
	return now() - start, nil
}

func (f *fake) PostRecv(list int, now Clock) (int64, error) {
	f.recvs += Depth
	return f.takes(2*Depth, now)
}
func (f *fake) PostSend(kind Kind, list int, now Clock) (int64, error) {
	f.held, f.writes = f.held+Depth, kind >= Write
	return f.takes(int64(8+kind)*Depth, now)
}
func (f *fake) BuildSend(kind Kind, list int, now Clock) (int64, error) {
	took, err := f.PostSend(kind, list, now)
	f.ticks += 10 * Depth
	return took + 10*Depth, err
}
func (f *fake) Doorbell() error {
	f.done += f.held
	if !f.writes {
		if f.recvs < f.held {
			return errors.New("no receives")
		}
		f.arrived, f.recvs = f.arrived+f.held, f.recvs-f.held
	}
	f.held = 0
	f.ticks += 1e6
	return nil
}
func (f *fake) Poll(list int, now Clock) (int, int64, error) {
	n := f.done - f.late
	f.done, f.late = f.late, 0
	took, err := f.takes(5*Depth, now)
	return n, took, err
}
func (f *fake) PollEmpty(now Clock) (int64, error) { return f.takes(6*Calls, now) }
func (f *fake) Arm(now Clock) (int64, error)       { return f.takes(7*Calls, now) }
func (f *fake) TakeSends(atMost int) (n int, err error) {
	n = min(f.done, atMost, 100)
	f.done -= n
	return n, nil
}
func (f *fake) TakeRecvs(atMost int) (n int, err error) {
	n = min(f.arrived, atMost, 100)
	f.arrived -= n
	return n, nil
}

// TestMeasure gives each step a different cost. Nothing else must count.
func TestMeasure(t *testing.T) {
	f := &fake{}
	var out strings.Builder
	o := options{impl: "fake", driver: "siw"}
	if err := o.measure(&meter{rings: f, kinds: Kinds, builds: true, clock: f.clock}, 3, unit{name: "ticks", tick: 1}, &out); err != nil {
		t.Fatal(err)
	}
	want := []string{`"arm","driver":"siw","impl":"fake","unit":"ticks","value":7`}
	for _, list := range []string{"1", "16", "64"} {
		for measure, value := range map[string]string{"poll_full": "5", "post_recv": "2", "post_send": "8", "post_send_inline": "9",
			"post_write": "10", "post_write_inline": "11", "build_send": "18", "build_send_inline": "19", "build_write": "20", "build_write_inline": "21"} {
			want = append(want, `"`+measure+`","driver":"siw","params":"list `+list+`","impl":"fake","unit":"ticks","value":`+value)
		}
	}
	want = append(want, `"poll_empty","driver":"siw","impl":"fake","unit":"ticks","value":6`)
	got := strings.Split(strings.TrimSpace(out.String()), "\n")
	for i, line := range got {
		got[i] = strings.TrimSuffix(strings.TrimPrefix(line, `{"suite":"ring","measure":`), "}")
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestBuildsOnly measures a Builder only where that is asked for.
func TestBuildsOnly(t *testing.T) {
	f := &fake{}
	m := &meter{rings: f, kinds: Kinds, clock: f.clock}
	if err := m.both(16, 1); err != nil || len(m.costs["post_send"]) != 1 || len(m.costs["build_send"]) != 0 {
		t.Error(err, m.costs)
	}
}

// TestLate checks that a poll that misses completions doesn't count, and the next round begins with empty queues.
func TestLate(t *testing.T) {
	f := &fake{late: 10}
	m := &meter{rings: f, kinds: Kinds, clock: f.clock, costs: make(map[string][]int64)}
	for range 2 {
		if err := m.round(Send, 16, sender{f.PostSend, "post_send"}); err != nil {
			t.Fatal(err)
		}
	}
	if f.done != 0 || !slices.Equal(m.costs["poll_full"], []int64{5 * Depth}) || len(m.costs["post_send"]) != 2 {
		t.Error(f.done, m.costs)
	}
}

// TestNeverRight checks that if no round of a measurement succeeds, the result is an error, not a missing row.
func TestNeverRight(t *testing.T) {
	f := &fake{}
	o := options{impl: "fake", driver: "siw"}
	always := func() int64 { f.late = 10; return f.ticks }
	var out strings.Builder
	err := o.measure(&meter{rings: f, kinds: Kinds, clock: always}, 3, unit{name: "ticks", tick: 1}, &out)
	if err == nil || !strings.Contains(err.Error(), "poll_full") {
		t.Error(err)
	}
}
