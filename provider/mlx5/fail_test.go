package mlx5

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	fakemlx5 "github.com/goverbs/goverbs/internal/fakeverbs/mlx5"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/internal/regions"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestFlush checks that the device flushes earlier and later work requests.
func TestFlush(t *testing.T) {
	w := newWorld(t, nil)
	w.post(t, verbs.SendWR{WRID: 1, Opcode: verbs.OpSend}, verbs.SendWR{WRID: 2, Opcode: verbs.OpRDMAWrite, SGL: sges(1)})
	w.postRecv(t, verbs.RecvWR{WRID: 3}, verbs.RecvWR{WRID: 4})
	w.kqp.Break()
	flushed := func(want ...uint64) {
		t.Helper()
		var ids []uint64
		for _, wc := range w.poll(t) {
			if wc.Status != verbs.StatusWRFlushErr || wc.QPN != w.qp.QPN() || wc.VendorErr != 0x85 {
				t.Errorf("%+v", wc)
			}
			ids = append(ids, wc.WRID)
		}
		if slices.Sort(ids); !slices.Equal(ids, want) {
			t.Errorf("%d are flushed, want %d", ids, want)
		}
	}
	flushed(1, 2, 3, 4)
	for i := range uint64(9) {
		w.post(t, verbs.SendWR{WRID: 10 + i, Opcode: verbs.OpSend, Inline: data(60)})
		w.postRecv(t, verbs.RecvWR{WRID: 20 + i})
		fakemlx5.QPOf(w.kqp).Look()
		flushed(10+i, 20+i)
	}
}

// TestReset resets a QP with work on its queues and completions on its CQ, many times, at
// all positions of its queues.
func TestReset(t *testing.T) {
	w := newWorld(t, nil)
	for round := range 20 {
		for range round % 5 {
			w.post(t, verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: sges(maxSGE)})
			w.kqp.Sent(w.take(t), abi.IB_WC_SUCCESS)
			w.one(t)
		}
		w.post(t, verbs.SendWR{Opcode: verbs.OpLocalInv}, verbs.SendWR{Opcode: verbs.OpSend})
		w.kqp.Sent(w.take(t), abi.IB_WC_SUCCESS)
		w.postRecv(t, verbs.RecvWR{}, verbs.RecvWR{})
		r, _ := w.kqp.TakeRecv()
		w.kqp.Received(r, &abi.IbUverbsWc{}, false)
		w.post(t, verbs.SendWR{Opcode: verbs.OpLocalInv})
		if err := w.qp.Modify(&verbs.QPAttr{State: verbs.QPStateReset}, verbs.QPAttrState); err != nil {
			t.Fatal(err)
		}
		if wcs := w.poll(t); len(wcs) > 0 {
			t.Errorf("%+v", wcs)
		}
		providertest.Bring(t, w.qp)
		w.post(t, verbs.SendWR{WRID: uint64(round), Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
		w.kqp.Sent(w.take(t), abi.IB_WC_SUCCESS)
		if wc := w.one(t); wc.WRID != uint64(round) {
			t.Errorf("%+v", wc)
		}
		for range depth - 2 {
			w.postRecv(t, verbs.RecvWR{})
		}
	}
}

// TestStates checks that posts are refused if the device would carry them out later.
func TestStates(t *testing.T) {
	w := newWorld(t, nil)
	qp := providertest.Must[*uverbs.QP](t)(w.pd.CreateQP(&uverbs.QPOptions{SendCQ: w.cq, RecvCQ: w.cq, Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1}}))
	defer qp.Close()
	sends := func() error { _, err := qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend}}); return err }
	recvs := func() error { _, err := qp.PostRecv([]verbs.RecvWR{{}}); return err }
	if err := sends(); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
	if err := recvs(); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
	const mask = verbs.QPAttrState | verbs.QPAttrPKeyIndex | verbs.QPAttrPort | verbs.QPAttrAccess
	if err := qp.Modify(&verbs.QPAttr{State: verbs.QPStateInit, Port: 1}, mask); err != nil {
		t.Fatal(err)
	}
	if err := sends(); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
	if err := recvs(); err != nil {
		t.Error(err)
	}
}

// TestDestroyRefused checks that objects that the kernel does not destroy stay usable.
func TestDestroyRefused(t *testing.T) {
	w := newWorld(t, nil)
	w.k.Fail("QP_DESTROY", 0, syscall.EBUSY)
	if err := w.qp.Close(); !errors.Is(err, syscall.EBUSY) {
		t.Fatal(err)
	}
	w.send(t)
	w.one(t)
	if err := w.qp.Close(); err != nil {
		t.Fatal(err)
	}
	w.k.Fail("CQ_DESTROY", 0, syscall.EBUSY)
	if err := w.cq.Close(); !errors.Is(err, syscall.EBUSY) {
		t.Fatal(err)
	}
	if err := w.cq.Arm(false); err != nil {
		t.Error(err)
	}
}

