package perf

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/internal/perftest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestDefaults are perftest's, as it prints them for the same options.
func TestDefaults(t *testing.T) {
	lat := func(v perftest.Verb) perftest.Test { return perftest.Test{Verb: v, Latency: true} }
	bw := func(v perftest.Verb) perftest.Test { return perftest.Test{Verb: v} }
	type result struct{ Size, Iters, Tx, Rx, List, CQMod int }
	for name, test := range map[string]struct {
		o    Options
		want result
	}{
		"send lat":                {Options{Test: lat(perftest.Send)}, result{2, 1000, 1, 512, 1, 1}},
		"send bw":                 {Options{Test: bw(perftest.Send)}, result{65536, 1000, 128, 512, 1, 1}},
		"write bw":                {Options{Test: bw(perftest.Write)}, result{65536, 5000, 128, 1, 1, 1}},
		"write bw -s 8192":        {Options{Test: bw(perftest.Write), Size: 8192}, result{8192, 5000, 128, 1, 1, 100}},
		"write bw -e":             {Options{Test: bw(perftest.Write), Events: true}, result{65536, 5000, 128, 1, 1, 100}},
		"read bw -Q 7":            {Options{Test: bw(perftest.Read), CQMod: 7}, result{65536, 1000, 128, 1, 1, 7}},
		"read bw -l 16":           {Options{Test: bw(perftest.Read), PostList: 16}, result{65536, 1000, 128, 1, 16, 16}},
		"read bw -t 3 -s 1":       {Options{Test: bw(perftest.Read), TxDepth: 3, Size: 1}, result{1, 1000, 3, 1, 1, 3}},
		"atomic bw":               {Options{Test: bw(perftest.Atomic), Size: 100}, result{8, 1000, 128, 1, 1, 100}},
		"send bw -n 25":           {Options{Test: bw(perftest.Send), Iters: 25}, result{65536, 25, 25, 26, 1, 1}},
		"send bw -a -n 25":        {Options{Test: perftest.Test{AllSizes: true}, Iters: 25}, result{8 << 20, 25, 25, 25, 1, 25}},
		"send bw -c UD":           {Options{Test: bw(perftest.Send), Type: verbs.QPTypeUD}, result{65536, 1000, 128, 1000, 1, 100}},
		"send bw -c UC -n 100000": {Options{Test: bw(perftest.Send), Type: verbs.QPTypeUC, Iters: 100000}, result{65536, 100000, 128, 16000, 1, 1}},
		"send bw -c UC -r 600":    {Options{Test: bw(perftest.Send), Type: verbs.QPTypeUC, RxDepth: 600}, result{65536, 1000, 128, 600, 1, 1}},
		"send bw -D 1 -c UD":      {Options{Test: bw(perftest.Send), Type: verbs.QPTypeUD, Time: time.Second}, result{65536, 1000, 128, 512, 1, 100}},
	} {
		o := Completed(test.o)
		if diff := cmp.Diff(test.want, result{o.Size, o.Iters, o.TxDepth, o.RxDepth, o.PostList, o.CQMod}); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestSizes(t *testing.T) {
	o := Completed(Options{Test: perftest.Test{AllSizes: true}})
	if all := o.sizes(); len(all) != 23 || all[0] != 2 || all[22] != 1<<23 {
		t.Error(all)
	}
	o.Size = 1024 // an MTU
	if all := o.sizes(); len(all) != 10 || all[9] != 1024 {
		t.Error(all)
	}
	if o = Completed(Options{Size: 7}); !slices.Equal(o.sizes(), []int{7}) {
		t.Error(o.sizes())
	}
}

// TestWalk checks that every message is within the peer's part.
func TestWalk(t *testing.T) {
	for _, cycle := range []int{4096, 65536} {
		for size := 1; size < 3*cycle; size = size*5/4 + 1 {
			m := (&Options{Size: size, QPCount: 2}).layout(perftest.System{CycleBuffer: cycle, CacheLine: cacheLine})
			step, slots := m.walk(size)
			if end := (slots-1)*step + size; end > m.part || end > max(size, cycle) || slots > 1 && step < size {
				t.Errorf("cycle %d, size %d: %+v, %d slots of %d", cycle, size, m, slots, step)
			}
		}
	}
}

// TestPlaces checks that places in use at the same time do not overlap.
func TestPlaces(t *testing.T) {
	m := (&Options{Size: 5000, QPCount: 3, Type: verbs.QPTypeUD}).layout(perftest.System{CycleBuffer: 4096, CacheLine: cacheLine})
	if m.part < 5000+uverbs.GRHSize || m.front != 3*m.part {
		t.Errorf("%+v", m)
	}
}

// TestStopwatch checks that the margins are excluded, and that the time ends.
func TestStopwatch(t *testing.T) {
	for _, margin := range []time.Duration{time.Second, 3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			var w stopwatch
			ctx, cancel := context.WithCancelCause(t.Context())
			began := now()
			w.start(ctx, 10*time.Second, margin, cancel)
			<-ctx.Done()
			if got := time.Duration(w.began.Load() - began); got != margin || time.Duration(w.ns()) != 10*time.Second-2*margin || time.Duration(now()-began) != 10*time.Second {
				t.Errorf("margin %v: it began after %v and took %d ns", margin, got, w.ns())
			}
		})
	}
	if o := Completed(Options{Time: 8 * time.Second}); o.Margin != 2*time.Second {
		t.Error(o.Margin)
	}
}

// TestPathOptions checks the options of the path to the peer.
func TestPathOptions(t *testing.T) {
	way := &TCPPath{gid: &verbs.GIDEntry{Index: 3}}
	for _, test := range []struct {
		o    Options
		want verbs.AHAttr
	}{
		{Options{}, verbs.AHAttr{DLID: 5, HopLimit: 64}},
		{Options{DLID: 7, HopLimit: 9, SL: 2, TrafficClass: 4}, verbs.AHAttr{DLID: 7, HopLimit: 9, SL: 2, TrafficClass: 4}},
	} {
		test.want.Global, test.want.SGIDIndex, test.want.Port = true, 3, 1
		o := Completed(test.o)
		if got := way.path(&end{Options: &o}, &perftest.Endpoint{LID: 5}); got != test.want {
			t.Errorf("%+v, want %+v", got, test.want)
		}
	}
	if a := (&Options{ODP: true}).access(false); a&verbs.AccessOnDemand == 0 {
		t.Error(a)
	}
}
