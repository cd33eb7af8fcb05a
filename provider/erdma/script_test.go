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

// oldScript is the script that rdma-core's provider of Debian 12 supports.
var oldScript = providertest.Script{
	Ops:   []verbs.Opcode{verbs.OpSend, verbs.OpSendImm, verbs.OpRDMAWrite, verbs.OpRDMAWriteImm},
	Reads: true, Solicits: true,
}

// TestScript runs the script without a violation, and compares what crossed the seam with
// the golden recording.
func TestScript(t *testing.T) {
	for golden, s := range map[string]*providertest.Script{"testdata/script.rec": &script, "testdata/script-44.rec": &oldScript} {
		providertest.Golden(t, golden, func(attach func(*fakeverbs.Kernel)) { runScript(t, s, attach) })
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
