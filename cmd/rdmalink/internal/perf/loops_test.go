package perf

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/goverbs/goverbs/internal/perftest"
	"github.com/goverbs/goverbs/verbs"
)

var allTests = []perftest.Test{
	{Verb: perftest.Send, Latency: true}, {Verb: perftest.Write, Latency: true}, {Verb: perftest.Read, Latency: true}, {Verb: perftest.Atomic, Latency: true},
	{Verb: perftest.Send}, {Verb: perftest.Write}, {Verb: perftest.Read}, {Verb: perftest.Atomic},
	{Verb: perftest.Send, Bidirectional: true}, {Verb: perftest.Write, Bidirectional: true},
}

func nameOf(test perftest.Test, more string) string {
	return fmt.Sprintf("%v %v %s", test, test.Bidirectional, more)
}

// TestLoops runs every test, and checks that each end sent and received the right
// number of messages.
func TestLoops(t *testing.T) {
	for _, test := range allTests {
		for _, o := range []Options{{}, {Events: true}, {Inline: 64}, {QPCount: 3, CQMod: 7, RxDepth: 4}, {PostList: 5, TxDepth: 10, CQMod: 5, NoPeak: true}} {
			if test.Latency && (o.QPCount > 0 || o.PostList > 0) || o.Events && test.Latency && test.Verb == perftest.Write {
				continue
			}
			o.Test, o.Iters, o.Size = test, 20, 60
			t.Run(nameOf(test, fmt.Sprintf("%+v", o)), func(t *testing.T) {
				w := newWorld(t, o)
				runs := w.measure(w.ends[0].Size)
				for i, e := range w.ends {
					for _, f := range e.flows {
						checkFlow(t, &e.Options.Test, i, f)
					}
				}
				checkRun(t, runs[0])
			})
		}
	}
}

// checkFlow: end 0 is the client.
func checkFlow(t *testing.T, test *perftest.Test, end int, f *flow) {
	t.Helper()
	sends := end == 0 || test.Bidirectional || test.Latency && !test.ServerIdle()
	takes := test.Verb == perftest.Send && (test.Latency || test.Bidirectional || end == 1)
	if want := map[bool]int{true: 20}[sends]; f.sent != want {
		t.Errorf("end %d: %d sent, want %d", end, f.sent, want)
	}
	if want := map[bool]int{true: 20}[takes]; test.Verb == perftest.Send && f.got != want {
		t.Errorf("end %d: %d got, want %d", end, f.got, want)
	}
	if takes && f.received < 20 {
		t.Errorf("end %d: %d receives", end, f.received)
	}
	if sends && !test.Latency && f.done != 20 {
		t.Errorf("end %d: %d of 20 done", end, f.done)
	}
}

func checkRun(t *testing.T, r *run) {
	t.Helper()
	if want := int64(20 * r.QPCount); r.done.Done() != want {
		t.Errorf("progress %d, want %d", r.done.Done(), want)
	}
	for i, at := range r.stamps {
		if (at == 0 && i%r.PostList == 0) || i > 0 && at < r.stamps[i-1] && at != 0 {
			t.Fatalf("stamps %v", r.stamps)
		}
	}
	if r.Latency != (r.completed == nil && !r.NoPeak) && !r.NoPeak {
		t.Errorf("%d completions noted", len(r.completed))
	}
	if r.completed != nil && r.completed[len(r.completed)-1] == 0 {
		t.Errorf("the last completion: %v", r.completed)
	}
}

// TestLoopsAllocateNothing checks that a polling run allocates no more than starting
// the other end does. (Sleeping allocates, see uverbs.CQ.Wait.) The runtime also
// allocates when it starts threads, so the best of several runs counts.
func TestLoopsAllocateNothing(t *testing.T) {
	const tries, most = 10, 30
	for _, test := range allTests {
		t.Run(nameOf(test, ""), func(t *testing.T) {
			w := newWorld(t, Options{Test: test, Iters: 40, Size: 8, RxDepth: 16})
			var all []uint64
			for range tries {
				n := w.allocations()
				if n <= most {
					return
				}
				all = append(all, n)
			}
			t.Errorf("%d allocations in 40 messages", all)
		})
	}
}

// allocations returns the number of allocations of a run.
func (w *world) allocations() uint64 {
	w.t.Helper()
	runs := w.newRuns(8)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	w.play(runs)
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs
}

// TestTimeUp checks that a timed run ends without error, and that the middle half is
// measured. A busy machine may need more time to complete a message.
func TestTimeUp(t *testing.T) {
	for _, test := range allTests {
		t.Run(nameOf(test, ""), func(t *testing.T) {
			for length := 100 * time.Millisecond; ; length *= 2 {
				r := timeUp(t, Options{Test: test, Size: 8, CQMod: 1, Time: length})
				if r.watch.ns() <= 0 || r.counted() != nil && length > time.Minute {
					t.Fatalf("%d messages in %d ns", r.watch.counted, r.watch.ns())
				}
				if r.watch.counted > 0 {
					return
				}
			}
		})
	}
}