// TestCreateRefused checks that create calls that the kernel refuses leave nothing behind:
// no memory, doorbell record, index or register, each of which may be used once only.
func TestCreateRefused(t *testing.T) {
	w := newWorld(t, nil)
	allocs := w.k.Calls("ALLOC")
	for range 100 { // more than a page of records
		w.k.Fail("CQ_CREATE", 0, syscall.ENOMEM)
		if _, err := w.dev.CreateCQ(1, nil); !errors.Is(err, syscall.ENOMEM) {
			t.Fatal(err)
		}
		w.k.Fail("QP_CREATE", 0, syscall.ENOMEM)
		if _, err := w.pd.CreateQP(&uverbs.QPOptions{SendCQ: w.cq, RecvCQ: w.cq, Cap: verbs.QPCap{MaxSendWR: 1}}); !errors.Is(err, syscall.ENOMEM) {
			t.Fatal(err)
		}
		w.k.Fail("SRQ_CREATE", 0, syscall.ENOMEM)
		if _, err := w.pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 1, MaxSGE: 1}); !errors.Is(err, syscall.ENOMEM) {
			t.Fatal(err)
		}
	}
	if n := w.k.Calls("ALLOC") - allocs; n != 300 {
		t.Errorf("%d allocations, want one a queue", n)
	}
	for _, call := range []string{"ALLOC", "UAR_OBJ_ALLOC", "MMAP"} {
		fresh := newWorld(t, nil)
		opts := &uverbs.QPOptions{SendCQ: fresh.cq, RecvCQ: fresh.cq, Cap: verbs.QPCap{MaxSendWR: 1}}
		second := providertest.Must[*uverbs.QP](t)(fresh.pd.CreateQP(opts)) // which has the other register of the first UAR
		fresh.k.Fail(call, 0, syscall.ENOMEM)
		if _, err := fresh.pd.CreateQP(opts); !errors.Is(err, syscall.ENOMEM) {
			t.Error(call, err)
		}
		if n := fresh.k.Calls("UAR_OBJ_DESTROY"); n == 0 && call == "MMAP" {
			t.Error("the UAR stays, which can't be mapped")
		}
		if err := second.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestManyQPs checks that more QPs than registers share these, and many have records of their own.
func TestManyQPs(t *testing.T) {
	type machine struct {
		device fakemlx5.Options
		page   int // bytes
		qps    int
	}
	machines := map[string]machine{"all static UARs": {fakemlx5.Options{StaticUARs: true, Registers: maxStatic}, 0, maxStatic}}
	for name, device := range devices {
		machines[name], machines[name+", pages of 64 KiB"] = machine{device, 0, 70}, machine{device, 1 << 16, 70}
	}
	for name, m := range machines {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(k *fakeverbs.Kernel, _ *uverbs.QPOptions) { k.Page, *fakemlx5.OptionsOf(k) = m.page, m.device })
			var qps []*uverbs.QP
			for range m.qps {
				qp := providertest.Must[*uverbs.QP](t)(w.pd.CreateQP(&uverbs.QPOptions{SendCQ: w.cq, RecvCQ: w.cq, Cap: verbs.QPCap{MaxSendWR: 2, MaxSendSGE: 1, MaxInline: 8}}))
				providertest.Bring(t, qp)
				qps = append(qps, qp)
			}
			for range 3 {
				for i, qp := range qps {
					wr := verbs.SendWR{WRID: uint64(i), Opcode: verbs.OpSend, Flags: verbs.SendSignaled, Inline: data(i % 9)}
					post(t, qp, wr)
					kqp := w.k.QueuePairs()[i+1]
					s, ok := kqp.TakeSend()
					if !ok {
						t.Fatal("nothing was sent")
					}
					kqp.Sent(s, abi.IB_WC_SUCCESS)
					if wc := w.one(t); wc.WRID != uint64(i) || wc.QPN != qp.QPN() {
						t.Errorf("%+v", wc)
					}
				}
			}
			for _, qp := range qps {
				if err := qp.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestFirstRegister has QPs post concurrently that share the register which needs no lock.
// It is for the race detector.
func TestFirstRegister(t *testing.T) {
	w := newWorld(t, func(k *fakeverbs.Kernel, _ *uverbs.QPOptions) { fakemlx5.OptionsOf(k).StaticUARs = true })
	qps := []*uverbs.QP{w.qp}
	for range 16 {
		qp := providertest.Must[*uverbs.QP](t)(w.pd.CreateQP(&uverbs.QPOptions{SendCQ: w.cq, RecvCQ: w.cq, Cap: verbs.QPCap{MaxSendWR: 4, MaxSendSGE: 1}}))
		defer qp.Close()
		providertest.Bring(t, qp)
		qps = append(qps, qp)
	}
	var busy sync.WaitGroup
	for _, qp := range []*uverbs.QP{qps[0], qps[16]} {
		busy.Go(func() {
			if n, err := qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend}}); n != 1 || err != nil {
				t.Error(n, err)
			}
		})
	}
	busy.Wait()
}

