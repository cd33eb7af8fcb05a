package rdmatest_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/verbs"
)

// Two runs take the same course, to the nanosecond. Another seed takes another one.
func TestSameCourse(t *testing.T) {
	first, second, other := course(t, 1), course(t, 1), course(t, 2)
	if len(first) != 2*messages || !slices.Equal(first, second) {
		t.Errorf("%q\nand then %q", first, second)
	}
	if slices.Equal(first, other) {
		t.Error("the seed makes no difference")
	}
}

const messages = 100

// course returns the events of two goroutines that send over a bad network.
func course(t *testing.T, seed uint64) (trace []string) {
	synctest.Test(t, func(t *testing.T) {
		f := rdmatest.NewWith(t, &rdmatest.Options{Seed: seed})
		a, b := newNode(t, f.Host(0).Device(0), verbs.QPTypeRC, all), newNode(t, f.Host(1).Device(0), verbs.QPTypeRC, all)
		a.connect(b, nil)
		b.connect(a, nil)
		f.SetLatency(5 * time.Microsecond)
		f.SetBandwidth(1 << 30)
		f.SetLoss(0.2)
		start := time.Now()
		note := func(n *node, name string, from int) {
			for i := range messages {
				n.receive(uint64(i), 0, recvSize)
				n.post(n.to(map[string]*node{"a": b, "b": a}[name], verbs.OpSend, 8+i%8))
				for range 2 { // a send and a receive, in whatever order
					wc := n.next()
					if wc.Opcode == verbs.WCRecv {
						trace = append(trace, fmt.Sprint(time.Since(start), name, outcome(wc)))
					}
				}
				time.Sleep(time.Duration(from) * time.Nanosecond) // so that no two things happen at once
			}
		}
		done := make(chan struct{})
		go func() { defer close(done); time.Sleep(time.Nanosecond); note(b, "b", 3) }()
		note(a, "a", 7)
		<-done
	})
	return trace
}