// timeUp runs until the time is over, and returns the state of the client.
func timeUp(t *testing.T, o Options) *run {
	t.Helper()
	w := newWorld(t, o)
	runs := w.newRuns(8)
	served := make(chan error, 1)
	go func() {
		if w.ends[1].ServerIdle() {
			served <- errTimeUp
		} else {
			served <- runs[1].measure()
		}
	}()
	if err := runs[0].measure(); !errors.Is(err, errTimeUp) {
		t.Error(err)
	}
	if err := <-served; !errors.Is(err, errTimeUp) {
		t.Error(err)
	}
	return runs[0]
}

// TestWarmUp leaves the flow as it found it.
func TestWarmUp(t *testing.T) {
	for _, o := range []Options{{TxDepth: 30, CQMod: 7}, {TxDepth: 30, PostList: 5, CQMod: 5}} {
		o.Test, o.WarmUp, o.Iters, o.Size = perftest.Test{Verb: perftest.Write}, true, 100, 8
		w := newWorld(t, o)
		w.measure(8)
		if f := w.ends[0].flows[0]; f.sent != 100 || f.done != 100 {
			t.Errorf("%d sent, %d done", f.sent, f.done)
		}
	}
}

// TestInterrupted checks that an end that waits in vain returns the cause of its
// context.
func TestInterrupted(t *testing.T) {
	why := errors.New("why")
	for _, o := range []Options{{Test: allTests[0]}, {Test: allTests[0], Events: true}, {Test: allTests[1]}, {Test: allTests[4]}, {Test: allTests[8]}} {
		w := newWorld(t, o)
		r := newRun(t.Context(), w.ends[1], 8, new(Progress))
		w.ok((&measurement{end: w.ends[1]}).prepare(r))
		time.AfterFunc(5*time.Millisecond, func() { r.cancel(why) })
		if o.Verb == perftest.Write {
			r.Role = perftest.Client // the end that waits first
		}
		if err := r.measure(); !errors.Is(err, why) {
			t.Errorf("%v: %v", o.Test, err)
		}
	}
}

// TestPeakLimit checks that there is no peak for more messages, of all QPs, than
// peakLimit.
func TestPeakLimit(t *testing.T) {
	for _, o := range []struct {
		Options
		none bool
	}{
		{Options{Iters: peakLimit}, false}, {Options{Iters: peakLimit + 1}, true},
		{Options{Iters: peakLimit / 5, QPCount: 5}, false}, {Options{Iters: peakLimit/5 + 1, QPCount: 5}, true},
	} {
		o.setDefaults()
		if got := o.NoPeak; got != o.none {
			t.Errorf("%d messages on %d QPs: no peak is %v", o.Iters, o.QPCount, got)
		}
	}
}

// TestFit checks the errors for options that exceed the limits of a device.
func TestFit(t *testing.T) {
	w := newWorld(t, Options{Iters: 5})
	for want, o := range map[string]Options{
		"-i 2":                      {Port: 2},
		"--force-link: the port of": {Link: verbs.LinkInfiniBand},
		"-m 4096":                   {MTU: verbs.MTU4096},
		"-t 2000000":                {TxDepth: 2000000, Iters: 2000000},
		"-r 2000000":                {RxDepth: 2000000, Iters: 2000000},
		"-o 200: rxe0 has 128":      {Test: perftest.Test{Verb: perftest.Read}, OutReads: 200},
		"-s 2147483649: rxe0 send":  {Size: 1<<31 + 1},
	} {
		if err := Fits(o, w.ends[0].dev); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// quietWay is a way on which nothing is heard.
type quietWay struct{ Path }

func (quietWay) watch(func(error)) func() { return func() {} }

// TestGuardedAfterTime checks that failures after the end of the measured time are
// ignored, unlike earlier ones and interrupts.
func TestGuardedAfterTime(t *testing.T) {
	why := errors.New("why")
	for _, test := range []struct {
		ended     int64
		why, want error
	}{{0, why, why}, {1, why, nil}, {1, context.Canceled, context.Canceled}, {0, errTimeUp, nil}} {
		w := newWorld(t, Options{Test: allTests[0], Time: time.Hour})
		c := &measurement{end: w.ends[1], path: quietWay{}}
		r := newRun(t.Context(), c.end, 8, new(Progress))
		w.ok(c.prepare(r))
		r.watch.ended.Store(test.ended)
		time.AfterFunc(5*time.Millisecond, func() { r.cancel(test.why) })
		if err := c.guarded(r); !errors.Is(err, test.want) || test.want == nil && err != nil {
			t.Errorf("%+v: %v", test, err)
		}
	}
}
