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
	deep   bool                    // queues have room for hundreds of requests
	strict bool                    // see Spare and Exact of providertest.Options
	ext    verbs.WCExtMask         // fields of raw packets
	stamps bool                    // completions are extended, and their time stamps are compared
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
		opts.SRQ[0] = false
	}
	opts.Spare, opts.Exact = o.strict, o.strict
	if o.deep {
		opts.Cap.MaxSendWR, opts.Cap.MaxRecvWR = 520, 520
	}
	if o.stamps {
		opts.Ext, opts.Described = verbs.WCExtTimestamp, described
	}
	if o.typ == verbs.QPTypeRawPacket {
		opts.Flags, opts.Ext, opts.Described = verbs.QPCVLANStripping, opts.Ext|o.ext, described
	}
	opts.Kernel = func(k *fakeverbs.Kernel) {
		*fakemlx5.OptionsOf(k) = o.device
		if o.kernel != nil {
			o.kernel(k)
		}
	}
	if o.typ == verbs.QPTypeUD || o.typ == verbs.QPTypeDCI {
		dgid := fakeverbs.IPv4GID
		if o.golden {
			copy(dgid[12:], []byte{198, 51, 100, 1}) // the sandbox's
		}
		opts.AH = &verbs.AHAttr{Port: 1, Global: true, SGIDIndex: 1, DGID: dgid, FlowLabel: 0xabcde, HopLimit: 64, TrafficClass: 0x68, SL: 5}
		if o.device.Infiniband {
			opts.AH = &verbs.AHAttr{Port: 1, DLID: 0x1234, SL: 5, SrcPathBits: 3, StaticRate: 3}
		}
	}
	p := &pair{providertest.New(t, opts)}
	for _, cq := range p.K.CQs() {
		fakemlx5.CQOf(cq).KeepStamps = o.stamps
	}
	return p
}

// described compares the fields of a completion with those that the device wrote. Errors have none.
func described(p *providertest.Pair, side int, wc *verbs.WC, ext *verbs.WCExt) {
	p.T.Helper()
	cq, want := fakemlx5.CQOf(p.K.CQs()[side]), verbs.WCExt{}
	if wc.Status == verbs.StatusSuccess && len(cq.Stamps) > 0 {
		want.Timestamp, cq.Stamps = cq.Stamps[0], cq.Stamps[1:]
	}
	if found := p.Wire.Found; wc.Opcode == verbs.WCRecv && wc.Status == verbs.StatusSuccess && len(found) > 0 {
		p.Wire.Found = found[1:]
		if p.Ext&verbs.WCExtFlowTag != 0 {
			want.FlowTag, want.VLAN, want.Flags = found[0].Tag, found[0].VLAN, verbs.WCExtIPv4|verbs.WCExtUDP
			if found[0].L3OK {
				want.Flags |= verbs.WCExtChecksumOK
			}
		}
	}
	if *ext != want {
		p.T.Errorf("side %d: a completion with %+v, and the device says %+v", side, *ext, want)
	}
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
		want.Flags |= verbs.WCGRH
	}
}
