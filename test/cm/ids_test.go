//go:build vm

package cm

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestCMRxeAcceptBesideSilentPeer checks that a peer that never confirms the answer does not delay later peers. The
// kernel would wait for minutes.
func TestCMRxeAcceptBesideSilentPeer(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	l := kit.Must((&rdmacm.ListenConfig{ConfirmTimeout: 5 * time.Second}).Listen(t.Context(), kit.RxeIPv4+":0"))(t)
	type accepted struct {
		conn *rdmacm.Conn
		err  error
	}
	all := make(chan accepted)
	ctx, cancel := context.WithTimeout(t.Context(), kit.Patience)
	defer cancel()
	go func() {
		for range 2 {
			c, err := l.Accept(ctx)
			all <- accepted{c, err}
		}
	}()

	ch := newChannel(t)
	silent := resolveLow(t, ch, verbs.PortSpaceTCP, l.Addr())
	kit.OK(t, silent.Connect(t.Context(), &rdmacm.ConnParam{QPN: 77}))
	expect(t, ch, rdmacm.EventConnectResponse) // is not confirmed

	c := kit.Must(rdmacm.Dial(ctx, l.Addr().String()))(t)
	first := <-all
	if first.err != nil {
		t.Fatal(first.err)
	}
	kit.OK(t, c.Close())
	kit.OK(t, first.conn.Close())
	ev := kit.Must(ch.Get(ctx))(t)
	ev.Ack()
	if ev.Type != rdmacm.EventRejected { // the silent peer is dropped, and Accept doesn't report it
		t.Error(ev.Type, ev.Err)
	}
	kit.OK(t, l.Close())
	if second := <-all; !errors.Is(second.err, net.ErrClosed) {
		t.Error(second.err)
	}
}

// cmVeth is a second rxe link, on one end of a veth pair. The other end has no link and is in the same
// namespace.
const (
	cmVethIPv4 = "10.84.0.1"
	cmVethIPv6 = "fd84::1"
)

func cmVeth(t *testing.T) {
	t.Helper()
	kit.RxeFabric(t)
	kit.Sh(t, `set -e
		ip link add gvrvhere type veth peer name gvrvthere
		ip addr add 10.84.0.1/24 dev gvrvhere
		ip addr add fd84::1/64 dev gvrvhere nodad
		ip link set gvrvhere up
		ip link set gvrvthere up
		../../bin/rdmalink add gvrxev type rxe netdev gvrvhere`)
	t.Cleanup(func() { kit.Sh(t, "../../bin/rdmalink del gvrxev && ip link del gvrvhere") })
}

// idsCM returns the number of rdma_cm IDs of a process.
func idsCM(t *testing.T, pid int) (n int) {
	t.Helper()
	var c netlinkrdma.Client
	for _, d := range kit.Must(c.Devices())(t) {
		for _, id := range kit.Dumped(t, c.CMIDs(d.Index, nil)) {
			if owner, err := id.PID(); err == nil && owner == pid {
				n++
			}
		}
	}
	return n
}

// newChannel opens an event channel, and closes it at the end of the test.
func newChannel(t *testing.T) *rdmacm.EventChannel {
	t.Helper()
	ch := kit.Must(rdmacm.NewEventChannel())(t)
	kit.CloseLater(t, ch)
	return ch
}

// newID creates an ID, and destroys it at the end of the test.
func newID(t *testing.T, ch *rdmacm.EventChannel, ps verbs.PortSpace) *rdmacm.ID {
	t.Helper()
	id := kit.Must(ch.NewID(ps, 0))(t)
	destroyLater(t, id)
	return id
}

func destroyLater(t *testing.T, id *rdmacm.ID) {
	t.Cleanup(func() {
		if err := id.Close(); err != nil {
			t.Error(err)
		}
	})
}

// expect returns the next event, which must have the given type and report success.
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
	ctx, cancel := context.WithTimeout(t.Context(), kit.Patience)
	defer cancel()
	ev := kit.Must(ch.Get(ctx))(t)
	ev.Ack()
	return ev
}

// listenLow creates a listening ID and returns its address.
func listenLow(t *testing.T, ch *rdmacm.EventChannel, ps verbs.PortSpace) netip.AddrPort {
	t.Helper()
	id := newID(t, ch, ps)
	kit.OK(t, id.Bind(netip.MustParseAddrPort(kit.RxeIPv4+":0")))
	kit.OK(t, id.Listen(0))
	return kit.Must(id.QueryAddr())(t).Local
}

