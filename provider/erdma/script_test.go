package erdma

import (
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	fakeerdma "github.com/goverbs/goverbs/internal/fakeverbs/erdma"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/verbs"
)

var script = providertest.Script{
	Ops:   []verbs.Opcode{verbs.OpSend, verbs.OpSendImm, verbs.OpSendWithInv, verbs.OpRDMAWrite, verbs.OpRDMAWriteImm},
	Reads: true, Atomics: true, Solicits: true,
}

// script44 is the script for the provider of rdma-core 44, of Debian 12, and oldScript that for a
// device of the first kernels.
var (
	script44 = providertest.Script{
		Ops:   []verbs.Opcode{verbs.OpSend, verbs.OpSendImm, verbs.OpRDMAWrite, verbs.OpRDMAWriteImm},
		Reads: true, Atomics: true, Solicits: true,
	}
	oldScript = providertest.Script{Ops: script44.Ops, Reads: true, Solicits: true}
)

// onRoCE puts the device on RoCE v2.
func onRoCE(k *fakeverbs.Kernel) {
	k.Device.SetRoCE()
	k.Device.SetGIDs(fakeverbs.LinkLocalGID, fakeverbs.IPv4GID)
}

// ofFirstKernels makes the device one that the first kernels could have.
func ofFirstKernels(k *fakeverbs.Kernel) {
	o := fakeerdma.OptionsOf(k)
	o.NoAtomics, o.SDBType, o.SDBOffset = true, 1, 5
}

// TestScript runs the script without a violation, and compares what crossed the seam with
// the golden recording. That of rdma-core is the same: TestScript of rdmalink sandbox.
func TestScript(t *testing.T) {
	for name, c := range map[string]struct {
		golden string
		script *providertest.Script
		change func(*fakeverbs.Kernel)
	}{
		"iWARP":            {"script.rec", &script, nil},
		"RoCE":             {"script.rec", &script, onRoCE},
		"rdma-core 44":     {"script-44.rec", &script44, nil},
		"the first kernel": {"script-old.rec", &oldScript, ofFirstKernels},
	} {
		t.Run(name, func(t *testing.T) {
			providertest.Golden(t, "testdata/"+c.golden, func(attach func(*fakeverbs.Kernel)) {
				runScript(t, c.script, func(k *fakeverbs.Kernel) {
					if attach(k); c.change != nil {
						c.change(k)
					}
				})
			})
		})
	}
}

// TestScriptLate delays the model's view of stores, like a device that looks at pages now
// and then; here they are in time all the same.
func TestScriptLate(t *testing.T) {
	runScript(t, &script, func(k *fakeverbs.Kernel) { fakeerdma.OptionsOf(k).Late = true })
}

func runScript(t *testing.T, s *providertest.Script, change func(*fakeverbs.Kernel)) {
	t.Helper()
	p := newPair(t, change)
	p.Run(s)
	p.Close()
	p.NoViolations()
}
