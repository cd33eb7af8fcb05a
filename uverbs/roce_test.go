package uverbs_test

import (
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	fakerxe "github.com/goverbs/goverbs/internal/fakeverbs/rxe"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// roce is a world of rxe, with what RoCE has besides.
type roce struct {
	*world
	other *uverbs.PD
	mw    *uverbs.MW
	ah    *verbs.AH
	ud    *uverbs.QP
}

var (
	group   = verbs.GID{0xff, 0x0e, 15: 1}
	address = &verbs.AHAttr{DGID: fakeverbs.IPv4GID, SGIDIndex: 1, HopLimit: 64, Global: true, Port: 1}
)

func newRoCE(t testing.TB) *roce {
	t.Helper()
	w := &roce{world: worldOn(t, rxe0)}
	w.other = must[*uverbs.PD](t)(w.dev.AllocPD())
	w.mw = must[*uverbs.MW](t)(w.pd.AllocMW(verbs.MWType1))
	w.ah = must[*verbs.AH](t)(w.pd.CreateAH(address))
	opts := w.qpOptions()
	opts.Type = verbs.QPTypeUD
	w.ud = must[*uverbs.QP](t)(w.pd.CreateQP(opts))
	t.Cleanup(func() { w.closeRoCE(t) })
	return w
}

func (w *roce) closeRoCE(t testing.TB) { closeAll(t, w.ud, w.ah, w.mw, w.mr, w.other) }

// connected is a world whose QPs are in RTS.
func connected(t testing.TB) *roce {
	t.Helper()
	w := newRoCE(t)
	for _, qp := range []*uverbs.QP{w.qp, w.ud} {
		attr := &verbs.QPAttr{DestQPN: qp.Num(), AH: *address, QKey: 1, Access: verbs.AccessRemoteWrite}
		if err := qp.Init(attr); err != nil {
			t.Fatal(err)
		}
		if err := qp.Connect(attr); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// kud is the kernel's side of ud.
func (w *roce) kud() *fakeverbs.QP { return w.k.QueuePairs()[1] }

var send = []verbs.SendWR{{WRID: 7, Opcode: verbs.OpSend, Flags: verbs.SendSignaled}}

// datagram is a send of ud's.
func (w *roce) datagram() []verbs.SendWR {
	return []verbs.SendWR{{WRID: 8, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, AH: w.ah, RemoteQPN: 9, RemoteQKey: 10}}
}

// rxeBind is what a send says of a window.
func rxeBind(s *fakerxe.Send) abi.RxeSendWrMw { return fakerxe.WR[abi.RxeSendWrMw](s) }