// exited is the memory of a process that has ended.
type exited struct{ fakeverbs.Memory }

func (exited) Read(uint64, []byte) error     { return syscall.ESRCH }
func (exited) Load32(uint64) (uint32, error) { return 0, syscall.ESRCH }
func (exited) Store32(uint64, uint32) error  { return syscall.ESRCH }
func (exited) Write(uint64, []byte) error    { return syscall.ESRCH }

// TestExited checks that the model ignores a process's last stores if its memory is gone.
func TestExited(t *testing.T) {
	w := newWorld(t, nil)
	memory := w.k.User
	w.k.User = exited{memory}
	w.post(t, verbs.SendWR{Opcode: verbs.OpSend})
	if err := w.cq.Arm(false); err != nil {
		t.Error(err)
	}
	w.k.User = memory
}

// TestHostileAnswers gives impossible answers of the kernel: an error, the kernel's object
// destroyed again, nothing leaked.
func TestHostileAnswers(t *testing.T) {
	type qpAnswer = abi.Mlx5IbCreateQpResp
	makeCQ := func(w *world) error { _, err := w.dev.CreateCQ(4, nil); return err }
	makeQP := func(w *world) error {
		_, err := w.pd.CreateQP(&uverbs.QPOptions{SendCQ: w.cq, RecvCQ: w.cq, Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4}})
		return err
	}
	for name, c := range map[string]struct {
		tamper func(string, *ioctl.Request)
		create func(*world) error
	}{
		"high CQ number": {tamper("CQ_CREATE", func(a *abi.Mlx5IbCreateCqResp) { a.Cqn = 1 << 24 }), makeCQ},
		"high register":  {tamper("QP_CREATE", func(a *qpAnswer) { a.BfregIndex = 1 << 30 }), makeQP},
		"no register":    {tamper("QP_CREATE", func(a *qpAnswer) { a.BfregIndex = 2 }), makeQP},
		"high QP number": {func(call string, r *ioctl.Request) {
			if call == "QP_CREATE" {
				n := uint32(1 << 24)
				ioctl.Answer(r, abi.UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, &n)
			}
		}, makeQP},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(k *fakeverbs.Kernel, _ *uverbs.QPOptions) { fakemlx5.OptionsOf(k).StaticUARs = true })
			alive, live := w.k.Alive(), regions.Live()
			w.k.Tamper = c.tamper
			if err := c.create(w); err == nil || !strings.Contains(err.Error(), "on mlx5_0") {
				t.Errorf("error is %v", err)
			}
			if !slices.Equal(w.k.Alive(), alive) || regions.Live() > live {
				t.Errorf("%q and %d regions, before %q and %d", w.k.Alive(), regions.Live(), alive, live)
			}
		})
	}
}

// TestHostileOpen has limits that no device has, and UARs and event channels that can't be
// created.
func TestHostileOpen(t *testing.T) {
	type answer = abi.Mlx5IbAllocUcontextResp
	for name, change := range map[string]func(*answer){
		"version":            func(a *answer) { a.CqeVersion = 2 },
		"no cache line":      func(a *answer) { a.CacheLineSize = 0 },
		"odd cache line":     func(a *answer) { a.CacheLineSize = 96 },
		"long cache line":    func(a *answer) { a.CacheLineSize = 1 << 20 },
		"long registers":     func(a *answer) { a.BfRegSize = 2048 },
		"longest registers":  func(a *answer) { a.BfRegSize = 1 << 31 },
		"odd registers":      func(a *answer) { a.BfRegSize = 96 },
		"many registers":     func(a *answer) { a.TotBfregs = 1 << 20 },
		"too many keys":      func(a *answer) { a.TotBfregs = maxStatic + 2 },
		"UARs beyond a page": func(a *answer) { a.NumUarsPerPage = 2 },
		"odd number":         func(a *answer) { a.TotBfregs = 3 },
		"unmapped":           func(a *answer) { a.TotBfregs = 64 },
		"many UARs a page":   func(a *answer) { a.TotBfregs, a.NumUarsPerPage = 64, 16 },
	} {
		k := fakeverbs.New(uint32(verbs.DriverMLX5))
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
	for _, call := range []string{"UAR_OBJ_ALLOC", "MMAP", "ASYNC_EVENT_ALLOC"} {
		k := fakeverbs.New(uint32(verbs.DriverMLX5))
		k.Fail(call, 0, syscall.ENOMEM)
		if _, err := providertest.OpenOn(info, k); !errors.Is(err, syscall.ENOMEM) {
			t.Error(call, err)
		}
		if leaks := k.Leaks(); len(leaks) > 0 {
			t.Errorf("%s: %q", call, leaks)
		}
	}
}
