//go:build vm

package test

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestCMRxePath: the path that the kernel found for one ID serves another, which never
// resolves a route.
func TestCMRxePath(t *testing.T) {
	d := openRxe(t)
	noLeak(t)
	ch := newChannel(t)
	dst := listenLow(t, ch, verbs.PortSpaceTCP)
	resolved := resolveLow(t, ch, verbs.PortSpaceTCP, dst)
	paths := must(resolved.QueryPaths())(t)
	local, remote, err := resolved.QueryGID()
	ok(t, err)
	if len(paths) != 1 || paths[0].SGID != local || paths[0].DGID != remote || paths[0].PKey != 0xffff || paths[0].MTU < verbs.MTU256 {
		t.Fatalf("%+v, from %v to %v", paths, local, remote)
	}
	var op *rdmacm.OpError
	if err := resolved.SetPath(&paths[0]); !errors.As(err, &op) || op.Err != syscall.EINVAL || op.Hint == "" {
		t.Error("a second path:", err)
	}

	id := newID(t, ch, verbs.PortSpaceTCP)
	ok(t, id.ResolveAddr(netip.AddrPort{}, dst, patience))
	expect(t, ch, rdmacm.EventAddrResolved)
	ok(t, id.SetPath(&paths[0]))
	if ev := expect(t, ch, rdmacm.EventRouteResolved); ev.ID != id {
		t.Error("another ID")
	}
	client, server := d.end(t, verbs.QPTypeRC, rxeSetup{}), d.end(t, verbs.QPTypeRC, rxeSetup{})
	attachLater(t, id, client.qp)
	ok(t, id.Connect(t.Context(), nil))
	ev := expect(t, ch, rdmacm.EventConnectRequest)
	destroyLater(t, ev.ID)
	attachLater(t, ev.ID, server.qp)
	ok(t, ev.ID.Accept(nil))
	expect(t, ch, rdmacm.EventEstablished)
	expect(t, ch, rdmacm.EventEstablished)
	exchangeOver(t, client, server)
	partLow(t, ch, id, ev.ID)
}

// TestCMRxeECE: both ends learn of the options that the other asks for or agrees to, and
// a refusal says that it is for them.
func TestCMRxeECE(t *testing.T) {
	d := openRxe(t)
	noLeak(t)
	ch := newChannel(t)
	dst := listenLow(t, ch, verbs.PortSpaceTCP)
	asked, agreed := rdmacm.ECE{VendorID: 0x123456, Options: 0x89abcdef}, rdmacm.ECE{VendorID: 0x123456, Options: 1}
	dial := func() (*rdmacm.ID, *rdmacm.Event) {
		id := resolveLow(t, ch, verbs.PortSpaceTCP, dst)
		qp := d.end(t, verbs.QPTypeRC, rxeSetup{}).qp
		ok(t, id.Connect(t.Context(), &rdmacm.ConnParam{QPNum: qp.Num(), ECE: asked}))
		ev := expect(t, ch, rdmacm.EventConnectRequest)
		destroyLater(t, ev.ID)
		if ev.Param.ECE != asked {
			t.Errorf("%+v came, %+v was sent", ev.Param.ECE, asked)
		}
		return id, ev
	}
	id, ev := dial()
	server := d.end(t, verbs.QPTypeRC, rxeSetup{})
	server.follow(ev.ID)
	ok(t, ev.ID.Accept(&rdmacm.ConnParam{QPNum: server.qp.Num(), ECE: agreed}))
	if answer := expect(t, ch, rdmacm.EventConnectResponse); answer.ID != id || answer.Param.ECE != agreed {
		t.Errorf("%+v", answer)
	}
	ok(t, id.Establish())
	expect(t, ch, rdmacm.EventEstablished)
	partLow(t, ch, id, ev.ID)

	_, ev = dial()
	ok(t, ev.ID.RejectECE(nil))
	var rejected *rdmacm.RejectedError
	if answer := nextEvent(t, ch); answer.Type != rdmacm.EventRejected || !errors.As(answer.Err, &rejected) || rejected.Reason != rdmacm.RejectVendorOption {
		t.Errorf("%+v", answer.Err)
	}
}

// TestCMRxeNotify: the side that accepted says that a message has come, so the
// connection is there, although the peer's confirmation is not.
func TestCMRxeNotify(t *testing.T) {
	d := openRxe(t)
	noLeak(t)
	ch := newChannel(t)
	id := resolveLow(t, ch, verbs.PortSpaceTCP, listenLow(t, ch, verbs.PortSpaceTCP))
	client, server := d.end(t, verbs.QPTypeRC, rxeSetup{}), d.end(t, verbs.QPTypeRC, rxeSetup{})
	ok(t, id.Connect(t.Context(), &rdmacm.ConnParam{QPNum: client.qp.Num()}))
	ev := expect(t, ch, rdmacm.EventConnectRequest)
	destroyLater(t, ev.ID)
	server.follow(ev.ID)
	ok(t, ev.ID.Accept(&rdmacm.ConnParam{QPNum: server.qp.Num()}))
	expect(t, ch, rdmacm.EventConnectResponse)

	ok(t, ev.ID.Notify(uverbs.EventCommEst))
	if got := expect(t, ch, rdmacm.EventEstablished); got.ID != ev.ID {
		t.Error("the wrong side is established")
	}
	client.follow(id)
	ok(t, id.Establish())
	exchangeOver(t, client, server)
	var op *rdmacm.OpError
	if err := ev.ID.Notify(uverbs.EventPortErr); !errors.As(err, &op) || op.Err != syscall.EINVAL {
		t.Error("a port's event:", err)
	}
	partLow(t, ch, id, ev.ID)
}
