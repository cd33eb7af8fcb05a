package mlx5

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	fakemlx5 "github.com/goverbs/goverbs/internal/fakeverbs/mlx5"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestShortScript runs the script with short messages in completions of both sizes, which resizing
// moves and RESET removes.
func TestShortScript(t *testing.T) {
	for _, most := range []uint32{1, cqeInsideSize, cqeInsideSize + 1, cqeSize} {
		for _, o := range []pairOptions{{typ: verbs.QPTypeRC}, {typ: verbs.QPTypeRC, all: true}, {typ: verbs.QPTypeUC, srq: true}, {typ: verbs.QPTypeUD},
			{typ: verbs.QPTypeRC, srq: true, device: fakemlx5.Options{CQEVersion0: true, StaticUARs: true}}} {
			t.Run(fmt.Sprintf("%d, %v, SRQ %v, all %v", most, o.typ, o.srq, o.all), func(t *testing.T) {
				o.short = most
				p := newPair(t, o)
				p.script()
				p.Close()
				p.NoViolations()
			})
		}
	}
}

// TestShort checks which messages come in completions, for this provider to copy. The
// device does not touch the receives of those; READs and atomics need a QP all of whose
// sends complete.
func TestShort(t *testing.T) {
	for _, c := range []struct {
		size  uint32
		n     int
		typ   verbs.QPType
		op    verbs.Opcode
		all   bool
		short bool
	}{
		{64, 1, verbs.QPTypeRC, verbs.OpSend, false, true},
		{64, 32, verbs.QPTypeRC, verbs.OpSend, false, true},
		{64, 33, verbs.QPTypeRC, verbs.OpSend, false, false},
		{128, 32, verbs.QPTypeUC, verbs.OpSend, false, true},
		{128, 64, verbs.QPTypeRC, verbs.OpSend, false, true},
		{128, 65, verbs.QPTypeRC, verbs.OpSend, false, false},
		{64, 20, verbs.QPTypeRC, verbs.OpRDMARead, false, false},
		{64, 20, verbs.QPTypeRC, verbs.OpRDMARead, true, true},
		{128, 64, verbs.QPTypeRC, verbs.OpRDMARead, true, true},
		{64, 8, verbs.QPTypeRC, verbs.OpFetchAdd, true, true},
		{64, 8, verbs.QPTypeRC, verbs.OpCompareSwap, true, true},
	} {
		t.Run(fmt.Sprintf("%v of %d bytes, completions of %d, all %v", c.op, c.n, c.size, c.all), func(t *testing.T) {
			short := false
			p := newPair(t, pairOptions{typ: c.typ, all: c.all, short: c.size / 2, kernel: func(k *fakeverbs.Kernel) {
				k.Cross = func(x *fakeverbs.Crossing) {
					if x.Kind == fakeverbs.EntryCQE && x.Bytes[63]&0xc != 0 {
						short = true
					}
				}
			}})
			switch c.op {
			case verbs.OpSend:
				p.OneMessage(0, 1, c.op, gathered(c.n))
			case verbs.OpRDMARead:
				p.OneRead(0, 1, c.n/2, c.n-c.n/2)
			default:
				p.Atomics()
			}
			if short != c.short {
				t.Errorf("in a completion: %v", short)
			}
			p.NoViolations()
		})
	}
}

