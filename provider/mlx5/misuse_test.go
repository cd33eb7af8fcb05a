package mlx5

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestMisuse checks that the model notices misuse that the tour's mutations do not produce.
func TestMisuse(t *testing.T) {
	const sends, receives = 16, 20 // where their numbers stand in QP_CREATE
	ofCQ := func(c *fakeverbs.Crossing) bool { return c.Kind == fakeverbs.Record && c.Offset == 0 }
	for want, c := range map[string]struct {
		misuse  func(*fakeverbs.Crossing)
		traffic bool
	}{
		"which has more than 24 bits": {func(c *fakeverbs.Crossing) {
			if ofCQ(c) && c.Value == 0 {
				c.Value |= 1 << 24
			}
		}, true},
		"blocks for 8 sends":            {inCreate(sends, 4), false},
		"and 8 of 3 SGEs are asked for": {inCreate(receives, 4), false},
	} {
		t.Run(want, func(t *testing.T) {
			p := newPair(t, pairOptions{typ: verbs.QPTypeRC, kernel: func(k *fakeverbs.Kernel) { k.Cross = c.misuse }})
			if c.traffic {
				p.OneMessage(0, 1, verbs.OpSend, gathered(8))
			}
			if all := strings.Join(p.K.Violations(), "\n"); !strings.Contains(all, want) {
				t.Errorf("violations: %s", all)
			}
		})
	}
}

// inCreate has QP_CREATE carry another number.
func inCreate(at int, n uint32) func(*fakeverbs.Crossing) {
	return func(c *fakeverbs.Crossing) {
		if c.Kind == fakeverbs.CallIn && c.Call == "QP_CREATE" {
			binary.NativeEndian.PutUint32(c.Bytes[at:], n)
		}
	}
}