// resolveLow creates an ID and resolves the address and the route of dst.
func resolveLow(t *testing.T, ch *rdmacm.EventChannel, ps verbs.PortSpace, dst netip.AddrPort) *rdmacm.ID {
	t.Helper()
	id := newID(t, ch, ps)
	kit.OK(t, id.ResolveAddr(netip.AddrPort{}, dst, kit.Patience))
	expect(t, ch, rdmacm.EventAddrResolved)
	kit.OK(t, id.ResolveRoute(kit.Patience))
	expect(t, ch, rdmacm.EventRouteResolved)
	return id
}

// attachLater attaches a queue pair to an ID until the test ends.
func attachLater(t *testing.T, id *rdmacm.ID, qp *uverbs.QP) {
	t.Helper()
	kit.OK(t, id.AttachQP(qp))
	t.Cleanup(id.DetachQP)
}

// exchangeOver sends a message in each direction. The receives are posted immediately before.
func exchangeOver(t *testing.T, a, b *kit.RxeEnd) {
	t.Helper()
	for i, e := range []*kit.RxeEnd{a, b, a, b} {
		from, to := e, b
		if e == b {
			to = a
		}
		text := strings.Repeat("from one to the other", i+1)
		to.PostRecv(uint64(i), 0, kit.RecvSize)
		copy(from.MR.Bytes()[kit.SendFrom:], text)
		from.Post(verbs.SendWR{WRID: 9, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{from.MR.SGE(kit.SendFrom, len(text))}})
		from.Sent("9 SEND success")
		wc := to.Next(to.RecvCQ)
		if got := string(to.MR.Bytes()[:wc.ByteLen]); got != text || wc.WRID != uint64(i) {
			t.Errorf("message %d: %q", i, got)
		}
	}
}

// partLow ends a connection. One side requests the disconnect and the other one answers.
func partLow(t *testing.T, ch *rdmacm.EventChannel, asks, answers *rdmacm.ID) {
	t.Helper()
	kit.OK(t, asks.Disconnect())
	if ev := expect(t, ch, rdmacm.EventDisconnected); ev.ID != answers {
		t.Error("the wrong side sees the event first")
	}
	kit.OK(t, answers.Disconnect())
	if ev := expect(t, ch, rdmacm.EventDisconnected); ev.ID != asks {
		t.Error("the wrong side sees the event")
	}
}

// TestCMRxeEvents connects with single calls and events, as programs of librdmacm do. Both sides choose
// an acknowledgement time-out.
func TestCMRxeEvents(t *testing.T) {
	d := kit.OpenRxe(t)
	kit.NoLeak(t)
	ch := newChannel(t)
	dst := listenLow(t, ch, verbs.PortSpaceTCP)
	id := resolveLow(t, ch, verbs.PortSpaceTCP, dst)
	client, server := d.End(t, verbs.QPTypeRC, kit.RxeSetup{}), d.End(t, verbs.QPTypeRC, kit.RxeSetup{})
	attachLater(t, id, client.QP)
	kit.OK(t, id.SetAckTimeout(8*time.Second))
	kit.OK(t, id.Connect(t.Context(), &rdmacm.ConnParam{PrivateData: []byte("hello")}))

	ev := expect(t, ch, rdmacm.EventConnectRequest)
	destroyLater(t, ev.ID)
	if got := string(ev.Param.PrivateData); got != "hello"+strings.Repeat("\x00", 51) || ev.Param.QPN != client.QP.QPN() {
		t.Errorf("%q, QP %d", got, ev.Param.QPN)
	}
	attachLater(t, ev.ID, server.QP)
	kit.OK(t, ev.ID.SetAckTimeout(8*time.Second))
	kit.OK(t, ev.ID.Accept(nil))
	for range 2 {
		if got := expect(t, ch, rdmacm.EventEstablished); got.ID != id && got.ID != ev.ID {
			t.Error("another ID")
		}
	}
	for _, e := range []*kit.RxeEnd{client, server} {
		if attr := kit.Must(e.QP.Query())(t); attr.AckTimeout != 4096<<21 || attr.State != verbs.QPStateRTS {
			t.Errorf("time-out %v in %v", attr.AckTimeout, attr.State)
		}
	}
	index := kit.Must(client.QP.Query())(t).PKeyIndex
	if key := kit.Must(d.QueryPKey(1, uint32(index)))(t); key != 0xffff {
		t.Errorf("P_Key %#x at index %d", key, index)
	}
	exchangeOver(t, client, server)

	partLow(t, ch, id, ev.ID)
	for _, e := range []*kit.RxeEnd{client, server} {
		if state := kit.Must(e.QP.Query())(t).State; state != verbs.QPStateErr {
			t.Error("QP in", state)
		}
	}
}

