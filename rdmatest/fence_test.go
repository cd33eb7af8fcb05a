package rdmatest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/verbs"
)

// A send with a fence has what the READ before it fetched; one without is taken before.
func TestFence(t *testing.T) {
	for _, kind := range []rdmatest.Kind{rdmatest.RXE, rdmatest.MLX5} {
		for flags, want := range map[verbs.SendFlags]string{0: "old", verbs.SendFence: "new"} {
			synctest.Test(t, func(t *testing.T) {
				f := rdmatest.NewWith(t, &rdmatest.Options{Kind: kind})
				a, b := two(t, f, verbs.QPTypeRC, all)
				f.SetLatency(time.Second)
				copy(b.mr.Bytes()[sendFrom:], "new")
				copy(a.mr.Bytes()[sendFrom:], "old")
				read := a.to(b, verbs.OpRDMARead, 3)
				read.RemoteAddr += sendFrom
				a.post(read)
				send := a.to(b, verbs.OpSend, 3)
				send.WRID, send.Flags = 2, flags
				a.post(send)
				if wc := b.next(); wc.WRID != 1000 || string(b.mr.Bytes()[:3]) != want {
					t.Errorf("%v, fence %v: %v, %q", kind, flags, outcome(wc), b.mr.Bytes()[:3])
				}
				if first, second := a.next(), a.next(); first.WRID != 1 || second.WRID != 2 {
					t.Errorf("%v then %v", outcome(first), outcome(second))
				}
			})
		}
	}
}
