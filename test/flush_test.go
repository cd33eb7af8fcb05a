//go:build vm

package test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/verbs"
)

// TestFlush: work that waits when a connection ends is flushed, in order. So
// is work that is posted afterwards, which siw itself would keep for ever.
func TestFlush(t *testing.T) {
	fabric(t)
	waiting := []string{"1000 RECV work request flushed", "1001 RECV work request flushed", "1002 RECV work request flushed"}
	for _, test := range []struct {
		name  string
		recvs int
		end   func(e, peer *end) error
		want  []string
	}{
		{"peer disconnects, receives wait", 3, func(_, peer *end) error { return peer.Disconnect() }, waiting},
		{"peer disconnects, nothing waits", 0, func(_, peer *end) error { return peer.Disconnect() }, nil},
		{"we disconnect, receives wait", 3, func(e, _ *end) error { return e.Disconnect() }, waiting},
		{"we disconnect, nothing waits", 0, func(e, _ *end) error { return e.Disconnect() }, nil},
		{"peer closes, nothing waits", 0, func(_, peer *end) error { return peer.Close() }, nil},
		{"moved to ERR, receives wait", 3, func(e, _ *end) error {
			return e.QP().Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.QPAttrState)
		}, waiting},
	} {
		t.Run(test.name, func(t *testing.T) {
			noLeak(t)
			e, peer := connect(t, setup{recvs: test.recvs}, setup{})
			if err := test.end(e, peer); err != nil {
				t.Fatal(err)
			}
			e.ended()
			for range 2 { // and again
				if diff := cmp.Diff(test.want, e.flushed()); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				test.want = nil
			}
			room := int(e.QP().Cap().MaxRecvWR)
			for range room {
				e.postRecv(verbs.RecvWR{WRID: 5})
			}
			for range room {
				e.got("5 RECV work request flushed")
			}
		})
	}
}
