package mlx5

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	fakemlx5 "github.com/goverbs/goverbs/internal/fakeverbs/mlx5"
	"github.com/goverbs/goverbs/verbs"
)

// tunings are those of the environment, in rdma-core's words.
var tunings = map[string]map[string]string{
	"128":       {"MLX5_CQE_SIZE": "128"},
	"short":     {"MLX5_SCATTER_TO_CQE": "1"},
	"short 128": {"MLX5_SCATTER_TO_CQE": "1", "MLX5_CQE_SIZE": "128"},
}

func tune(t *testing.T, words map[string]string) {
	for name, value := range words {
		t.Setenv(name, value)
	}
}

// TestTunedScript runs the script with completions of 128 bytes and with short messages in
// completions, which resizing moves and RESET removes.
func TestTunedScript(t *testing.T) {
	for name, words := range tunings {
		for _, o := range []pairOptions{{typ: verbs.QPTypeRC}, {typ: verbs.QPTypeRC, all: true}, {typ: verbs.QPTypeUC, srq: true}, {typ: verbs.QPTypeUD},
			{typ: verbs.QPTypeRC, srq: true, device: fakemlx5.Options{CQEVersion0: true, StaticUARs: true}}} {
			t.Run(fmt.Sprintf("%s, %v, SRQ %v, all %v", name, o.typ, o.srq, o.all), func(t *testing.T) {
				tune(t, words)
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
		size  string
		n     int
		typ   verbs.QPType
		op    verbs.Opcode
		all   bool
		short bool
	}{
		{"64", 1, verbs.QPTypeRC, verbs.OpSend, false, true},
		{"64", 32, verbs.QPTypeRC, verbs.OpSend, false, true},
		{"64", 33, verbs.QPTypeRC, verbs.OpSend, false, false},
		{"128", 32, verbs.QPTypeUC, verbs.OpSend, false, true},
		{"128", 64, verbs.QPTypeRC, verbs.OpSend, false, true},
		{"128", 65, verbs.QPTypeRC, verbs.OpSend, false, false},
		{"64", 20, verbs.QPTypeRC, verbs.OpRDMARead, false, false},
		{"64", 20, verbs.QPTypeRC, verbs.OpRDMARead, true, true},
		{"128", 64, verbs.QPTypeRC, verbs.OpRDMARead, true, true},
		{"64", 8, verbs.QPTypeRC, verbs.OpFetchAdd, true, true},
		{"64", 8, verbs.QPTypeRC, verbs.OpCompareSwap, true, true},
	} {
		t.Run(fmt.Sprintf("%v of %d bytes, completions of %s, all %v", c.op, c.n, c.size, c.all), func(t *testing.T) {
			tune(t, map[string]string{"MLX5_SCATTER_TO_CQE": "1", "MLX5_CQE_SIZE": c.size})
			short := false
			p := newPair(t, pairOptions{typ: c.typ, all: c.all, kernel: func(k *fakeverbs.Kernel) {
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

// TestShortRefused: a message goes to memory of open regions only, and not beyond the receive.
func TestShortRefused(t *testing.T) {
	tune(t, tunings["short"])
	for name, c := range map[string]struct {
		sge  func(*world) verbs.SGE
		want verbs.Status
	}{
		"all is well": {func(w *world) verbs.SGE { return w.mr.SGE(0, 16) }, verbs.StatusSuccess},
		"too long":    {func(w *world) verbs.SGE { return w.mr.SGE(0, 15) }, verbs.StatusLocLenErr},
		"no region":   {func(w *world) verbs.SGE { return verbs.SGE{Addr: w.mr.Addr(), Length: 16, LKey: 0xdead00} }, verbs.StatusLocProtErr},
		"behind it":   {func(w *world) verbs.SGE { return w.mr.SGE(4090, 16) }, verbs.StatusLocProtErr},
		"before it": {func(w *world) verbs.SGE {
			return verbs.SGE{Addr: w.mr.Addr() - 1, Length: 16, LKey: w.mr.LKey()}
		}, verbs.StatusLocProtErr},
		"read only": {func(w *world) verbs.SGE {
			mr, err := w.pd.AllocMR(4096, 0, nil)
			if err != nil {
				panic(err)
			}
			w.extra = append(w.extra, mr)
			return mr.SGE(0, 16)
		}, verbs.StatusLocProtErr},
		"closed": {func(w *world) verbs.SGE {
			mr, err := w.pd.AllocMR(4096, verbs.AccessLocalWrite, nil)
			if err != nil || mr.Close() != nil {
				panic(err)
			}
			return mr.SGE(0, 16)
		}, verbs.StatusLocProtErr},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.postRecv(t, verbs.RecvWR{WRID: 7, SGL: []verbs.SGE{c.sge(w)}})
			r, _ := w.kqp.TakeRecv()
			if !w.kqp.Keep(r, []byte("sixteen bytes ok")) {
				t.Fatal("the device keeps it not")
			}
			w.kqp.Received(r, wcOf(16), false)
			wc := w.one(t)
			if wc.WRID != 7 || wc.Status != c.want || wc.QPN != w.qp.Num() {
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

// TestTuning: sizes of completions that no device has.
func TestTuning(t *testing.T) {
	for _, size := range []string{"65", "256", "x", "-64"} {
		t.Setenv("MLX5_CQE_SIZE", size)
		if _, err := openOn(info, fakeverbs.New(uint32(verbs.DriverMLX5))); !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "MLX5_CQE_SIZE") {
			t.Errorf("%s: %v", size, err)
		}
	}
	t.Setenv("MLX5_CQE_SIZE", "")
	t.Setenv("MLX5_SCATTER_TO_CQE", "0")
	if got, err := readTuning(); err != nil || got.short || got.cqeSize != 64 {
		t.Errorf("%+v, %v", got, err)
	}
}
