package rdmacm

import (
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/uverbs"
)

// The peer learns of the attached queue pair's SRQ, whatever ConnParam says.
func TestAttachedSRQ(t *testing.T) {
	for want, srq := range map[uint8]*uverbs.SRQ{0: nil, 1: new(uverbs.SRQ)} {
		k := newFake()
		id := newTestID(t, k)
		if err := id.attach(&fakeQP{srq: srq}, readLimits{16, 16}); err != nil {
			t.Fatal(err)
		}
		if err := id.Connect(t.Context(), &ConnParam{SRQ: srq == nil}); err != nil {
			t.Fatal(err)
		}
		if c := body[abi.RdmaUcmConnect](k, abi.RDMA_USER_CM_CMD_CONNECT).ConnParam; c.Srq != want || c.QpNum != 42 {
			t.Errorf("SRQ %d, want %d, QP %d", c.Srq, want, c.QpNum)
		}
	}
}

// Where the kernel has nothing to set, the queue pair stays as it is.
func TestNothingToSet(t *testing.T) {
	k := newFake()
	k.noMask = true
	qp := new(fakeQP)
	if err := newTestID(t, k).attach(qp, readLimits{16, 16}); err != nil || len(qp.states) != 0 {
		t.Errorf("moved to %v, %v", qp.states, err)
	}
}
