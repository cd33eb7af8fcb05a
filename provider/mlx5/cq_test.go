package mlx5

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	fakemlx5 "github.com/goverbs/goverbs/internal/fakeverbs/mlx5"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// send posts a send and completes it.
func (w *world) send(t testing.TB) {
	t.Helper()
	w.post(t, verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
	w.kqp.Sent(w.take(t), abi.IB_WC_SUCCESS)
}

// TestEvents takes more events than their counter holds, one per arm; in between it arms
// twice, and while an event is unread.
func TestEvents(t *testing.T) {
	w := newWorld(t, nil)
	arm := func() {
		if err := w.cq.Arm(false); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 50 {
		arm()
		if i%3 == 0 {
			arm()
		}
		w.send(t)
		if i%5 == 0 {
			arm() // ignored
		}
		if cq, err := w.cq.Channel().Get(context.Background()); cq != w.cq || err != nil {
			t.Fatal(cq, err)
		}
		if w.kcq.Armed() {
			t.Fatalf("armed after event %d", i)
		}
		w.one(t)
	}
}

// TestSolicited checks that of successes only those count that the sender marked, but all
// errors.
func TestSolicited(t *testing.T) {
	w := newWorld(t, nil)
	for _, c := range []struct {
		status    uint32
		solicited bool
	}{{abi.IB_WC_SUCCESS, false}, {abi.IB_WC_SUCCESS, true}, {abi.IB_WC_LOC_LEN_ERR, false}} {
		if err := w.cq.Arm(true); err != nil {
			t.Fatal(err)
		}
		w.postRecv(t, verbs.RecvWR{})
		r, _ := w.kqp.TakeRecv()
		w.kqp.Received(r, &abi.IbUverbsWc{Status: c.status}, c.solicited)
		raised := c.solicited || c.status != abi.IB_WC_SUCCESS
		if w.kcq.Armed() == raised {
			t.Errorf("%+v: armed %v", c, w.kcq.Armed())
		}
		if raised {
			if _, err := w.cq.Channel().Get(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		w.one(t)
	}
}

// TestStatuses completes a send and a receive with each syndrome.
func TestStatuses(t *testing.T) {
	known := map[int]verbs.Status{
		1: verbs.StatusLocLenErr, 2: verbs.StatusLocQPOpErr, 4: verbs.StatusLocProtErr, 5: verbs.StatusWRFlushErr, 6: verbs.StatusMWBindErr,
		0x10: verbs.StatusBadRespErr, 0x11: verbs.StatusLocAccessErr, 0x12: verbs.StatusRemInvReqErr, 0x13: verbs.StatusRemAccessErr,
		0x14: verbs.StatusRemOpErr, 0x15: verbs.StatusRetryExcErr, 0x16: verbs.StatusRNRRetryExcErr, 0x22: verbs.StatusRemAbortErr,
	}
	for syndrome := 1; syndrome < 256; syndrome++ {
		want := verbs.WC{Status: verbs.StatusGeneralErr, VendorErr: uint32(255 - syndrome)}
		if s, ok := known[syndrome]; ok {
			want.Status = s
		}
		w := newWorld(t, nil)
		w.post(t, verbs.SendWR{WRID: 4, Opcode: verbs.OpSend}) // unsignaled
		fakemlx5.QPOf(w.kqp).Fail(uint8(syndrome), uint8(255-syndrome))
		if want.WRID, want.QPN = 4, w.qp.QPN(); w.one(t) != want {
			t.Errorf("syndrome %#x of a send: want %+v", syndrome, want)
		}
		w = newWorld(t, nil)
		w.postRecv(t, verbs.RecvWR{WRID: 5})
		fakemlx5.QPOf(w.kqp).FailRecv(uint8(syndrome), uint8(255-syndrome))
		if want.WRID, want.QPN = 5, w.qp.QPN(); w.one(t) != want {
			t.Errorf("syndrome %#x of a receive: want %+v", syndrome, want)
		}
	}
}

// TestHostile has the device write completions that it must not write: Poll returns none of
// them, and all works afterwards.
func TestHostile(t *testing.T) {
	for name, device := range map[string]fakemlx5.Options{"index": {}, "number": {CQEVersion0: true}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(k *fakeverbs.Kernel, _ *uverbs.QPOptions) { *fakemlx5.OptionsOf(k) = device })
			w.post(t, verbs.SendWR{WRID: 1, Opcode: verbs.OpSend, SGL: sges(maxSGE)}, verbs.SendWR{WRID: 2, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
			w.postRecv(t, verbs.RecvWR{WRID: 3}, verbs.RecvWR{WRID: 4})
			var queue uint32 // the QP's, with version 1
			qpn := w.qp.QPN()
			for _, c := range []fakemlx5.CQE{
				{QPN: qpn + 1, Queue: 1}, {QPN: 0xffffff, Queue: 0xffffff}, {QPN: 0x8000, Queue: 0x8000}, // no such QP
				{QPN: qpn, Queue: queue, Counter: 1},                                                                                                           // inside the first send
				{QPN: qpn, Queue: queue, Counter: 3}, {QPN: qpn, Queue: queue, Counter: 0xffff}, {QPN: qpn, Queue: queue, Opcode: 13, Counter: 3, Syndrome: 1}, // no such send
				{QPN: qpn, Queue: queue, Opcode: 2, Counter: 2}, {QPN: qpn, Queue: queue, Opcode: 14, Counter: 3, Syndrome: 1}, // no such receive
				{QPN: qpn, Queue: queue, Opcode: 5}, {QPN: qpn, Queue: queue, Opcode: 6}, {QPN: qpn, Queue: queue, Opcode: 12}, {QPN: qpn, Queue: queue, Opcode: 8}, // not of a work request
			} {
				fakemlx5.CQOf(w.kcq).Complete(c)
				if wcs := w.poll(t); len(wcs) > 0 {
					t.Errorf("%+v comes of %+v", wcs, c)
				}
			}
			w.kqp.Sent(w.take(t), abi.IB_WC_SUCCESS)
			w.kqp.Sent(w.take(t), abi.IB_WC_SUCCESS)
			if wc := w.one(t); wc.WRID != 2 {
				t.Errorf("%+v", wc)
			}
			fakemlx5.CQOf(w.kcq).Complete(fakemlx5.CQE{QPN: qpn, Queue: queue, Counter: 2}) // once more
			fakemlx5.CQOf(w.kcq).Complete(fakemlx5.CQE{QPN: qpn, Queue: queue, Opcode: 2, Counter: 1})
			fakemlx5.CQOf(w.kcq).Complete(fakemlx5.CQE{QPN: qpn, Queue: queue, Opcode: 2, Counter: 1})
			if wc := w.one(t); wc.WRID != 4 {
				t.Errorf("%+v", wc)
			}
		})
	}
}

// TestWrongCQ checks that a completion of a QP that has other CQs is skipped.
func TestWrongCQ(t *testing.T) {
	w := newWorld(t, nil)
	other := providertest.Must[*uverbs.CQ](t)(w.dev.CreateCQ(7, nil))
	w.post(t, verbs.SendWR{Opcode: verbs.OpSend})
	w.postRecv(t, verbs.RecvWR{})
	kother := fakemlx5.CQOf(w.k.CQs()[1])
	for _, op := range []uint8{0, 1, 2, 3, 4, 13, 14} {
		kother.Complete(fakemlx5.CQE{QPN: w.qp.QPN(), Opcode: op, Syndrome: 1})
		if n, err := other.Poll(make([]verbs.WC, 4)); n != 0 || err != nil {
			t.Error(op, n, err)
		}
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
}

// TestReceivesOutOfOrder checks that a slot is free only when its own receive has
// completed.
func TestReceivesOutOfOrder(t *testing.T) {
	w := newWorld(t, nil)
	for i := range uint64(depth) {
		w.postRecv(t, verbs.RecvWR{WRID: i})
	}
	complete := func(place uint16) {
		fakemlx5.CQOf(w.kcq).Complete(fakemlx5.CQE{QPN: w.qp.QPN(), Opcode: 2, Counter: place})
		if wc := w.one(t); wc.WRID != uint64(place) {
			t.Errorf("%+v, want %d", wc, place)
		}
	}
	complete(2)
	complete(1)
	if n, err := w.qp.PostRecv([]verbs.RecvWR{{}}); n != 0 || !errors.Is(err, verbs.ErrQueueFull) {
		t.Error(n, err)
	}
	complete(0)
	if n, err := w.qp.PostRecv([]verbs.RecvWR{{}, {}, {}, {}}); n != 3 || !errors.Is(err, verbs.ErrQueueFull) {
		t.Error(n, err)
	}
}

// TestClean checks that a QP's completions are removed from a CQ that others use, at all
// positions of the queue, and that its entries of an SRQ are free again.
func TestClean(t *testing.T) {
	for _, device := range []fakemlx5.Options{{}, {CQEVersion0: true}, {WeakLoads: true}} {
		for laps := range 9 {
			p := newPair(t, pairOptions{device: device, typ: verbs.QPTypeUC, srq: true})
			cq := p.Side[0].CQ
			opts := &uverbs.QPOptions{Type: verbs.QPTypeUC, SendCQ: cq, RecvCQ: cq, SRQ: p.Side[0].SRQ, Cap: verbs.QPCap{MaxSendWR: 8, MaxSendSGE: 1}}
			other := providertest.Must[*uverbs.QP](t)(p.PD.CreateQP(opts))
			providertest.Bring(t, other)
			all := p.K.QueuePairs()
			p.Wire.Join(all[2], all[0])
			p.Wire.Peers[all[0]] = all[1]
			inline := make([]byte, 4)
			for range laps * 5 {
				p.Send(0, verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, Inline: inline})
				p.Reap()
			}
			for i := range 5 {
				p.Recv(0, target, 256, verbs.WC{Opcode: verbs.WCRecv, ByteLen: 4})
				p.Recv(0, target, 256, verbs.WC{Opcode: verbs.WCRecv, ByteLen: 4})
				post(t, other, verbs.SendWR{WRID: uint64(1000 + i), Opcode: verbs.OpSend, Flags: verbs.SendSignaled, Inline: inline})
				p.Wire.Join(all[2], all[0])
				if i%2 == 0 { // and one that the other QP receives
					p.Wire.Peers[all[1]] = all[2]
					p.Recv(0, target, 256, verbs.WC{})
					p.Side[0].Want = p.Side[0].Want[:len(p.Side[0].Want)-1]
					post(t, p.Side[1].QP, verbs.SendWR{Opcode: verbs.OpSend, Inline: inline})
					p.Wire.Peers[all[1]] = all[0]
				}
				post(t, p.Side[1].QP, verbs.SendWR{Opcode: verbs.OpSend, Inline: inline})
			}
			if laps%2 == 0 {
				if err := other.Modify(&verbs.QPAttr{State: verbs.QPStateReset}, verbs.QPAttrState); err != nil {
					t.Fatal(err)
				}
			}
			if err := other.Close(); err != nil {
				t.Fatal(err)
			}
			wcs := make([]verbs.WC, 64)
			n := providertest.Must[int](t)(cq.Poll(wcs))
			for _, wc := range wcs[:n] {
				if wc.QPN != p.Side[0].QP.QPN() || wc.Opcode != verbs.WCRecv {
					t.Errorf("%+v", wc)
				}
			}
			if n != 10 {
				t.Errorf("%d laps: %d completions, want 10", laps, n)
			}
			p.Side[0].Want, p.Side[1].Want = nil, nil
			for i := 0; ; i++ {
				if _, err := p.Side[0].SRQ.PostRecv([]verbs.RecvWR{{}}); err != nil {
					if !errors.Is(err, verbs.ErrQueueFull) || i != 2*pairDepth-1 {
						t.Errorf("%d receives have room after all: %v", i, err)
					}
					break
				}
			}
			p.Close()
			p.NoViolations()
		}
	}
}

// TestNumberAgain checks that a QP's completions on its CQ do not count for the next QP
// with its number.
func TestNumberAgain(t *testing.T) {
	w := newWorld(t, func(k *fakeverbs.Kernel, _ *uverbs.QPOptions) { fakemlx5.OptionsOf(k).CQEVersion0 = true })
	w.send(t)
	num := w.qp.QPN()
	if err := w.qp.Close(); err != nil {
		t.Fatal(err)
	}
	next := providertest.Must[*uverbs.QP](t)(w.pd.CreateQP(&uverbs.QPOptions{SendCQ: w.cq, RecvCQ: w.cq, Cap: verbs.QPCap{MaxSendWR: 4}}))
	defer next.Close()
	if next.QPN() != num {
		t.Fatalf("QP %d, then %d", num, next.QPN())
	}
	providertest.Bring(t, next)
	post(t, next, verbs.SendWR{WRID: 9, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
	if wcs := w.poll(t); len(wcs) > 0 {
		t.Errorf("%+v", wcs)
	}
}

// TestSharedOutOfOrder completes receives of an SRQ in any order; later receives use only
// free entries.
func TestSharedOutOfOrder(t *testing.T) {
	p := newPair(t, pairOptions{typ: verbs.QPTypeUC, srq: true})
	srq, cq, kqp := p.Side[0].SRQ, p.Side[0].CQ, p.K.QueuePairs()[0]
	var taken []*fakeverbs.Recv
	for i := range uint64(100) {
		for {
			if _, err := srq.PostRecv([]verbs.RecvWR{{WRID: i}}); errors.Is(err, verbs.ErrQueueFull) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		for r, ok := kqp.TakeRecv(); ok; r, ok = kqp.TakeRecv() {
			taken = append(taken, r)
		}
		if len(taken) != 2*pairDepth-1 {
			t.Fatalf("%d receives are with the device", len(taken))
		}
		for _, at := range []int{int(i) % 7, 5, int(i*i) % 9} {
			kqp.Received(taken[at], &abi.IbUverbsWc{}, false)
			taken = append(taken[:at:at], taken[at+1:]...)
		}
		if n, err := cq.Poll(make([]verbs.WC, 8)); n != 3 || err != nil {
			t.Fatal(n, err)
		}
	}
	p.Close()
	p.NoViolations()
}

func post(t testing.TB, qp *uverbs.QP, wrs ...verbs.SendWR) {
	t.Helper()
	if n, err := qp.PostSend(wrs); n != len(wrs) || err != nil {
		t.Fatal(n, err)
	}
}

// TestResizeFails checks that a refused resize changes nothing, and that a queue without
// the kernel's marker is lost with an error.
func TestResizeFails(t *testing.T) {
	w := newWorld(t, nil)
	for _, call := range []string{"ALLOC", "RESIZE_CQ"} {
		w.k.Fail(call, 0, syscall.ENOMEM)
		if err := w.cq.Resize(100); !errors.Is(err, syscall.ENOMEM) {
			t.Fatal(err)
		}
		w.send(t)
		w.one(t)
	}
	if err := w.cq.Resize(1 << 24); !errors.Is(err, verbs.ErrNotSupported) {
		t.Error(err)
	}
	w.k.Cross = func(c *fakeverbs.Crossing) {
		if c.Kind == fakeverbs.EntryCQE && c.Bytes[63]>>4 == cqeResize {
			c.Bytes[63] |= 0xf0
		}
	}
	w.send(t)
	if err := w.cq.Resize(100); err == nil {
		t.Fatal("a queue without an end is taken")
	}
	if _, err := w.cq.Poll(make([]verbs.WC, 4)); !errors.Is(err, verbs.ErrClosed) {
		t.Error(err)
	}
	if err := w.cq.Resize(100); !errors.Is(err, verbs.ErrClosed) {
		t.Error(err)
	}
}

// FuzzCQE writes 64 arbitrary bytes to the queue. The completions must be of this QP, and
// of posted work requests.
func FuzzCQE(f *testing.F) {
	for _, op := range []byte{0, 1, 2, 3, 4, 5, 13, 14, 15} {
		seed := make([]byte, 64)
		seed[55], seed[63] = 0x13, op<<4
		binary.BigEndian.PutUint32(seed[56:], 0x0a000001)
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, b []byte, byNumber bool) {
		var entry []byte
		w := newWorld(t, func(k *fakeverbs.Kernel, _ *uverbs.QPOptions) {
			fakemlx5.OptionsOf(k).CQEVersion0 = byNumber
			k.Cross = func(c *fakeverbs.Crossing) {
				if c.Kind == fakeverbs.EntryCQE && entry != nil {
					copy(c.Bytes, entry)
				}
			}
		})
		w.post(t, verbs.SendWR{WRID: 1, Opcode: verbs.OpSend})
		w.postRecv(t, verbs.RecvWR{WRID: 2})
		entry = b
		fakemlx5.CQOf(w.kcq).Complete(fakemlx5.CQE{})
		for _, wc := range w.poll(t) {
			if wc.QPN != w.qp.QPN() || wc.WRID != 1 && wc.WRID != 2 || fmt.Sprint(wc) == "" {
				t.Errorf("%+v", wc)
			}
		}
		entry = nil
	})
}

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

// A receive of an SRQ whose memory is not there yet is posted again by Poll, and fails nothing.
func TestSRQPageFault(t *testing.T) {
	for name, options := range map[string]fakemlx5.Options{"index": {SRQFaults: true}, "version 0": {SRQFaults: true, CQEVersion0: true}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(k *fakeverbs.Kernel, _ *uverbs.QPOptions) { *fakemlx5.OptionsOf(k) = options })
			srq := providertest.Must[*uverbs.SRQ](t)(w.pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 3, MaxSGE: 2}))
			qp := providertest.Must[*uverbs.QP](t)(w.pd.CreateQP(&uverbs.QPOptions{SendCQ: w.cq, RecvCQ: w.cq, SRQ: srq}))
			providertest.Bring(t, qp)
			kqp := w.k.QueuePairs()[1]
			room := make([]*uverbs.MR, srq.MaxWR())
			for i := range room {
				room[i] = providertest.Must[*uverbs.MR](t)(w.pd.AllocMR(4096, verbs.AccessLocalWrite|verbs.AccessOnDemand, nil))
				providertest.Must[int](t)(srq.PostRecv([]verbs.RecvWR{{WRID: uint64(i), SGL: []verbs.SGE{room[i].SGE(1, 100), room[i].SGE(200, 9)}}}))
			}
			if _, err := srq.PostRecv([]verbs.RecvWR{{}}); !errors.Is(err, verbs.ErrQueueFull) { // all entries are in use
				t.Error(err)
			}
			for i := range room {
				if _, ok := kqp.TakeRecv(); ok {
					t.Fatal("the memory is there")
				}
				if wcs := w.poll(t); len(wcs) != 0 || kqp.State() != abi.IB_QPS_RTS {
					t.Fatalf("%d: %+v, state %d", i, wcs, kqp.State())
				}
			}
			for i := range 2 * len(room) { // all come again, in the same order
				at := i % len(room)
				r, ok := kqp.TakeRecv()
				if want := []fakeverbs.SGE{fakeverbs.SGE(room[at].SGE(1, 100)), fakeverbs.SGE(room[at].SGE(200, 9))}; !ok || !slices.Equal(r.SGL, want) {
					t.Fatalf("%d: %v, %+v, want %+v", i, ok, r, want)
				}
				kqp.Received(r, wcOf(7), false)
				if wc := w.one(t); wc.WRID != uint64(at) || wc.Err() != nil || wc.ByteLen != 7 {
					t.Errorf("%+v", wc)
				}
				providertest.Must[int](t)(srq.PostRecv([]verbs.RecvWR{{WRID: uint64(at), SGL: []verbs.SGE{room[at].SGE(1, 100), room[at].SGE(200, 9)}}}))
			}
			// A fault of an entry that does not exist is ignored. Another error with one of the numbers is reported.
			fakemlx5.CQOf(w.kcq).Complete(fakemlx5.CQE{Opcode: 14, Counter: 99, QPN: qp.QPN(), Syndrome: 0x22, Vendor: 0x93, Queue: queueOf(w, kqp)})
			if wcs := w.poll(t); len(wcs) != 0 {
				t.Errorf("%+v", wcs)
			}
			for _, c := range []struct {
				syndrome, vendor uint8
				want             verbs.Status
			}{{0x22, 0x94, verbs.StatusRemAbortErr}, {0x11, 0x93, verbs.StatusLocAccessErr}} {
				r, _ := kqp.TakeRecv()
				fakemlx5.CQOf(w.kcq).Complete(fakemlx5.CQE{Opcode: 14, Counter: uint16(r.Index), QPN: qp.QPN(), Syndrome: c.syndrome, Vendor: c.vendor, Queue: queueOf(w, kqp)})
				if wc := w.one(t); wc.Status != c.want {
					t.Errorf("%+v", wc)
				}
			}
			for _, c := range []interface{ Close() error }{qp, srq, room[0], room[1], room[2]} {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// queueOf returns the number by which completions of receives name the QP's queue.
func queueOf(w *world, kqp *fakeverbs.QP) uint32 {
	if fakemlx5.OptionsOf(w.k).CQEVersion0 {
		return fakemlx5.SRQOf(kqp.SRQ).Num
	}
	return 1 // the second QP's index
}

// TestWeakLoads runs the script on a processor that loads a completion before its owner bit
// unless a barrier is between them: arm64, but amd64 shows it too. Polling, resizing and cleaning
// (see TestClean) need one each.
func TestWeakLoads(t *testing.T) {
	for _, short := range []uint32{0, cqeSize} {
		for _, typ := range []verbs.QPType{verbs.QPTypeRC, verbs.QPTypeUD, verbs.QPTypeXRCInitiator} {
			t.Run(fmt.Sprintf("%d %v", short, typ), func(t *testing.T) {
				p := newPair(t, pairOptions{typ: typ, srq: true, short: short, device: fakemlx5.Options{WeakLoads: true}})
				p.script()
				p.Close()
				p.NoViolations()
			})
		}
	}
}
