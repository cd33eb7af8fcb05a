package erdma

import (
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/providertest"
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
	return &pair{providertest.New(t, &providertest.Options{Info: info, Kernel: change, Type: verbs.QPTypeRC, CQE: 64, Access: providertest.Access,
		Cap: verbs.QPCap{MaxSendWR: pairDepth, MaxRecvWR: pairDepth, MaxSendSGE: maxSGE, MaxRecvSGE: 1}})}
}
