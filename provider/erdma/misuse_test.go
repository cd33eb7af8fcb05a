package erdma

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/verbs"
)

// TestMisuse checks that the model notices misuse that the tour's mutations do not produce.
func TestMisuse(t *testing.T) {
	var cq uint64 // the first one's ring
	for want, misuse := range map[string]func(*fakeverbs.Kernel, *fakeverbs.Crossing){
		"CQ_CREATE: the new queue is not zeroed": func(k *fakeverbs.Kernel, c *fakeverbs.Crossing) {
			if c.Kind == fakeverbs.CallIn && c.Call == "CQ_CREATE" {
				scribble(t, k, binary.NativeEndian.Uint64(c.Bytes[queueAt:]))
			}
		},
		"somebody wrote to entry 0": func(k *fakeverbs.Kernel, c *fakeverbs.Crossing) {
			switch {
			case c.Kind == fakeverbs.CallIn && c.Call == "CQ_CREATE" && cq == 0:
				cq = binary.NativeEndian.Uint64(c.Bytes[queueAt:])
			case c.Kind == fakeverbs.EntrySQE:
				scribble(t, k, cq)
			}
		},
		"an arm counts 3 events, and there was none": func(_ *fakeverbs.Kernel, c *fakeverbs.Crossing) {
			const ofCQ, events = 3, 28
			if c.Kind == fakeverbs.Doorbell && c.Page == ofCQ {
				c.Value |= 3 << events
			}
		},
	} {
		t.Run(want, func(t *testing.T) {
			p := newPair(t, func(k *fakeverbs.Kernel) { k.Cross = func(c *fakeverbs.Crossing) { misuse(k, c) } })
			p.Arm(1, false)
			p.OneMessage(0, 1, verbs.OpSend, providertest.Gathered(8))
			if all := strings.Join(p.K.Violations(), "\n"); !strings.Contains(all, want) {
				t.Errorf("violations: %s", all)
			}
		})
	}
}

// scribble overwrites the unused rest of an entry, to its last byte.
func scribble(t *testing.T, k *fakeverbs.Kernel, addr uint64) {
	if err := k.User.Write(addr+entrySize-1, []byte{1}); err != nil {
		t.Error(err)
	}
}

const (
	queueAt   = 8 // of the create calls
	entrySize = 32
)
