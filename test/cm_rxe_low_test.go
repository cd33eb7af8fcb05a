//go:build vm

package test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/verbs"
)

// exchangeOver sends a message each way, with immediate receives.
func exchangeOver(t *testing.T, a, b *rxeEnd) {
	t.Helper()
	for i, e := range []*rxeEnd{a, b, a, b} {
		from, to := e, b
		if e == b {
			to = a
		}
		text := strings.Repeat("from one to the other", i+1)
		to.postRecv(uint64(i), 0, recvSize)
		copy(from.mr.Bytes()[sendFrom:], text)
		from.post(verbs.SendWR{WRID: 9, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{from.mr.SGE(sendFrom, len(text))}})
		from.sent("9 SEND success")
		wc := to.next(to.recvCQ)
		if got := string(to.mr.Bytes()[:wc.ByteLen]); got != text || wc.WRID != uint64(i) {
			t.Errorf("message %d: %q", i, got)
		}
	}
}

// partLow disconnects: the one side asks, the other answers.
func partLow(t *testing.T, ch *rdmacm.EventChannel, asks, answers *rdmacm.ID) {
	t.Helper()
	ok(t, asks.Disconnect())
	if ev := expect(t, ch, rdmacm.EventDisconnected); ev.ID != answers {
		t.Error("the wrong side sees the event first")
	}
	ok(t, answers.Disconnect())
	if ev := expect(t, ch, rdmacm.EventDisconnected); ev.ID != asks {
		t.Error("the wrong side sees the event")
	}
}

// TestCMRxeEvents connects call by call and event by event, as programs of
// librdmacm do, with an acknowledgement time-out of both sides' choice.
func TestCMRxeEvents(t *testing.T) {
	d := openRxe(t)
	noLeak(t)
	ch := newChannel(t)
	dst := listenLow(t, ch, verbs.PortSpaceTCP)
	id := resolveLow(t, ch, verbs.PortSpaceTCP, dst)
	client, server := d.end(t, verbs.QPTypeRC, rxeSetup{}), d.end(t, verbs.QPTypeRC, rxeSetup{})
	attachLater(t, id, client.qp)
	ok(t, id.SetAckTimeout(21))
	ok(t, id.Connect(t.Context(), &rdmacm.ConnParam{PrivateData: []byte("hello")}))

	ev := expect(t, ch, rdmacm.EventConnectRequest)
	destroyLater(t, ev.ID)
	if got := string(ev.Param.PrivateData); got != "hello"+strings.Repeat("\x00", 51) || ev.Param.QPNum != client.qp.Num() {
		t.Errorf("%q, QP %d", got, ev.Param.QPNum)
	}
	attachLater(t, ev.ID, server.qp)
	ok(t, ev.ID.SetAckTimeout(21))
	ok(t, ev.ID.Accept(nil))
	for range 2 {
		if got := expect(t, ch, rdmacm.EventEstablished); got.ID != id && got.ID != ev.ID {
			t.Error("another ID")
		}
	}
	for _, e := range []*rxeEnd{client, server} {
		if attr := must(e.qp.Query())(t); attr.Timeout != 21 || attr.State != verbs.QPStateRTS {
			t.Errorf("time-out %d in %v", attr.Timeout, attr.State)
		}
	}
	index := must(client.qp.Query())(t).PKeyIndex
	if key := must(d.QueryPKey(1, uint32(index)))(t); key != 0xffff {
		t.Errorf("P_Key %#x at index %d", key, index)
	}
	exchangeOver(t, client, server)

	partLow(t, ch, id, ev.ID)
	for _, e := range []*rxeEnd{client, server} {
		if state := must(e.qp.Query())(t).State; state != verbs.QPStateErr {
			t.Error("QP in", state)
		}
	}
}

// TestCMRxeExternalQP: the caller takes its own queue pairs through the states
// and tells their numbers.
func TestCMRxeExternalQP(t *testing.T) {
	d := openRxe(t)
	noLeak(t)
	ch := newChannel(t)
	dst := listenLow(t, ch, verbs.PortSpaceTCP)
	id := resolveLow(t, ch, verbs.PortSpaceTCP, dst)
	client, server := d.end(t, verbs.QPTypeRC, rxeSetup{}), d.end(t, verbs.QPTypeRC, rxeSetup{})
	ok(t, id.Connect(t.Context(), &rdmacm.ConnParam{QPNum: client.qp.Num()}))

	ev := expect(t, ch, rdmacm.EventConnectRequest)
	destroyLater(t, ev.ID)
	if ev.Param.QPNum != client.qp.Num() {
		t.Error("QP", ev.Param.QPNum)
	}
	server.follow(ev.ID)
	ok(t, ev.ID.Accept(&rdmacm.ConnParam{QPNum: server.qp.Num()}))

	answer := expect(t, ch, rdmacm.EventConnectResponse)
	if answer.ID != id || answer.Param.QPNum != server.qp.Num() {
		t.Errorf("%+v", answer)
	}
	client.follow(id)
	ok(t, id.Establish())
	if got := expect(t, ch, rdmacm.EventEstablished); got.ID != ev.ID {
		t.Error("the wrong side is established")
	}
	exchangeOver(t, client, server)
	partLow(t, ch, id, ev.ID)
	if state := must(client.qp.Query())(t).State; state != verbs.QPStateRTS {
		t.Error("a queue pair that isn't attached was moved to", state)
	}
}

// follow moves the end to RTS with the attributes that the kernel returns for the ID.
func (e *rxeEnd) follow(id *rdmacm.ID) {
	e.t.Helper()
	for _, state := range []verbs.QPState{verbs.QPStateInit, verbs.QPStateRTR, verbs.QPStateRTS} {
		attr, mask, err := id.InitQPAttr(state)
		if err == nil {
			err = e.qp.Modify(attr, mask)
		}
		ok(e.t, err)
	}
}

// TestCMRxeWrongState: calls in the wrong state fail, and the error names the state.
func TestCMRxeWrongState(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	ch := newChannel(t)
	id := newID(t, ch, verbs.PortSpaceTCP)
	for name, err := range map[string]error{
		"connect": id.Connect(t.Context(), nil),
		"route":   id.ResolveRoute(patience),
		"accept":  id.Accept(nil),
		"join":    joinError(id.JoinMulticast(cmGroup, rdmacm.JoinFullMember)),
	} {
		if t.Log(err); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func joinError(_ *rdmacm.Multicast, err error) error { return err }
