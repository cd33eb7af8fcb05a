package erdma

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	fakeerdma "github.com/goverbs/goverbs/internal/fakeverbs/erdma"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/internal/regions"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// tamper changes the driver's answer to a call.
func tamper[T any](call string, change func(*T)) func(string, *ioctl.Request) {
	return func(c string, r *ioctl.Request) {
		if c == call {
			var answer T
			ioctl.Argument(r, abi.UVERBS_ATTR_UHW_OUT, &answer)
			change(&answer)
			ioctl.Answer(r, abi.UVERBS_ATTR_UHW_OUT, &answer)
		}
	}
}

// TestHostileAnswers has the kernel's answers to create calls hold impossible values: an
// error, the kernel's object destroyed again, nothing leaked.
func TestHostileAnswers(t *testing.T) {
	type cqAnswer = abi.ErdmaUrespCreateCq
	type qpAnswer = abi.ErdmaUrespCreateQp
	makeCQ := func(w *world) error { _, err := w.dev.CreateCQ(4, nil); return err }
	makeQP := func(w *world) error {
		_, err := w.pd.CreateQP(&uverbs.QPOptions{SendCQ: w.cq, RecvCQ: w.cq, Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4}})
		return err
	}
	for name, c := range map[string]struct {
		tamper func(string, *ioctl.Request)
		create func(*world) error
	}{
		"no CQ entries":    {tamper("CQ_CREATE", func(a *cqAnswer) { a.NumCqe = 0 }), makeCQ},
		"odd CQ entries":   {tamper("CQ_CREATE", func(a *cqAnswer) { a.NumCqe = 3 }), makeCQ},
		"many CQ entries":  {tamper("CQ_CREATE", func(a *cqAnswer) { a.NumCqe = 1 << 31 }), makeCQ},
		"a page too many":  {tamper("CQ_CREATE", func(a *cqAnswer) { a.NumCqe = 256 }), makeCQ},
		"high CQ number":   {tamper("CQ_CREATE", func(a *cqAnswer) { a.CqId = 1 << 24 }), makeCQ},
		"no sends":         {tamper("QP_CREATE", func(a *qpAnswer) { a.NumSqe = 0 }), makeQP},
		"two blocks":       {tamper("QP_CREATE", func(a *qpAnswer) { a.NumSqe = 2 }), makeQP},
		"odd sends":        {tamper("QP_CREATE", func(a *qpAnswer) { a.NumSqe = 5 }), makeQP},
		"many sends":       {tamper("QP_CREATE", func(a *qpAnswer) { a.NumSqe = 1 << 16 }), makeQP},
		"beyond the end":   {tamper("QP_CREATE", func(a *qpAnswer) { a.NumSqe = 1 << 15 }), makeQP},
		"no receives":      {tamper("QP_CREATE", func(a *qpAnswer) { a.NumRqe = 0 }), makeQP},
		"many receives":    {tamper("QP_CREATE", func(a *qpAnswer) { a.NumRqe = 1 << 15 }), makeQP},
		"offset too high":  {tamper("QP_CREATE", func(a *qpAnswer) { a.RqOffset = 8192 }), makeQP},
		"offset negative":  {tamper("QP_CREATE", func(a *qpAnswer) { a.RqOffset = 1 << 31 }), makeQP},
		"offset odd":       {tamper("QP_CREATE", func(a *qpAnswer) { a.RqOffset = 4 }), makeQP},
		"another number":   {tamper("QP_CREATE", func(a *qpAnswer) { a.QpId++ }), makeQP},
		"number too large": {tamper("QP_CREATE", func(a *qpAnswer) { a.QpId = 1 << 20 }), makeQP},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			alive, live := w.k.Alive(), regions.Live()
			w.k.Tamper = c.tamper
			if err := c.create(w); err == nil || !strings.Contains(err.Error(), "on erdma0") {
				t.Errorf("error is %v", err)
			}
			if !slices.Equal(w.k.Alive(), alive) || regions.Live() > live+1 { // a page of records may have come
				t.Errorf("%q and %d regions, before %q and %d", w.k.Alive(), regions.Live(), alive, live)
			}
		})
	}
}

