package efa

import (
	"testing"

	fakeefa "github.com/goverbs/goverbs/internal/fakeverbs/efa"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/verbs"
)

var (
	script = providertest.Script{Reads: true,
		Ops: []verbs.Opcode{verbs.OpSend, verbs.OpSendImm, verbs.OpRDMAWrite, verbs.OpRDMAWriteImm}, Skips: skipsLong}
	shortScript = providertest.Script{Reads: true, Ops: script.Ops, Skips: skipsInline}
	oldScript   = providertest.Script{Reads: true, Ops: []verbs.Opcode{verbs.OpSend, verbs.OpSendImm}, Skips: skipsInline}
	datagrams   = providertest.Script{Ops: []verbs.Opcode{verbs.OpSend, verbs.OpSendImm}, Skips: skipsLong}
)

// skipsLong leaves out messages that entries of 128 bytes have no room for.
func skipsLong(op verbs.Opcode, l providertest.Payload) bool {
	if l.IsInline() {
		return l.Len() > longInline
	}
	if op == verbs.OpRDMAWrite || op == verbs.OpRDMAWriteImm {
		return l.SGEs() != 1
	}
	return l.SGEs() > 2
}

// skipsInline also leaves out those that entries of 64 bytes have no room for.
func skipsInline(op verbs.Opcode, l providertest.Payload) bool {
	return skipsLong(op, l) || l.Len() > shortInline && l.IsInline() || l.IsInline() && op != verbs.OpSend && op != verbs.OpSendImm
}

// TestScript runs the script on devices of all kinds, without a violation.
func TestScript(t *testing.T) {
	for name, c := range map[string]struct {
		pairOptions
		script *providertest.Script
	}{
		"SRD":            {pairOptions{typ: verbs.QPTypeSRD, inline: longInline}, &script},
		"short":          {pairOptions{typ: verbs.QPTypeSRD}, &shortScript},
		"Linux 7.2":      {pairOptions{typ: verbs.QPTypeSRD, inline: longInline, device: fakeefa.Options{Kernel: fakeefa.Linux72}}, &script},
		"Linux 6.1":      {pairOptions{typ: verbs.QPTypeSRD, device: fakeefa.Options{Kernel: fakeefa.Linux61}}, &oldScript},
		"two parts":      {pairOptions{typ: verbs.QPTypeSRD, device: fakeefa.Options{SubCQs: 2}}, &shortScript},
		"batches":        {pairOptions{typ: verbs.QPTypeSRD, inline: longInline, device: fakeefa.Options{MaxTxBatch: 4, MinSQWR: 4}}, &script},
		"minimum":        {pairOptions{typ: verbs.QPTypeSRD, device: fakeefa.Options{MinSQWR: 8}}, &shortScript},
		"UD":             {pairOptions{typ: verbs.QPTypeUD, inline: longInline}, &datagrams},
		"late registers": {pairOptions{typ: verbs.QPTypeSRD, device: fakeefa.Options{Late: true}}, &shortScript},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, c.pairOptions)
			p.Run(c.script)
			p.Close()
			p.NoViolations()
		})
	}
}