// TestCMRxeExternalQP moves queue pairs of its own through the states, and exchanges their numbers.
func TestCMRxeExternalQP(t *testing.T) {
	d := kit.OpenRxe(t)
	kit.NoLeak(t)
	ch := newChannel(t)
	dst := listenLow(t, ch, verbs.PortSpaceTCP)
	id := resolveLow(t, ch, verbs.PortSpaceTCP, dst)
	client, server := d.End(t, verbs.QPTypeRC, kit.RxeSetup{}), d.End(t, verbs.QPTypeRC, kit.RxeSetup{})
	kit.OK(t, id.Connect(t.Context(), &rdmacm.ConnParam{QPN: client.QP.QPN()}))

	ev := expect(t, ch, rdmacm.EventConnectRequest)
	destroyLater(t, ev.ID)
	if ev.Param.QPN != client.QP.QPN() {
		t.Error("QP", ev.Param.QPN)
	}
	follow(server, ev.ID)
	kit.OK(t, ev.ID.Accept(&rdmacm.ConnParam{QPN: server.QP.QPN()}))

	answer := expect(t, ch, rdmacm.EventConnectResponse)
	if answer.ID != id || answer.Param.QPN != server.QP.QPN() {
		t.Errorf("%+v", answer)
	}
	follow(client, id)
	kit.OK(t, id.Establish())
	if got := expect(t, ch, rdmacm.EventEstablished); got.ID != ev.ID {
		t.Error("the wrong side is established")
	}
	exchangeOver(t, client, server)
	partLow(t, ch, id, ev.ID)
	if state := kit.Must(client.QP.Query())(t).State; state != verbs.QPStateRTS {
		t.Error("a queue pair that isn't attached was moved to", state)
	}
}

// follow moves the end to RTS with the attributes that the kernel returns for the ID.
func follow(e *kit.RxeEnd, id *rdmacm.ID) {
	e.T.Helper()
	for _, state := range []verbs.QPState{verbs.QPStateInit, verbs.QPStateRTR, verbs.QPStateRTS} {
		attr, mask, err := id.InitQPAttr(state)
		if err == nil {
			err = e.QP.Modify(attr, mask)
		}
		kit.OK(e.T, err)
	}
}

