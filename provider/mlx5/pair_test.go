package mlx5

import (
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	fakemlx5 "github.com/goverbs/goverbs/internal/fakeverbs/mlx5"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/verbs"
)

const (
	pairDepth  = providertest.Depth
	pairMemory = providertest.Memory
	target     = providertest.Target
	pairInline = 160
)

type payload = providertest.Payload

var inline, gathered = providertest.Inline, providertest.Gathered

type pair struct{ *providertest.Pair }

type pairOptions struct {
	device fakemlx5.Options
	typ    verbs.QPType
	srq    bool
	all    bool                    // sends complete
	short  uint32                  // CQOptions.MaxInline
	golden bool                    // sizes and receives are those of test/sandbox/script.c
	kernel func(*fakeverbs.Kernel) // is called before the kernel is used
}

// newPair makes two QPs on the model of a device.
func newPair(t testing.TB, o pairOptions) *pair {
	t.Helper()
	opts := &providertest.Options{Info: info, Type: o.typ, SignalAll: o.all, SRQ: [2]bool{o.srq, o.srq}, CQE: 31, CQInline: o.short, Pieces: true, Expect: expect,
		Access: providertest.Access | verbs.AccessMWBind,
		Cap:    verbs.QPCap{MaxSendWR: pairDepth, MaxRecvWR: pairDepth, MaxSendSGE: maxSGE, MaxRecvSGE: 3, MaxInline: pairInline},
		Ended:  func(_ *providertest.Pair, _, step int) uint32 { return 0x00f0f000 + uint32(step) }}
	if o.golden {
		opts.CQE, opts.Pieces, opts.Cap.MaxRecvSGE, opts.Cap.MaxInline = 64, false, 1, 0
	}
	opts.Kernel = func(k *fakeverbs.Kernel) {
		*fakemlx5.OptionsOf(k) = o.device
		if o.kernel != nil {
			o.kernel(k)
		}
	}
	if o.typ == verbs.QPTypeUD {
		opts.AH = &verbs.AHAttr{Port: 1, Global: true, SGIDIndex: 1, DGID: fakeverbs.IPv4GID, FlowLabel: 0xabcde, HopLimit: 64, TrafficClass: 0x68, SL: 5}
		if o.device.Infiniband {
			opts.AH = &verbs.AHAttr{Port: 1, DLID: 0x1234, SL: 5, SrcPathBits: 3, StaticRate: 3}
		}
	}
	return &pair{providertest.New(t, opts)}
}

// expect: the completion of a send has a length only if data came back, and that of a
// datagram says from where it came.
func expect(p *providertest.Pair, wr *verbs.SendWR, want *verbs.WC) {
	switch {
	case wr != nil && wr.Opcode != verbs.OpRDMARead && wr.Opcode != verbs.OpFetchAdd && wr.Opcode != verbs.OpCompareSwap:
		want.ByteLen = 0
	case wr != nil || p.Type != verbs.QPTypeUD || want.Status != verbs.StatusSuccess:
	case fakemlx5.OptionsOf(p.K).Infiniband:
		want.SL, want.SLID = 5, 0x1234
	default:
		want.SL = 5
		want.Flags |= verbs.WCGRH
	}
}
