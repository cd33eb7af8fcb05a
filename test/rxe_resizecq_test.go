//go:build vm

package test

import (
	"errors"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/verbs"
)

// TestRxeResizeCQ takes completions over into a larger and a smaller queue, from
// wherever they stand in the old one, and can't lose any. Sends complete
// in their own time, so the test waits for the completions that it resizes over.
func TestRxeResizeCQ(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	d := openRxe(t)
	a, b := d.pair(t, verbs.QPTypeRC, rxeSetup{cap: verbs.QPCap{MaxSendWR: 60, MaxRecvWR: 60}})
	if err := a.sendCQ.Resize(20); err != nil || a.sendCQ.Cap() < 20 {
		t.Fatalf("%d entries, %v", a.sendCQ.Cap(), err)
	}
	var posted, seen uint64
	send := func(n int) {
		t.Helper()
		if _, err := b.qp.PostRecv(make([]verbs.RecvWR, n)); err != nil {
			t.Fatal(err)
		}
		for range n {
			a.post(verbs.SendWR{WRID: posted, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
			posted++
		}
		for range n { // the last is received when the others are acknowledged, or about to be
			b.next(b.recvCQ)
		}
		a.post(verbs.SendWR{WRID: posted, Opcode: verbs.OpRDMARead, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	}
	poll := func(n int) {
		t.Helper()
		for range n {
			if wc := a.next(a.sendCQ); wc.WRID != seen || wc.Status != verbs.StatusSuccess || wc.QPN != a.qp.Num() {
				t.Errorf("completion %d: %+v", seen, wc)
			}
			seen++
		}
	}
	send(20)
	poll(15)
	send(12) // around the end of the ring
	if err := a.sendCQ.Resize(50); err != nil || a.sendCQ.Cap() < 50 {
		t.Errorf("%d entries, %v", a.sendCQ.Cap(), err)
	}
	poll(7)
	send(30)
	// None of the 40 may be missing for the kernel to refuse.
	until(t, "refused", func() bool {
		err := a.sendCQ.Resize(39)
		if err == nil && a.sendCQ.Cap() < 40 {
			t.Error("resized to fewer than there are")
		}
		return errors.Is(err, syscall.EINVAL)
	})
	if err := a.sendCQ.Resize(40); err != nil {
		t.Error(err)
	}
	if err := a.sendCQ.Resize(1 << 20); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
	poll(40)
	if err := a.sendCQ.Resize(1); err != nil || a.sendCQ.Cap() < 1 {
		t.Errorf("%d entries, %v", a.sendCQ.Cap(), err)
	}
	send(1)
	poll(1)
}
