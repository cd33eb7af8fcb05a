package rxe

import (
	"testing"

	"github.com/goverbs/goverbs/uverbs"
)

// TestResume: the kernel is told of what was posted in SQD when the QP goes back
// to RTS, and not when it comes there otherwise.
func TestResume(t *testing.T) {
	w := ready(t, uverbs.QPTypeRC)
	if n := w.k.Calls("POST_SEND"); n != 0 {
		t.Errorf("told %d times of nothing", n)
	}
	w.modify(t, uverbs.QPStateSQD)
	w.post(t, uverbs.SendWR{WRID: 1, Opcode: uverbs.OpSend})
	told := w.k.Calls("POST_SEND")
	w.modify(t, uverbs.QPStateRTS)
	if n := w.k.Calls("POST_SEND") - told; n != 1 {
		t.Errorf("told %d times", n)
	}
}