// TestShortRefused checks that a message goes to memory of open regions only, and not beyond the
// receive.
func TestShortRefused(t *testing.T) {
	for name, c := range map[string]struct {
		sge  func(*world) verbs.SGE
		want verbs.Status
	}{
		"all is well": {func(w *world) verbs.SGE { return w.mr.SGE(0, 16) }, verbs.StatusSuccess},
		"too long":    {func(w *world) verbs.SGE { return w.mr.SGE(0, 15) }, verbs.StatusLocLenErr},
		"no region":   {func(w *world) verbs.SGE { return verbs.SGE{Addr: w.mr.Addr(), Length: 16, LKey: 0xdead00} }, verbs.StatusLocProtErr},
		"behind it":   {func(w *world) verbs.SGE { return verbs.SGE{Addr: w.mr.Addr() + 4090, Length: 16, LKey: w.mr.LKey()} }, verbs.StatusLocProtErr},
		"before it": {func(w *world) verbs.SGE {
			return verbs.SGE{Addr: w.mr.Addr() - 1, Length: 16, LKey: w.mr.LKey()}
		}, verbs.StatusLocProtErr},
		"read only": {func(w *world) verbs.SGE {
			mr, err := w.pd.AllocMR(4096, 0, nil)
			if err != nil {
				panic(err)
			}
			return mr.SGE(0, 16)
		}, verbs.StatusLocProtErr},
		"closed": {func(w *world) verbs.SGE {
			mr, err := w.pd.AllocMR(4096, verbs.AccessLocalWrite, nil)
			if err != nil {
				panic(err)
			}
			sge := mr.SGE(0, 16)
			if err := mr.Close(); err != nil {
				panic(err)
			}
			return sge
		}, verbs.StatusLocProtErr},
	} {
		t.Run(name, func(t *testing.T) {
			w := makeWorld(t, uverbs.CQOptions{MaxInline: 16}, nil)
			w.postRecv(t, verbs.RecvWR{WRID: 7, SGL: []verbs.SGE{c.sge(w)}})
			r, _ := w.kqp.TakeRecv()
			if !w.kqp.Keep(r, []byte("sixteen bytes ok")) {
				t.Fatal("the device keeps it not")
			}
			w.kqp.Received(r, wcOf(16), false)
			wc := w.one(t)
			if wc.WRID != 7 || wc.Status != c.want || wc.QPN != w.qp.QPN() {
				t.Errorf("%+v", wc)
			}
			if got := strings.HasPrefix(string(w.mr.Bytes()), "sixteen bytes ok"); got != (c.want == verbs.StatusSuccess) {
				t.Errorf("%q", w.mr.Bytes()[:16])
			}
		})
	}
}

// TestShortUnasked checks that a message in a completion is ignored if the QP was not
// created for that.
func TestShortUnasked(t *testing.T) {
	w := newWorld(t, nil)
	w.postRecv(t, verbs.RecvWR{SGL: []verbs.SGE{w.mr.SGE(0, 16)}})
	r, _ := w.kqp.TakeRecv()
	w.k.Cross = func(x *fakeverbs.Crossing) {
		if x.Kind == fakeverbs.EntryCQE {
			copy(x.Bytes, "sixteen bytes ok")
			x.Bytes[63] |= 1 << 2
		}
	}
	w.kqp.Received(r, wcOf(16), false)
	if wc := w.one(t); wc.Err() != nil || w.mr.Bytes()[0] != 0 {
		t.Errorf("%+v, %q", wc, w.mr.Bytes()[:16])
	}
}

// TestShortSizes checks that the CQ with the option decides on the size of its completions. The QP
// has messages in them if the CQs of all directions that it would have them in allow that.
func TestShortSizes(t *testing.T) {
	for _, c := range []struct {
		send, recv uint32
		all, want  bool
	}{{0, 0, false, false}, {32, 0, false, false}, {0, 1, false, true}, {33, 0, true, false}, {0, 64, false, true}, {0, 64, true, false}, {64, 32, true, true}, {64, 32, false, true}} {
		var sizes []uint32
		var scatter bool
		w := newWorld(t, func(k *fakeverbs.Kernel, _ *uverbs.QPOptions) {
			k.Cross = func(x *fakeverbs.Crossing) {
				switch {
				case x.Kind != fakeverbs.CallIn:
				case x.Call == "CQ_CREATE":
					sizes = append(sizes, binary.NativeEndian.Uint32(x.Bytes[16:]))
				case x.Call == "QP_CREATE":
					scatter = x.Bytes[28]&2 != 0
				}
			}
		})
		sizes = nil
		send, recv := providertest.Must[*uverbs.CQ](t)(w.dev.CreateCQ(3, &uverbs.CQOptions{MaxInline: c.send})), providertest.Must[*uverbs.CQ](t)(w.dev.CreateCQ(3, &uverbs.CQOptions{MaxInline: c.recv}))
		qp := providertest.Must[*uverbs.QP](t)(w.pd.CreateQP(&uverbs.QPOptions{SendCQ: send, RecvCQ: recv, SignalAll: c.all, Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1}}))
		want := []uint32{64, 64}
		for i, n := range []uint32{c.send, c.recv} {
			if n > 32 {
				want[i] = 128
			}
		}
		if !slices.Equal(sizes, want) || scatter != c.want {
			t.Errorf("%+v: completions of %d bytes, messages in them: %v", c, sizes, scatter)
		}
		if err := errors.Join(qp.Close(), send.Close(), recv.Close()); err != nil {
			t.Error(err)
		}
		if _, err := w.dev.CreateCQ(1, &uverbs.CQOptions{MaxInline: 65}); !errors.Is(err, verbs.ErrNotSupported) {
			t.Error(err)
		}
	}
}
