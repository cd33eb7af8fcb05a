package efa

import (
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	fakeefa "github.com/goverbs/goverbs/internal/fakeverbs/efa"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/verbs"
)

const pairDepth = providertest.Depth

type pair struct{ *providertest.Pair }

type pairOptions struct {
	typ    verbs.QPType
	device fakeefa.Options
	inline uint32
	strict bool                    // see Exact of providertest.Options
	kernel func(*fakeverbs.Kernel) // is called before the kernel is used
}

// newPair makes two QPs on the model of a device.
func newPair(t testing.TB, o pairOptions) *pair {
	t.Helper()
	opts := &providertest.Options{Info: info, Type: o.typ, Exact: o.strict, SignalAll: true, NoFlags: true, CQE: 64, Pieces: true, Expect: expect,
		Access: verbs.AccessLocalWrite | verbs.AccessRemoteRead,
		Cap:    verbs.QPCap{MaxSendWR: pairDepth, MaxRecvWR: pairDepth, MaxSendSGE: 2, MaxRecvSGE: 3, MaxInline: o.inline},
		AH:     &verbs.AHAttr{Port: 1, Global: true, DGID: fakeverbs.GID}}
	if o.device.Kernel != fakeefa.Linux61 {
		opts.Access |= verbs.AccessRemoteWrite
	}
	opts.Kernel = func(k *fakeverbs.Kernel) {
		*fakeefa.OptionsOf(k) = o.device
		if o.kernel != nil {
			o.kernel(k)
		}
	}
	return &pair{providertest.New(t, opts)}
}

// expect: completions of sends have no length, and those of receives name the sender.
func expect(p *providertest.Pair, wr *verbs.SendWR, want *verbs.WC) {
	if wr != nil {
		want.ByteLen = 0
		return
	}
	if want.Status != verbs.StatusSuccess {
		return
	}
	want.SLID, _ = p.AH.Number()
	want.SrcQPN = p.Side[0].QP.QPN()
	if want.QPN == want.SrcQPN {
		want.SrcQPN = p.Side[1].QP.QPN()
	}
}
