//go:build vm

package siw

import (
	"testing"

	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/verbs"
)

// connect makes two connected ends in this process, closed when the test ends.
func connect(t *testing.T, client, server kit.Setup) (*kit.End, *kit.End) {
	t.Helper()
	kit.Fabric(t)
	return kit.ConnectAt(t, kit.DummyIPv4+":0", client, server)
}

// postRecv queues a receive, which has to be taken.
func postRecv(e *kit.End, wr verbs.RecvWR) {
	e.T.Helper()
	if _, err := e.QP().PostRecv([]verbs.RecvWR{wr}); err != nil {
		e.T.Fatal(err)
	}
}
