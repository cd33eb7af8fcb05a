package rdmatest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/verbs"
)

// TestBehindFailedSend checks that requests behind a send that fails do not leave, although sends
// before are still on their way.
func TestBehindFailedSend(t *testing.T) {
	bubble(t, func(t *testing.T, f *rdmatest.Fabric) {
		a, b := two(t, f, verbs.QPTypeRC, all)
		f.SetLatency(time.Second)
		a.post(a.to(b, verbs.OpSend, 8))
		f.Host(0).Device(0).FailSend(0, verbs.StatusRetryExcErr)
		const at = sendFrom // where no message of this test goes
		a.mr.Bytes()[sendFrom], b.mr.Bytes()[at] = 2, 1
		for range 2 {
			wr := a.to(b, verbs.OpRDMAWrite, 8)
			wr.RemoteAddr += at
			a.post(wr)
		}
		time.Sleep(time.Minute)
		if got := b.mr.Bytes()[at]; got != 1 {
			t.Errorf("%d was written", got)
		}
		if got, want := a.story(), "1 SEND success, 1 transport retries exceeded, 1 work request flushed; ERR"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

// TestEndBehindData checks that over iWARP data that was sent before Disconnect arrives before the
// end does.
func TestEndBehindData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.SIW})
		dialled, accepted := meet(t, f, nil)
		a, b := newEnd(t, dialled), newEnd(t, accepted)
		f.SetLatency(time.Second)
		a.mr.Bytes()[0] = 7
		must(a.QP().PostSend([]verbs.SendWR{{Opcode: verbs.OpRDMAWrite, SGL: a.sge(t, 1), RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}}))(t)
		if err := a.Disconnect(); err != nil {
			t.Fatal(err)
		}
		<-b.Done()
		if got := b.mr.Bytes()[0]; got != 7 {
			t.Errorf("%d arrived", got)
		}
	})
}
