package rxe

import (
	"testing"

	"github.com/goverbs/goverbs/verbs"
)

// TestResume checks that sends posted in SQD ring the doorbell when the QP goes back to
// RTS, and that other moves to RTS do not ring it.
func TestResume(t *testing.T) {
	w := ready(t, verbs.QPTypeRC)
	if n := w.k.Calls("POST_SEND"); n != 0 {
		t.Errorf("told %d times of nothing", n)
	}
	w.modify(t, verbs.QPStateSQD)
	w.post(t, verbs.SendWR{WRID: 1, Opcode: verbs.OpSend})
	told := w.k.Calls("POST_SEND")
	w.modify(t, verbs.QPStateRTS)
	if n := w.k.Calls("POST_SEND") - told; n != 1 {
		t.Errorf("told %d times", n)
	}
}
