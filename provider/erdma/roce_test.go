package erdma

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	fakeerdma "github.com/goverbs/goverbs/internal/fakeverbs/erdma"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// newRoCEWorld makes a world on RoCE v2.
func newRoCEWorld(t *testing.T) *world {
	t.Helper()
	return newWorld(t, func(k *fakeverbs.Kernel, _ *uverbs.QPOptions) { onRoCE(k) })
}

// TestRoCEStates checks which requests the states of a QP allow.
func TestRoCEStates(t *testing.T) {
	w := newRoCEWorld(t)
	send := []verbs.SendWR{{Opcode: verbs.OpSend}}
	refused := func(n int, err error, why string) {
		t.Helper()
		if n != 0 || !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), why) {
			t.Errorf("%d, %v, want %s", n, err, why)
		}
	}
	for range 2 { // a new QP, and one that was put into RESET
		n, err := w.qp.PostSend(send)
		refused(n, err, "in RESET; sends can be posted from RTS on")
		n, err = w.qp.PostRecv([]verbs.RecvWR{{}})
		refused(n, err, "in RESET; receives can be posted from INIT on")
		if err := w.qp.Modify(&verbs.QPAttr{State: verbs.QPStateReset}, verbs.QPAttrState); err != nil {
			t.Fatal(err)
		}
	}
	init := &verbs.QPAttr{State: verbs.QPStateInit, Port: 1}
	const mask = verbs.QPAttrState | verbs.QPAttrPort | verbs.QPAttrPKeyIndex | verbs.QPAttrAccess
	init.PKeyIndex = 1
	if err := w.qp.Modify(init, mask); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("the second partition: %v", err)
	}
	init.PKeyIndex = 0
	if err := w.qp.Modify(init, mask); err != nil {
		t.Fatal(err)
	}
	n, err := w.qp.PostSend(send)
	refused(n, err, "in INIT; sends can be posted from RTS on")
	w.postRecv(t, verbs.RecvWR{})
	attr, err := w.qp.Query()
	if err != nil || attr.State != verbs.QPStateInit {
		t.Errorf("%+v, %v", attr, err)
	}
	// Without the states between, as the kernel's table has it.
	if err := w.qp.Modify(&verbs.QPAttr{State: verbs.QPStateRTS}, verbs.QPAttrState); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("RTS after INIT: %v", err)
	}
}

// TestRoCERefused checks for what the kernel has no way, and that the provider says so.
func TestRoCERefused(t *testing.T) {
	w := newRoCEWorld(t)
	_, err := w.pd.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeUD, SendCQ: w.cq, RecvCQ: w.cq, Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1}})
	if !errors.Is(err, verbs.ErrNotSupported) || !strings.Contains(err.Error(), "no address handles") {
		t.Error(err)
	}
	if _, err := w.pd.CreateAH(&verbs.AHAttr{Port: 1, Global: true, SGIDIndex: 1}); !errors.Is(err, verbs.ErrNotSupported) {
		t.Error(err)
	}
}

// TestSupports checks all opcodes, which verbs may have more of than the device: masked atomics, datagrams.
func TestSupports(t *testing.T) {
	plain := []verbs.Opcode{verbs.OpSend, verbs.OpSendImm, verbs.OpSendWithInv, verbs.OpRDMAWrite, verbs.OpRDMAWriteImm, verbs.OpRDMARead,
		verbs.OpReadWithInv, verbs.OpLocalInv}
	for name, c := range map[string]struct {
		change func(*fakeverbs.Kernel)
		want   []verbs.Opcode
	}{
		"iWARP":            {func(*fakeverbs.Kernel) {}, append(plain, verbs.OpCompareSwap, verbs.OpFetchAdd)},
		"RoCE":             {onRoCE, append(plain, verbs.OpCompareSwap, verbs.OpFetchAdd)},
		"the first kernel": {ofFirstKernels, plain},
	} {
		w := newWorld(t, func(k *fakeverbs.Kernel, _ *uverbs.QPOptions) { c.change(k) })
		for op := range verbs.Opcode(64) {
			for _, typ := range []verbs.QPType{verbs.QPTypeRC, verbs.QPTypeUC, verbs.QPTypeUD, verbs.QPTypeXRCInitiator} {
				want := typ == verbs.QPTypeRC && slices.Contains(c.want, op)
				if got := w.dev.Supports(typ, op); got != want {
					t.Errorf("%s: %v, %v: %v", name, typ, op, got)
				}
			}
		}
	}
}

// reset moves both QPs to RESET, and connects them again.
func (p *pair) reset() {
	p.T.Helper()
	for i := range p.Side {
		qp := p.Side[i].QP
		if err := qp.Modify(&verbs.QPAttr{State: verbs.QPStateReset}, verbs.QPAttrState); err != nil {
			p.T.Fatal(err)
		}
	}
	for i := range p.Side {
		providertest.Bring(p.T, p.Side[i].QP)
	}
}

// TestRoCEReset uses QPs again after RESET: in the middle of their queues, with requests that are on
// them, and after a failure.
func TestRoCEReset(t *testing.T) {
	p := newPair(t, onRoCE)
	again := func() {
		p.reset()
		for i := range 3*pairDepth + 1 {
			p.OneMessage(i%2, i, verbs.OpSend, providertest.Inline(40))
		}
	}
	p.OneMessage(0, 1, verbs.OpSend, providertest.Gathered(10, 20, 30))
	again()
	// Requests that wait are dropped without completions.
	p.Recv(0, target, 8, verbs.WC{})
	p.Recv(1, target, 8, verbs.WC{})
	p.Side[0].Want, p.Side[1].Want = nil, nil
	again()
	// Requests that were posted after a failure are flushed.
	qp := p.Side[1].QP
	if err := qp.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.QPAttrState); err != nil {
		t.Fatal(err)
	}
	p.Recv(1, target, 8, verbs.WC{Status: verbs.StatusWRFlushErr, Opcode: verbs.WCRecv})
	p.Reap()
	again()
	p.Close()
	p.NoViolations()
}

// TestResetOniWARP checks that the device knows of no RESET on iWARP: the queues go on.
func TestResetOniWARP(t *testing.T) {
	p := newPair(t, nil)
	p.OneMessage(0, 1, verbs.OpSend, providertest.Inline(40))
	for i := range p.Side {
		if err := p.Side[i].QP.Modify(&verbs.QPAttr{State: verbs.QPStateReset}, verbs.QPAttrState); err != nil {
			t.Fatal(err)
		}
	}
	p.OneMessage(0, 2, verbs.OpSend, providertest.Inline(40))
	p.Close()
	p.NoViolations()
}

// TestSharedDoorbell checks that a device that looks at the doorbell of several QPs late misses none.
func TestSharedDoorbell(t *testing.T) {
	p := newPair(t, func(k *fakeverbs.Kernel) {
		ofFirstKernels(k)
		fakeerdma.OptionsOf(k).Late = true
	})
	first := true
	p.K.Cross = func(c *fakeverbs.Crossing) {
		if c.Kind == fakeverbs.Doorbell && c.Page == 1 {
			c.Drop, first = first, false
		}
	}
	four := verbs.WC{Opcode: verbs.WCRecv, ByteLen: 4}
	for i := range 2 {
		p.Recv(i, target, 4, four)
	}
	for i := range 2 {
		p.Send(i, verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{p.Side[i].SGE(0, 4)}})
	}
	p.Reap()
	p.Close()
	p.NoViolations()
}
