package siw

import (
	"errors"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	fakesiw "github.com/goverbs/goverbs/internal/fakeverbs/siw"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// A stale key of an earlier region in the same slot is detected, because the low byte of
// keys varies.
func TestKeysVary(t *testing.T) {
	w := newWorld(t, nil)
	keys := make(map[uint8]bool)
	for range 64 {
		mr := providertest.Must[*uverbs.MR](t)(w.pd.RegMR(make([]byte, 1), verbs.AccessLocalWrite))
		keys[uint8(mr.RKey())] = true
		if err := mr.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if len(keys) < 2 {
		t.Errorf("64 regions, all with the low byte of %v", keys)
	}
}

// Memory has no addresses but its own.
func TestRegMRAt(t *testing.T) {
	w := newWorld(t, nil)
	b := make([]byte, 1)
	if _, err := w.pd.RegMRAt(b, 1<<40, verbs.AccessLocalWrite); !errors.Is(err, verbs.ErrNotSupported) || !strings.Contains(err.Error(), "the memory's address") {
		t.Error(err)
	}
	mr := providertest.Must[*uverbs.MR](t)(w.pd.RegMR(b, verbs.AccessLocalWrite))
	at := mr.Addr()
	if err := mr.Close(); err != nil {
		t.Error(err)
	}
	if err := providertest.Must[*uverbs.MR](t)(w.pd.RegMRAt(b, at, verbs.AccessLocalWrite)).Close(); err != nil {
		t.Error(err)
	}
}

// A completion overwrites all of the caller's array element.
func TestPollOverOldCompletion(t *testing.T) {
	w := newWorld(t, nil)
	fakesiw.CQOf(w.kcq).Complete(abi.SiwCqe{Id: 1, Opcode: abi.SIW_OP_SEND, QpId: 9})
	old := verbs.WC{WRID: 5, Imm: 6, SrcQPN: 7, Flags: verbs.WCWithImm, PKeyIndex: 8, SLID: 9, SL: 1, DLIDPathBits: 2}
	wcs := []verbs.WC{old, old}
	if n, err := w.cq.Poll(wcs); n != 1 || err != nil || wcs[0] != (verbs.WC{WRID: 1, Opcode: verbs.WCSend, QPN: 9}) || wcs[1] != old {
		t.Errorf("%d, %v, %+v", n, err, wcs)
	}
}

// siw does not keep which receives were solicited, so programs can't wait for those alone.
func TestArmSolicited(t *testing.T) {
	w := newWorld(t, nil)
	if err := w.cq.Arm(true); !errors.Is(err, verbs.ErrNotSupported) || w.kcq.Armed() {
		t.Error(err, w.kcq.Armed())
	}
	if err := w.cq.Arm(false); err != nil || !w.kcq.Armed() {
		t.Error(err, w.kcq.Armed())
	}
}