// TestCMRxeWrongState checks that a call in a wrong state fails, and the error names the state.
func TestCMRxeWrongState(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	ch := newChannel(t)
	id := newID(t, ch, verbs.PortSpaceTCP)
	for name, err := range map[string]error{
		"connect": id.Connect(t.Context(), nil),
		"route":   id.ResolveRoute(kit.Patience),
		"accept":  id.Accept(nil),
		"join":    joinError(id.JoinMulticast(cmGroup, rdmacm.JoinFullMember)),
	} {
		if t.Log(err); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func joinError(_ *rdmacm.Multicast, err error) error { return err }

// TestCMRxeMigrate checks that a connection works after it has moved to another channel, and ends there. An event that
// has not been fetched moves too.
func TestCMRxeMigrate(t *testing.T) {
	d := kit.OpenRxe(t)
	kit.NoLeak(t)
	ch, to := newChannel(t), newChannel(t)
	id := resolveLow(t, ch, verbs.PortSpaceTCP, listenLow(t, ch, verbs.PortSpaceTCP))
	client, server := d.End(t, verbs.QPTypeRC, kit.RxeSetup{}), d.End(t, verbs.QPTypeRC, kit.RxeSetup{})
	kit.OK(t, id.Connect(t.Context(), &rdmacm.ConnParam{QPN: client.QP.QPN()}))
	ev := expect(t, ch, rdmacm.EventConnectRequest)
	destroyLater(t, ev.ID)
	kit.OK(t, ev.ID.Migrate(to))
	follow(server, ev.ID)
	kit.OK(t, ev.ID.Accept(&rdmacm.ConnParam{QPN: server.QP.QPN()}))
	expect(t, ch, rdmacm.EventConnectResponse)
	follow(client, id)
	kit.OK(t, id.Establish())
	if got := expect(t, to, rdmacm.EventEstablished); got.ID != ev.ID {
		t.Error("another ID")
	}
	exchangeOver(t, client, server)

	kit.OK(t, id.Disconnect())
	kit.OK(t, ev.ID.Migrate(ch)) // moves the event too, if it has arrived
	if got := expect(t, ch, rdmacm.EventDisconnected); got.ID != ev.ID {
		t.Error("another ID")
	}
	kit.OK(t, ev.ID.Disconnect())
	if got := expect(t, ch, rdmacm.EventDisconnected); got.ID != id {
		t.Error("another ID")
	}
}

// TestCMRxeSRQ checks that each end learns that the other one has an SRQ, and receives from its own.
func TestCMRxeSRQ(t *testing.T) {
	d := kit.OpenRxe(t)
	kit.NoLeak(t)
	ch := newChannel(t)
	srq := kit.Must(d.PD.CreateSRQ(&uverbs.SRQOptions{MaxWR: 4, MaxSGE: 1}))(t)
	kit.CloseLater(t, srq)
	id := resolveLow(t, ch, verbs.PortSpaceTCP, listenLow(t, ch, verbs.PortSpaceTCP))
	client, server := d.End(t, verbs.QPTypeRC, kit.RxeSetup{SRQ: srq}), d.End(t, verbs.QPTypeRC, kit.RxeSetup{SRQ: srq})
	attachLater(t, id, client.QP)
	kit.OK(t, id.Connect(t.Context(), nil))
	ev := expect(t, ch, rdmacm.EventConnectRequest)
	destroyLater(t, ev.ID)
	if !ev.Param.SRQ {
		t.Error("the server does not learn of the client's SRQ")
	}
	attachLater(t, ev.ID, server.QP)
	kit.OK(t, ev.ID.Accept(nil))
	expect(t, ch, rdmacm.EventEstablished)
	expect(t, ch, rdmacm.EventEstablished)
	for i, ends := range [][2]*kit.RxeEnd{{client, server}, {server, client}} {
		from, to := ends[0], ends[1]
		if _, err := srq.PostRecv([]verbs.RecvWR{{WRID: uint64(i), SGL: []verbs.SGE{to.MR.SGE(0, kit.RecvSize)}}}); err != nil {
			t.Fatal(err)
		}
		from.Post(verbs.SendWR{WRID: 9, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{from.MR.SGE(kit.SendFrom, 8)}})
		from.Sent("9 SEND success")
		if wc := to.Next(to.RecvCQ); wc.WRID != uint64(i) || wc.ByteLen != 8 {
			t.Errorf("%+v", wc)
		}
	}
	partLow(t, ch, id, ev.ID)
}

// TestCMRxePath checks that a path that the kernel found for one ID works for another ID, which doesn't resolve a
// route.
func TestCMRxePath(t *testing.T) {
	d := kit.OpenRxe(t)
	kit.NoLeak(t)
	ch := newChannel(t)
	dst := listenLow(t, ch, verbs.PortSpaceTCP)
	resolved := resolveLow(t, ch, verbs.PortSpaceTCP, dst)
	paths := kit.Must(resolved.QueryPaths())(t)
	local, remote, err := resolved.QueryGID()
	kit.OK(t, err)
	if len(paths) != 1 || paths[0].SGID != local || paths[0].DGID != remote || paths[0].PKey != 0xffff || paths[0].MTU < verbs.MTU256 {
		t.Fatalf("%+v, from %v to %v", paths, local, remote)
	}
	var op *verbs.Error
	if err := resolved.SetPath(&paths[0]); !errors.As(err, &op) || op.Err != syscall.EINVAL || op.Hint == "" {
		t.Error("a second path:", err)
	}

	id := newID(t, ch, verbs.PortSpaceTCP)
	kit.OK(t, id.ResolveAddr(netip.AddrPort{}, dst, kit.Patience))
	expect(t, ch, rdmacm.EventAddrResolved)
	kit.OK(t, id.SetPath(&paths[0]))
	if ev := expect(t, ch, rdmacm.EventRouteResolved); ev.ID != id {
		t.Error("another ID")
	}
	client, server := d.End(t, verbs.QPTypeRC, kit.RxeSetup{}), d.End(t, verbs.QPTypeRC, kit.RxeSetup{})
	attachLater(t, id, client.QP)
	kit.OK(t, id.Connect(t.Context(), nil))
	ev := expect(t, ch, rdmacm.EventConnectRequest)
	destroyLater(t, ev.ID)
	attachLater(t, ev.ID, server.QP)
	kit.OK(t, ev.ID.Accept(nil))
	expect(t, ch, rdmacm.EventEstablished)
	expect(t, ch, rdmacm.EventEstablished)
	exchangeOver(t, client, server)
	partLow(t, ch, id, ev.ID)
}

// TestCMRxeECE checks that each end learns the options that the other one requests or accepts. A refusal because of the
// options says so.
func TestCMRxeECE(t *testing.T) {
	d := kit.OpenRxe(t)
	kit.NoLeak(t)
	ch := newChannel(t)
	dst := listenLow(t, ch, verbs.PortSpaceTCP)
	asked, agreed := verbs.ECE{VendorID: 0x123456, Options: 0x89abcdef}, verbs.ECE{VendorID: 0x123456, Options: 1}
	dial := func() (*rdmacm.ID, *rdmacm.Event) {
		id := resolveLow(t, ch, verbs.PortSpaceTCP, dst)
		qp := d.End(t, verbs.QPTypeRC, kit.RxeSetup{}).QP
		kit.OK(t, id.Connect(t.Context(), &rdmacm.ConnParam{QPN: qp.QPN(), ECE: asked}))
		ev := expect(t, ch, rdmacm.EventConnectRequest)
		destroyLater(t, ev.ID)
		if ev.Param.ECE != asked {
			t.Errorf("%+v came, %+v was sent", ev.Param.ECE, asked)
		}
		return id, ev
	}
	id, ev := dial()
	server := d.End(t, verbs.QPTypeRC, kit.RxeSetup{})
	follow(server, ev.ID)
	kit.OK(t, ev.ID.Accept(&rdmacm.ConnParam{QPN: server.QP.QPN(), ECE: agreed}))
	if answer := expect(t, ch, rdmacm.EventConnectResponse); answer.ID != id || answer.Param.ECE != agreed {
		t.Errorf("%+v", answer)
	}
	kit.OK(t, id.Establish())
	expect(t, ch, rdmacm.EventEstablished)
	partLow(t, ch, id, ev.ID)

	_, ev = dial()
	kit.OK(t, ev.ID.RejectECE(nil))
	var rejected *rdmacm.RejectedError
	if answer := nextEvent(t, ch); answer.Type != rdmacm.EventRejected || !errors.As(answer.Err, &rejected) || rejected.Reason != rdmacm.RejectVendorOption {
		t.Errorf("%+v", answer.Err)
	}
}

// TestCMRxeNotify checks that the accepting side reports that a message has arrived. That establishes the connection
// without the peer's confirmation.
func TestCMRxeNotify(t *testing.T) {
	d := kit.OpenRxe(t)
	kit.NoLeak(t)
	ch := newChannel(t)
	id := resolveLow(t, ch, verbs.PortSpaceTCP, listenLow(t, ch, verbs.PortSpaceTCP))
	client, server := d.End(t, verbs.QPTypeRC, kit.RxeSetup{}), d.End(t, verbs.QPTypeRC, kit.RxeSetup{})
	kit.OK(t, id.Connect(t.Context(), &rdmacm.ConnParam{QPN: client.QP.QPN()}))
	ev := expect(t, ch, rdmacm.EventConnectRequest)
	destroyLater(t, ev.ID)
	follow(server, ev.ID)
	kit.OK(t, ev.ID.Accept(&rdmacm.ConnParam{QPN: server.QP.QPN()}))
	expect(t, ch, rdmacm.EventConnectResponse)

	kit.OK(t, ev.ID.Notify(verbs.EventCommEst))
	if got := expect(t, ch, rdmacm.EventEstablished); got.ID != ev.ID {
		t.Error("the wrong side is established")
	}
	follow(client, id)
	kit.OK(t, id.Establish())
	exchangeOver(t, client, server)
	var op *verbs.Error
	if err := ev.ID.Notify(verbs.EventPortErr); !errors.As(err, &op) || op.Err != syscall.EINVAL {
		t.Error("a port's event:", err)
	}
	partLow(t, ch, id, ev.ID)
}
