package mlx5

import (
	"errors"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/verbs"
)

// TestSizes compares sizes with numbers that were worked out by hand from libmlx5's rules.
func TestSizes(t *testing.T) {
	c := &mlx5Context{limits: abi.Mlx5IbAllocUcontextResp{MaxSqDescSz: 1024, MaxRqDescSz: 512, MaxSendWqebb: 1 << 15, MaxRecvWr: 1 << 15}}
	for _, x := range []struct {
		typ  verbs.QPType
		srq  bool
		want verbs.QPCap
		got  sizes
	}{
		{verbs.QPTypeRC, false, verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1},
			sizes{verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInline: 60}, 4, 1, 4}},
		{verbs.QPTypeRC, false, verbs.QPCap{MaxSendWR: 100, MaxRecvWR: 100, MaxSendSGE: 4, MaxRecvSGE: 3, MaxInline: 64},
			sizes{verbs.QPCap{MaxSendWR: 102, MaxRecvWR: 128, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInline: 124}, 128, 4, 512}},
		{verbs.QPTypeUC, true, verbs.QPCap{MaxSendWR: 16, MaxRecvWR: 9, MaxSendSGE: 5, MaxRecvSGE: 9},
			sizes{verbs.QPCap{MaxSendWR: 25, MaxSendSGE: 5, MaxInline: 124}, 0, 0, 128}},
		{verbs.QPTypeUD, false, verbs.QPCap{MaxSendWR: 8, MaxRecvWR: 1, MaxSendSGE: 0, MaxRecvSGE: 0},
			sizes{verbs.QPCap{MaxSendWR: 8, MaxRecvWR: 4, MaxRecvSGE: 1}, 4, 1, 8}},
		{verbs.QPTypeUD, false, verbs.QPCap{MaxSendWR: 8, MaxRecvWR: 3, MaxSendSGE: 4, MaxRecvSGE: 5, MaxInline: 200},
			sizes{verbs.QPCap{MaxSendWR: 12, MaxRecvWR: 4, MaxSendSGE: 4, MaxRecvSGE: 8, MaxInline: 252}, 4, 8, 64}},
		{verbs.QPTypeRC, false, verbs.QPCap{}, sizes{}},
	} {
		r := &driver.CreateQP{Type: x.typ, Cap: x.want}
		if x.srq {
			r.SRQ = &srq{}
		}
		got, err := c.sizes(r)
		if err != nil || got != x.got {
			t.Errorf("%v %+v: %+v, %v; want %+v", x.typ, x.want, got, err, x.got)
		}
	}
}

// TestRandomSizes checks that the granted sizes are at least the requested ones, fit in the
// queues, and have room for the longest request.
func TestRandomSizes(t *testing.T) {
	c := &mlx5Context{limits: abi.Mlx5IbAllocUcontextResp{MaxSqDescSz: 1024, MaxRqDescSz: 512, MaxSendWqebb: 1 << 15, MaxRecvWr: 1 << 15}}
	granted := 0
	for seed := range uint64(20000) {
		r := rand.New(rand.NewPCG(seed, 0))
		want := verbs.QPCap{MaxSendWR: r.Uint32() >> (17 + r.UintN(15)), MaxRecvWR: r.Uint32() >> (16 + r.UintN(16)),
			MaxSendSGE: r.Uint32N(50), MaxRecvSGE: r.Uint32N(40), MaxInline: r.Uint32N(900)}
		typ := []verbs.QPType{verbs.QPTypeRC, verbs.QPTypeUC, verbs.QPTypeUD, verbs.QPTypeRawPacket}[seed%4]
		s, err := c.sizes(&driver.CreateQP{Type: typ, Cap: want})
		if err != nil {
			if !errors.Is(err, verbs.ErrNotSupported) {
				t.Fatal(err)
			}
			continue
		}
		granted++
		longest := overhead(typ) + s.cap.MaxSendSGE*16
		if s.cap.MaxInline > 0 {
			longest = max(longest, overhead(typ)+align(s.cap.MaxInline+4, 16))
		}
		switch g := s.cap; {
		case g.MaxInline > 1024, g.MaxSendWR < want.MaxSendWR, g.MaxRecvWR < want.MaxRecvWR, want.MaxSendWR > 0 && g.MaxInline < want.MaxInline,
			want.MaxRecvWR > 0 && g.MaxRecvSGE < want.MaxRecvSGE, g.MaxSendSGE != want.MaxSendSGE:
			t.Errorf("%v: %+v of %+v", typ, g, want)
		case want.MaxSendWR > 0 && g.MaxSendWR*align(longest, 64) > s.blocks*64, bits.OnesCount32(s.blocks) > 1, s.blocks > 1<<15:
			t.Errorf("%v: %d blocks for %d requests of %d bytes", typ, s.blocks, g.MaxSendWR, longest)
		case bits.OnesCount32(s.receives) > 1, s.receives > 0 && s.receiveBytes() < 64:
			t.Errorf("%v: %d receives of %d segments", typ, s.receives, s.receiveSegs)
		}
	}
	if granted < 2000 {
		t.Errorf("only %d requests were granted", granted)
	}
}
