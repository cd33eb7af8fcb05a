package rdmatest_test

import (
	"testing"
	"testing/synctest"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/verbs"
)

// TestSequence: a packet that a queue pair does not expect, as one is that a former
// connection sends to the same number, is not answered on a reliable connection. An
// unreliable one takes the first packet of any message.
func TestSequence(t *testing.T) {
	for typ, want := range map[verbs.QPType]string{verbs.QPTypeRC: "1 transport retries exceeded", verbs.QPTypeUC: "1 SEND success"} {
		for _, kind := range []rdmatest.Kind{rdmatest.RXE, rdmatest.MLX5} {
			synctest.Test(t, func(t *testing.T) {
				f := rdmatest.NewWith(t, &rdmatest.Options{Kind: kind})
				a, b := newNode(t, f.Host(0).Device(0), typ, all), newNode(t, f.Host(1).Device(0), typ, all)
				a.connect(b, func(q *verbs.QPAttr) { q.SQPSN, q.Timeout, q.RetryCnt = 7, 1, 1 })
				b.connect(a, func(q *verbs.QPAttr) { q.RQPSN = 8 })
				b.receive(1000, 0, recvSize)
				a.post(a.to(b, verbs.OpSend, 8))
				if got := outcome(a.next()); got != want {
					t.Errorf("%v on %v: %s, want %s", typ, kind, got, want)
				}
			})
		}
	}
}
