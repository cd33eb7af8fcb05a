//go:build vm

package test

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"testing"

	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// cmVeth is a second rxe link, on one end of a veth pair; the other end, without
// a link, stays in the same namespace.
const (
	cmVethIPv4 = "10.84.0.1"
	cmVethIPv6 = "fd84::1"
)

func cmVeth(t *testing.T) {
	t.Helper()
	rxeFabric(t)
	sh(t, `set -e
		ip link add gvrvhere type veth peer name gvrvthere
		ip addr add 10.84.0.1/24 dev gvrvhere
		ip addr add fd84::1/64 dev gvrvhere nodad
		ip link set gvrvhere up
		ip link set gvrvthere up
		../../bin/rdmalink add gvrxev type rxe netdev gvrvhere`)
	t.Cleanup(func() { sh(t, "../../bin/rdmalink del gvrxev && ip link del gvrvhere") })
}

// serveCM starts a server and waits until one of its rdma_cm IDs listens on the
// port. Over RoCE there is no TCP port to see.
func serveCM(t *testing.T, cmd *exec.Cmd, port string) *running {
	t.Helper()
	server := launch(t, cmd)
	server.listens(func() bool { return listeningCM(t, server.Process.Pid, port) })
	return server
}

// listeningCM reports whether an rdma_cm ID of a process listens on a port.
func listeningCM(t *testing.T, pid int, port string) bool {
	t.Helper()
	var c netlinkrdma.Client
	for _, d := range must(c.Devices())(t) {
		for _, id := range dumped(t, c.DumpCMID(d.Index, nil)) {
			owner, err := id.PID()
			if err == nil && owner == pid && id.State == netlinkrdma.CMStateListen && fmt.Sprint(id.Src.AddrPort.Port()) == port {
				return true
			}
		}
	}
	return false
}

// idsCM counts a process's rdma_cm IDs.
func idsCM(t *testing.T, pid int) (n int) {
	t.Helper()
	var c netlinkrdma.Client
	for _, d := range must(c.Devices())(t) {
		for _, id := range dumped(t, c.DumpCMID(d.Index, nil)) {
			if owner, err := id.PID(); err == nil && owner == pid {
				n++
			}
		}
	}
	return n
}

// newChannel opens an event channel that closes with the test.
func newChannel(t *testing.T) *rdmacm.EventChannel {
	t.Helper()
	ch := must(rdmacm.NewEventChannel())(t)
	closeLater(t, ch)
	return ch
}

// newID makes an ID that goes with the test.
func newID(t *testing.T, ch *rdmacm.EventChannel, ps verbs.PortSpace) *rdmacm.ID {
	t.Helper()
	id := must(ch.NewID(ps, 0))(t)
	destroyLater(t, id)
	return id
}

func destroyLater(t *testing.T, id *rdmacm.ID) {
	t.Cleanup(func() {
		if err := id.Destroy(); err != nil {
			t.Error(err)
		}
	})
}

// expect gets the next event, which has to be of that type and a success.
func expect(t *testing.T, ch *rdmacm.EventChannel, typ rdmacm.EventType) *rdmacm.Event {
	t.Helper()
	ev := nextEvent(t, ch)
	if ev.Type != typ || ev.Err != nil {
		t.Fatalf("%v, %v came, want %v", ev.Type, ev.Err, typ)
	}
	return ev
}

func nextEvent(t *testing.T, ch *rdmacm.EventChannel) *rdmacm.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ev := must(ch.Get(ctx))(t)
	ev.Ack()
	return ev
}

// listenLow makes a listening ID and says where.
func listenLow(t *testing.T, ch *rdmacm.EventChannel, ps verbs.PortSpace) netip.AddrPort {
	t.Helper()
	id := newID(t, ch, ps)
	ok(t, id.Bind(netip.MustParseAddrPort(rxeIPv4+":0")))
	ok(t, id.Listen(0))
	return must(id.QueryAddr())(t).Local
}

// resolveLow makes an ID with the way to dst.
func resolveLow(t *testing.T, ch *rdmacm.EventChannel, ps verbs.PortSpace, dst netip.AddrPort) *rdmacm.ID {
	t.Helper()
	id := newID(t, ch, ps)
	ok(t, id.ResolveAddr(netip.AddrPort{}, dst, patience))
	expect(t, ch, rdmacm.EventAddrResolved)
	ok(t, id.ResolveRoute(patience))
	expect(t, ch, rdmacm.EventRouteResolved)
	return id
}

// ok ends the test unless err is nil.
func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// attachLater hands a queue pair to an ID until the test ends.
func attachLater(t *testing.T, id *rdmacm.ID, qp *uverbs.QP) {
	t.Helper()
	ok(t, id.AttachQP(qp))
	t.Cleanup(id.DetachQP)
}
