package efa

import (
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	fakeefa "github.com/goverbs/goverbs/internal/fakeverbs/efa"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/verbs"
)

// TestGolden carries out test/sandbox/script.c, as rdma-core's provider does on the same models
// (rdmalink sandbox --trap), whose recordings are the golden ones.
func TestGolden(t *testing.T) {
	// The device of rdmalink sandbox -d efa-old.
	old := fakeefa.Options{Kernel: fakeefa.Linux61, SubCQs: 2, MaxTxBatch: 16, MinSQWR: 16}
	for golden, c := range map[string]struct {
		device fakeefa.Options
		typ    verbs.QPType
		inline uint32
		script providertest.Script
	}{
		"script":     {fakeefa.Options{}, verbs.QPTypeSRD, longInline, script},
		"script-old": {old, verbs.QPTypeSRD, shortInline, oldScript},
		"script-ud":  {old, verbs.QPTypeUD, shortInline, providertest.Script{Ops: oldScript.Ops, Skips: skipsInline}},
	} {
		t.Run(golden, func(t *testing.T) {
			providertest.Golden(t, "testdata/"+golden+".rec", func(attach func(*fakeverbs.Kernel)) {
				o := &providertest.Options{Info: info, Type: c.typ, SignalAll: true, NoFlags: true, CQE: 64, Expect: expect,
					Access: verbs.AccessLocalWrite | verbs.AccessRemoteRead,
					Cap:    verbs.QPCap{MaxSendWR: pairDepth, MaxRecvWR: pairDepth, MaxSendSGE: 2, MaxRecvSGE: 3, MaxInline: c.inline},
					AH:     &verbs.AHAttr{Port: 1, Global: true, DGID: fakeverbs.GID}}
				if c.device.Kernel != fakeefa.Linux61 {
					o.Access |= verbs.AccessRemoteWrite
				}
				o.Kernel = func(k *fakeverbs.Kernel) {
					*fakeefa.OptionsOf(k) = c.device
					attach(k)
				}
				p := providertest.New(t, o)
				p.Run(&c.script)
				p.Close()
				p.NoViolations()
			})
		})
	}
}
