//go:build !race

package siw

import (
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/mmaptest"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/verbs"
)

// A kernel refills an entry as soon as it is given back, so the copy has to be made before.
// Here giving it back faults, because the memory is read-only, and the copy has to be
// complete by then.
func TestCopiedBeforeReturn(t *testing.T) {
	region := mmaptest.ReadOnly(t, abi.Bytes(&abi.SiwCqe{Id: 7, Flags: abi.SIW_WQE_VALID, Opcode: abi.SIW_OP_RECEIVE, Bytes: 8, QpId: 9}))
	q := providertest.Must[*cq](t)(newCQ(region, 4))
	wcs := make([]verbs.WC, 1)
	mmaptest.MustFault(t, func() { _, _, _ = q.Poll(wcs) })
	if want := (verbs.WC{WRID: 7, Opcode: verbs.WCRecv, ByteLen: 8, QPN: 9}); wcs[0] != want {
		t.Errorf("given back before it was copied: %+v", wcs[0])
	}
}
