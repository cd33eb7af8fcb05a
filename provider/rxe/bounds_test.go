package rxe

import (
	"errors"
	"testing"

	"github.com/goverbs/goverbs/internal/regions"
	"github.com/goverbs/goverbs/verbs"
)

// A datagram may be as long as the largest MTU, and no longer.
func TestLongestDatagram(t *testing.T) {
	w := ready(t, verbs.QPTypeUD)
	send := func(n uint32) error {
		return second(w.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, AH: w.ah, SGL: []verbs.SGE{{Length: n}}}}))
	}
	if err := send(4096); err != nil {
		t.Error(err)
	}
	if err := send(4097); !errors.Is(err, verbs.ErrInvalidWR) {
		t.Error(err)
	}
}

// The indexes of regions end where those of windows begin: at RXE_MAX_MR_INDEX.
func TestKeysOfWindows(t *testing.T) {
	for rkey, want := range map[uint32]bool{0: false, 1<<19<<8 - 1: false, 1 << 19 << 8: false, 1<<19<<8 | 0xff: false,
		(1<<19 + 1) << 8: true, 1<<32 - 1: true} {
		if isWindow(rkey) != want {
			t.Errorf("%#x: %v", rkey, !want)
		}
	}
}

// A queue that was resized is the only one mapped.
func TestResizeFreesOldQueue(t *testing.T) {
	w := newWorld(t, verbs.QPTypeRC, nil)
	live := regions.Live()
	if err := errors.Join(w.cq.Resize(30), w.srq.Resize(30)); err != nil {
		t.Fatal(err)
	}
	if n := regions.Live(); n != live {
		t.Errorf("%d regions, %d before", n, live)
	}
}
