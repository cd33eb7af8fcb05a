package rxe

import (
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/verbs"
)

// newPair makes two QPs on the model of the kernel, of which the second receives from an SRQ.
func newPair(t testing.TB, typ verbs.QPType, cqe int, change func(*fakeverbs.Kernel)) *providertest.Pair {
	t.Helper()
	o := &providertest.Options{Info: info, Kernel: change, Type: typ, SRQ: [2]bool{1: true}, CQE: cqe, Expect: expect,
		Access: providertest.Access | verbs.AccessMWBind,
		Cap:    verbs.QPCap{MaxSendWR: providertest.Depth, MaxRecvWR: providertest.Depth, MaxSendSGE: 6, MaxRecvSGE: 1}}
	if typ == verbs.QPTypeUD {
		o.Access = providertest.Access
		o.AH = &verbs.AHAttr{Port: 1, Global: true, SGIDIndex: 1, DGID: fakeverbs.IPv4GID, FlowLabel: 0xabcde, HopLimit: 64, TrafficClass: 0x68, SL: 5}
	}
	return providertest.New(t, o)
}

// expect sets the flag that every message over RoCE has.
func expect(p *providertest.Pair, wr *verbs.SendWR, want *verbs.WC) {
	if wr == nil {
		want.Flags |= verbs.WCGRH
		if p.Type == verbs.QPTypeUD {
			want.SL = p.Options.AH.SL
		}
	}
}

// scripts holds the scripts for QPs of each type.
var scripts = []struct {
	golden string
	typ    verbs.QPType
	script providertest.Script
}{
	{"testdata/script.rec", verbs.QPTypeRC, providertest.Script{
		Ops:   []verbs.Opcode{verbs.OpSend, verbs.OpSendImm, verbs.OpRDMAWrite, verbs.OpRDMAWriteImm},
		Reads: true, Atomics: true, Solicits: true, Windows: true, Resizes: true,
	}},
	{"testdata/script-ud.rec", verbs.QPTypeUD, providertest.Script{
		Ops:      []verbs.Opcode{verbs.OpSend, verbs.OpSendImm},
		Skips:    func(_ verbs.Opcode, l providertest.Payload) bool { return l.Len() > 1024 }, // a packet
		Solicits: true, Resizes: true,
	}},
}

// TestScript carries out test/sandbox/script.c, as librxe does on the same model, whose
// recordings are the golden ones.
func TestScript(t *testing.T) {
	for _, c := range scripts {
		providertest.Golden(t, c.golden, func(attach func(*fakeverbs.Kernel)) {
			p := newPair(t, c.typ, 64, attach)
			p.Run(&c.script)
			p.Close()
			p.NoViolations()
		})
	}
}