// TestHostileOpen has doorbells that are outside their pages.
func TestHostileOpen(t *testing.T) {
	for name, change := range map[string]func(*abi.ErdmaUrespAllocCtx){
		"sdb":    func(a *abi.ErdmaUrespAllocCtx) { a.Sdb = 0 },
		"rdb":    func(a *abi.ErdmaUrespAllocCtx) { a.Rdb = 1 << 63 },
		"cdb":    func(a *abi.ErdmaUrespAllocCtx) { a.Cdb++ },
		"offset": func(a *abi.ErdmaUrespAllocCtx) { a.SdbType, a.SdbOffset = 1, 16 },
		"huge":   func(a *abi.ErdmaUrespAllocCtx) { a.SdbType, a.SdbOffset = 1, 1<<32-1 },
	} {
		k := fakeverbs.New(uint32(verbs.DriverERDMA))
		k.Tamper = tamper("GET_CONTEXT", change)
		live := regions.Live()
		if dev, err := providertest.OpenOn(info, k); err == nil {
			t.Errorf("%s: it opens", name)
			_ = dev.Close()
		}
		if leaks := k.Leaks(); len(leaks) > 0 || regions.Live() != live {
			t.Errorf("%s: %q; %d regions", name, leaks, regions.Live()-live)
		}
	}
}

// TestOneDoorbell has a context with one doorbell for the sends of all its QPs.
func TestOneDoorbell(t *testing.T) {
	for _, offset := range []uint32{0, 7, 15} {
		w := newWorld(t, func(k *fakeverbs.Kernel, _ *uverbs.QPOptions) {
			fakeerdma.OptionsOf(k).SDBType, fakeerdma.OptionsOf(k).SDBOffset = 1, offset
		})
		w.send(t)
		w.one(t)
	}
}

// TestDoorbells checks that QPs and CQs of all numbers have doorbells, where the model looks for
// them.
func TestDoorbells(t *testing.T) {
	w := newWorld(t, nil)
	for range 520 { // numbers of CQs go on
		cq := providertest.Must[*uverbs.CQ](t)(w.dev.CreateCQ(1, &uverbs.CQOptions{Channel: w.cq.Channel()}))
		if err := errors.Join(cq.Arm(false), cq.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for range 130 {
		cq := providertest.Must[*uverbs.CQ](t)(w.dev.CreateCQ(1, &uverbs.CQOptions{Channel: w.cq.Channel()}))
		qp := providertest.Must[*uverbs.QP](t)(w.pd.CreateQP(&uverbs.QPOptions{SendCQ: cq, RecvCQ: cq}))
		all := w.k.QueuePairs()
		all[len(all)-1].Connect(16, 16)
		if _, err := qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend}}); err != nil {
			t.Fatal(err)
		}
		if _, err := qp.PostRecv([]verbs.RecvWR{{}}); err != nil {
			t.Fatal(err)
		}
		if err := cq.Arm(false); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = qp.Close(), cq.Close() })
	}
}

// TestIdle checks that a failed QP is idle when both queues are empty.
func TestIdle(t *testing.T) {
	q := &qp{}
	if q.Idle() {
		t.Error("idle while it works")
	}
	q.failed = true
	if !q.Idle() {
		t.Error("not idle with nothing outstanding")
	}
	memory, err := mmap.Anonymous(4096, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	if err := q.sq.init(memory, 0, 4); err != nil {
		t.Fatal(err)
	}
	for _, queue := range []*queue{&q.sq.queue, &q.rq.queue} {
		if queue == &q.sq.queue {
			q.sq.note(0, 1, 1)
			q.sq.blocks.At(0)[0] = hdrSignaled
		}
		queue.publish(1)
		if q.Idle() {
			t.Error("idle with work outstanding")
		}
		queue.consumed.Store(1)
	}
	q.sq.note(1, 2, 1) // may have completed, without a completion
	q.sq.publish(2)
	if !q.Idle() {
		t.Error("not idle behind a send that makes no completion")
	}
}
