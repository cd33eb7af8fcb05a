package mlx5

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	fakemlx5 "github.com/goverbs/goverbs/internal/fakeverbs/mlx5"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// The script has all that a provider must support: all operations, data of all forms,
// events, other sizes of CQs, windows, failures, and queues that go around many times.

var payloads = []payload{
	inline(0), inline(1), inline(12), inline(13), inline(28), inline(44), inline(45), inline(60), inline(61), inline(76), inline(108), inline(124), inline(160),
	gathered(), gathered(1), gathered(4096), gathered(8, 8), gathered(7, 0, 1000), gathered(1, 2, 3, 4),
	gathered(300, 200, 100, 50, 25), gathered(1, 20, 300, 4000, 500, 60),
}

func (p *pair) has(op verbs.Opcode) bool { return operations[op].types&typeBit(p.Type) != 0 }

// script runs all operations of the QP's type.
func (p *pair) script() {
	step := 0
	for _, op := range []verbs.Opcode{verbs.OpSend, verbs.OpSendImm, verbs.OpSendWithInv, verbs.OpRDMAWrite, verbs.OpRDMAWriteImm} {
		for _, l := range payloads {
			if step++; p.has(op) {
				p.OneMessage(step%2, step, op, l)
			}
		}
	}
	for _, n := range []int{1, 8, 4096, 32000} {
		if step++; p.has(verbs.OpRDMARead) {
			p.OneRead(step%2, step, n/2, n-n/2)
		}
	}
	if p.has(verbs.OpFetchAdd) {
		p.Atomics()
	}
	if p.has(verbs.OpBindMW) {
		p.window2()
		p.window1()
	}
	p.Batches(24)
	for round := range 12 {
		p.EventOf(round%2 == 1, round%4 >= 2)
	}
	p.resize()
	p.Batches(24)
}

// window2 binds a window that the peer writes through, and ends it, with the fence that
// later requests need, alone and in a list.
func (p *pair) window2() {
	p.T.Helper()
	mw := providertest.Must[*uverbs.MW](p.T)(p.PD.AllocMW(verbs.MWType2))
	s := &p.Side[1]
	for round := range 9 {
		key := uverbs.IncRKey(mw.RKey())
		access := verbs.AccessRemoteWrite
		if round%3 == 1 {
			access |= verbs.AccessRemoteRead | verbs.AccessRemoteAtomic
		}
		bind := verbs.SendWR{Opcode: verbs.OpBindMW, Flags: verbs.SendSignaled,
			Bind: &verbs.BindMW{MW: mw, RKey: key, MR: s.MR, Addr: s.MR.Addr() + target, Length: 4096, Access: access}}
		if round%2 == 0 {
			p.Send(1, bind)
		} else {
			p.Send(1, bind, verbs.SendWR{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled,
				Inline: s.Mem[:8], RemoteAddr: p.Side[0].MR.Addr() + target, RKey: p.Side[0].MR.RKey()})
		}
		p.Reap()
		if keys := slices.Collect(maps.Keys(p.Wire.Windows)); !slices.Equal(keys, []uint32{key}) || p.Wire.Windows[key].Access != uint32(access) {
			p.T.Fatalf("windows %#x are bound, want %#x", p.Wire.Windows, key)
		}
		p.WriteTo(target, target, key)
		p.Send(1, verbs.SendWR{Opcode: verbs.OpLocalInv, Flags: verbs.SendSignaled, InvalidateRKey: key})
		p.Reap()
		if len(p.Wire.Windows) > 0 {
			p.T.Fatalf("windows %#x are bound still", p.Wire.Windows)
		}
	}
	if err := mw.Close(); err != nil {
		p.T.Fatal(err)
	}
}

// window1 binds another kind, which chooses its key, again and again, and ends that.
func (p *pair) window1() {
	p.T.Helper()
	mw := providertest.Must[*uverbs.MW](p.T)(p.PD.AllocMW(verbs.MWType1))
	s := &p.Side[1]
	for range 3 {
		p.Bind(mw, verbs.BindMW{MR: s.MR, Addr: s.MR.Addr() + target, Length: 4096, Access: verbs.AccessRemoteWrite})
		p.WriteTo(target, target, mw.RKey())
	}
	p.Bind(mw, verbs.BindMW{})
	if err := mw.Close(); err != nil {
		p.T.Fatal(err)
	}
}

