package erdma

import (
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

const (
	pairDepth  = providertest.Depth
	pairMemory = providertest.Memory
	target     = providertest.Target
)

type pair struct{ *providertest.Pair }

// newPair makes two QPs on the model of the device. change is called before the kernel is
// used.
func newPair(t testing.TB, change func(*fakeverbs.Kernel)) *pair {
	t.Helper()
	return &pair{providertest.New(t, &providertest.Options{Info: info, Kernel: change, Type: verbs.QPTypeRC, CQE: 64, Access: providertest.Access, Ended: endedRegion,
		Cap: verbs.QPCap{MaxSendWR: pairDepth, MaxRecvWR: pairDepth, MaxSendSGE: maxSGE, MaxRecvSGE: 1}})}
}

// endedRegion makes a region whose key is to be invalidated. It stays open until the end,
// so that no other region gets its key.
func endedRegion(p *providertest.Pair, side, _ int) uint32 {
	mr := providertest.Must[*uverbs.MR](p.T)(p.PD.RegMR(p.Side[side].Mem[:4096], p.Access))
	return mr.RKey()
}
