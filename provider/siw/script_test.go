package siw

import (
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// newPair makes two QPs on the model of the kernel, of which the second receives from an SRQ.
func newPair(t testing.TB, cqe int, change func(*fakeverbs.Kernel)) *providertest.Pair {
	t.Helper()
	return providertest.New(t, &providertest.Options{Info: info, Kernel: change, Type: verbs.QPTypeRC, SRQ: [2]bool{1: true}, CQE: cqe,
		Expect: expect, Ended: endedRegion, Access: providertest.Access,
		Cap: verbs.QPCap{MaxSendWR: providertest.Depth, MaxRecvWR: providertest.Depth, MaxSendSGE: 6, MaxRecvSGE: 1}})
}

// expect drops the key that a message invalidated, which siw does not report to user space.
func expect(_ *providertest.Pair, wr *verbs.SendWR, want *verbs.WC) {
	if wr == nil {
		want.Flags, want.Imm = 0, 0
	}
}

// endedRegion makes a region whose key is to be invalidated. It stays open until the end,
// so that no other region gets its key.
func endedRegion(p *providertest.Pair, side, _ int) uint32 {
	mr := providertest.Must[*uverbs.MR](p.T)(p.PD.RegMR(p.Side[side].Mem[:4096], p.Access))
	return mr.RKey()
}

var script = providertest.Script{
	Ops: []verbs.Opcode{verbs.OpSend, verbs.OpSendWithInv, verbs.OpRDMAWrite},
	Skips: func(op verbs.Opcode, l providertest.Payload) bool {
		return l.IsInline() && (l.Len() > 80 || op == verbs.OpSendWithInv)
	},
	Reads: true,
}

// TestScript carries out test/sandbox/script.c, as libsiw does on the same model, whose
// recording is the golden one.
func TestScript(t *testing.T) {
	providertest.Golden(t, "testdata/script.rec", func(attach func(*fakeverbs.Kernel)) {
		p := newPair(t, 64, attach)
		p.Run(&script)
		p.Close()
		p.NoViolations()
	})
}