// resize changes the size of a CQ that holds completions, which stay.
func (p *pair) resize() {
	p.T.Helper()
	for round, n := range []int{15, 100, 31, 15, 63, 31} {
		p.resizeTo(round+1, n)
	}
}

// resizeTo has the CQ of side 1 hold some completions when its size changes.
func (p *pair) resizeTo(held, n int) {
	p.T.Helper()
	cq := p.Side[1].CQ
	for j := range held {
		p.Recv(1, target, 256, verbs.WC{Opcode: verbs.WCRecv, ByteLen: uint32(j)})
		p.Send(0, verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, Inline: make([]byte, j)})
	}
	if err := cq.Resize(n); err != nil || cq.Cap() < n {
		p.T.Fatal(err, cq.Cap())
	}
	p.Recv(1, target, 256, verbs.WC{Opcode: verbs.WCRecv, ByteLen: 9})
	p.Send(0, verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, Inline: make([]byte, 9)})
	p.Reap()
}

// TestScript runs the script without a violation, on all kinds of devices and QPs.
func TestScript(t *testing.T) {
	for name, device := range devices {
		for i, typ := range []verbs.QPType{verbs.QPTypeRC, verbs.QPTypeUC, verbs.QPTypeUD, verbs.QPTypeXRCInitiator} {
			for _, srq := range []bool{false, true} {
				if srq == (i%2 == 0) && (device.NoWC || device.NoBlueFlame || device.FirstUAR > 0 || device.Request > 0) {
					continue // registers know nothing of SRQs
				}
				t.Run(fmt.Sprintf("%s, %v, SRQ %v", name, typ, srq), func(t *testing.T) {
					p := newPair(t, pairOptions{device: device, typ: typ, srq: srq})
					p.script()
					p.Close()
					p.NoViolations()
				})
			}
		}
	}
}

// TestGolden carries out test/sandbox/script.c, as rdma-core's provider does on the same models
// (rdmalink sandbox --trap), whose recordings are the golden ones.
func TestGolden(t *testing.T) {
	sends := []verbs.Opcode{verbs.OpSend, verbs.OpSendImm}
	all := append(slices.Clone(sends), verbs.OpRDMAWrite, verbs.OpRDMAWriteImm)
	whole := providertest.Script{Ops: all, Reads: true, Atomics: true, Solicits: true, Windows: true, Resizes: true}
	for golden, o := range map[string]struct {
		pair   pairOptions
		script providertest.Script
	}{
		"script":       {pairOptions{}, whole},
		"script-old":   {pairOptions{device: fakemlx5.Options{CQEVersion0: true, StaticUARs: true}}, whole},
		"script-short": {pairOptions{all: true, short: cqeInsideSize}, whole},
		"script-128":   {pairOptions{short: cqeSize}, whole},
		"script-xrc":   {pairOptions{typ: verbs.QPTypeXRCInitiator}, providertest.Script{Ops: all, Reads: true, Atomics: true, Solicits: true}},
		"script-dc":    {pairOptions{typ: verbs.QPTypeDCI}, providertest.Script{Ops: all, Reads: true, Atomics: true, Solicits: true}},
		"script-raw":   {pairOptions{typ: verbs.QPTypeRawPacket}, providertest.Script{}},
		"script-srq":   {pairOptions{srq: true}, providertest.Script{Ops: sends, Solicits: true}},
		"script-uc":    {pairOptions{typ: verbs.QPTypeUC}, providertest.Script{Ops: all, Solicits: true, Resizes: true}},
		"script-ud": {pairOptions{typ: verbs.QPTypeUD}, providertest.Script{Ops: sends, Solicits: true, Resizes: true,
			Skips: func(_ verbs.Opcode, l payload) bool { return l.Len() > 1024 }}}, // a packet
	} {
		t.Run(golden, func(t *testing.T) {
			providertest.Golden(t, "testdata/"+golden+".rec", func(attach func(*fakeverbs.Kernel)) {
				o.pair.typ, o.pair.golden, o.pair.kernel = max(o.pair.typ, verbs.QPTypeRC), true, attach
				p := newPair(t, o.pair)
				if p.Type == verbs.QPTypeRawPacket {
					p.Frames()
				} else {
					p.Run(&o.script)
				}
				p.Close()
				p.NoViolations()
			})
		})
	}
}
