package rdmatest

import (
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
)

// TestHostileSends checks that devices withstand whatever a program writes to its queues. The
// providers here let no such send through.
func TestHostileSends(t *testing.T) {
	endSink(nil, &fakeverbs.Work{Opcode: abi.IB_UVERBS_WR_RDMA_READ_WITH_INV})
	long := fakeverbs.SGE{Length: 1 << 31}
	if gather(nil, &packet{w: &fakeverbs.Work{SGL: []fakeverbs.SGE{long, long}}}) {
		t.Error("a message of 4 GiB is sent")
	}
}

// TestDisconnectLate checks that a side may disconnect after the other one, but not before there is
// anything to disconnect. TestPeerTests of the sandbox has librdmacm do the first.
func TestDisconnectLate(t *testing.T) {
	var m manager
	if err := m.disconnect(&cmID{}); err != syscall.EINVAL {
		t.Error("before a connection:", err)
	}
	if err := m.disconnect(&cmID{begun: true}); err != nil {
		t.Error("after it:", err)
	}
}
