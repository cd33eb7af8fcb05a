package mlx5

import (
	"errors"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	fakemlx5 "github.com/goverbs/goverbs/internal/fakeverbs/mlx5"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestDCLayout checks the device's view of each form of a DCI's request, wherever in the queue it begins.
func TestDCLayout(t *testing.T) {
	for name, options := range devices {
		if options.Infiniband { // whose addresses TestAddress compares
			continue
		}
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(k *fakeverbs.Kernel, o *uverbs.QPOptions) {
				*fakemlx5.OptionsOf(k), o.Type, o.Cap.MaxInline = options, verbs.QPTypeDCI, 140
				o.DCStreams = verbs.DCStreams{Concurrent: 4, Errored: 16}
			})
			ah := newAH(t, w)
			to := fakeverbs.Destination{QPN: 0x123456, Key: 0x8182838485868788, AH: w.k.AddressHandles()[0]}
			id, list := uint64(1), 0
			for name, f := range forms(typeDCI, 140) {
				f.wr.WRID, f.wr.AH, f.wr.RemoteQPN, f.wr.RemoteQKey, f.wr.DCKey = id, ah, 0xff123456, 0xffffffff, to.Key
				if f.wr.Opcode != verbs.OpLocalInv { // which needs no peer
					f.wr.DCStream = uint16(0x8182 * id)
					f.want.To, f.want.Stream = to, f.wr.DCStream
				}
				list = list%3 + 1
				id++
				w.sendAndCompare(t, name, f.wr, &f.want, list)
				if canBuild(&f.wr) {
					w.compare(t, name+", built", f.wr, &f.want, list, w.build)
				}
			}
			if err := ah.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// newAH creates an address handle of another port.
func newAH(t testing.TB, w *world) *uverbs.AH {
	t.Helper()
	return providertest.Must[*uverbs.AH](t)(w.pd.CreateAH(&verbs.AHAttr{Port: 1, Global: true,
		DGID: verbs.GID{10: 0xff, 11: 0xff, 12: 1, 13: 2, 14: 3, 15: 4}, SGIDIndex: 1, FlowLabel: 0xfedcb}))
}

// TestBuiltTargets checks that Ring stops at the first request whose target is missing or has a closed AH, and that a
// target applies to the requests that are built after it.
func TestBuiltTargets(t *testing.T) {
	w := newWorld(t, func(k *fakeverbs.Kernel, o *uverbs.QPOptions) { o.Type = verbs.QPTypeDCI })
	open, closed := newAH(t, w), newAH(t, w)
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	send := verbs.SendWR{Opcode: verbs.OpSend, Inline: data(20)}
	type to struct {
		ah  *uverbs.AH
		num uint32
		key uint64
	}
	for name, c := range map[string]struct {
		targets []to // one a request
		n       int
	}{
		"none":         {[]to{{}}, 0},
		"a nil AH":     {[]to{{num: 1}}, 0},
		"a closed AH":  {[]to{{open, 1, 2}, {closed, 1, 2}, {open, 1, 2}}, 1},
		"two":          {[]to{{open, 1, 2}, {open, 3, 1 << 40}, {open, 3, 4}}, 3},
		"none anymore": {[]to{{}, {open, 1, 2}}, 0},
	} {
		q := w.qp.Sends()
		for _, d := range c.targets {
			if d != (to{}) {
				q.SetDCAddr(d.ah, d.num, d.key, 0)
			}
			add(q, &send)
		}
		n, err := q.Ring()
		if want := n < len(c.targets); n != c.n || want != errors.Is(err, verbs.ErrInvalidWR) || want != (err != nil) {
			t.Errorf("%s: %d, %v", name, n, err)
		}
		for i := range c.n {
			got := w.take(t)
			if got.To.QPN != c.targets[i].num || got.To.Key != c.targets[i].key {
				t.Errorf("%s: request %d goes to %+v", name, i, got.To)
			}
			w.kqp.Sent(got, abi.IB_WC_SUCCESS)
		}
	}
}

// TestDCT checks that a DCT gets its number when it goes to RTR, and that its completions name it, by index or by number.
func TestDCT(t *testing.T) {
	for name, options := range map[string]fakemlx5.Options{"by index": {}, "by number": {CQEVersion0: true}, "without ECE": {NoECE: true}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(k *fakeverbs.Kernel, o *uverbs.QPOptions) { *fakemlx5.OptionsOf(k) = options })
			srq := providertest.Must[*uverbs.SRQ](t)(w.pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 3, MaxSGE: 1}))
			qp := providertest.Must[*uverbs.QP](t)(w.pd.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeDCT, RecvCQ: w.cq, SRQ: srq, DCKey: 0x8182838485868788}))
			kqp := w.k.QueuePairs()[1]
			if q := fakemlx5.QPOf(kqp); q.Key() != 0x8182838485868788 || qp.QPN() != 0 || qp.Cap() != (verbs.QPCap{}) {
				t.Errorf("key %#x, number %d", q.Key(), qp.QPN())
			}
			if err := qp.SetECE(verbs.ECE{VendorID: vendorMellanox, Options: 1}); (err == nil) == options.NoECE {
				t.Error(err)
			}
			providertest.Bring(t, qp)
			if qp.QPN() == 0 || qp.QPN() != kqp.Num {
				t.Errorf("number %d, not %d", qp.QPN(), kqp.Num)
			}
			for i := range 2 {
				providertest.Must[int](t)(srq.PostRecv([]verbs.RecvWR{{WRID: uint64(i), SGL: []verbs.SGE{w.mr.SGE(0, 100)}}}))
				r, ok := kqp.TakeRecv()
				if !ok {
					t.Fatal("no receive")
				}
				wc := wcOf(5)
				if i == 1 {
					wc.Status = abi.IB_WC_LOC_LEN_ERR
				}
				kqp.Received(r, wc, false)
				if got := w.one(t); got.WRID != uint64(i) || got.QPN != qp.QPN() || (got.Err() == nil) != (i == 0) {
					t.Errorf("%+v", got)
				}
			}
			providertest.Must[int](t)(srq.PostRecv([]verbs.RecvWR{{WRID: 9}}))
			r, _ := kqp.TakeRecv()
			kqp.Received(r, wcOf(5), false)
			if err := errors.Join(qp.Close(), srq.Close()); err != nil { // and its completion goes
				t.Error(err)
			}
			if wcs := w.poll(t); len(wcs) != 0 {
				t.Errorf("completions of a closed DCT: %+v", wcs)
			}
		})
	}
}

// TestNoDC checks that devices without DC say so.
func TestNoDC(t *testing.T) {
	w := newWorld(t, func(k *fakeverbs.Kernel, o *uverbs.QPOptions) { fakemlx5.OptionsOf(k).NoDCT = true })
	if _, err := w.pd.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeDCI, SendCQ: w.cq, Cap: verbs.QPCap{MaxSendWR: 1}}); !errors.Is(err, verbs.ErrNotSupported) {
		t.Error(err)
	}
}
