//go:build vm

package test

import (
	"testing"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestCMRxeMigrate: a connection that has moved to another channel goes on, and ends
// there. An event that had not been fetched moves too.
func TestCMRxeMigrate(t *testing.T) {
	d := openRxe(t)
	noLeak(t)
	ch, to := newChannel(t), newChannel(t)
	id := resolveLow(t, ch, verbs.PortSpaceTCP, listenLow(t, ch, verbs.PortSpaceTCP))
	client, server := d.end(t, verbs.QPTypeRC, rxeSetup{}), d.end(t, verbs.QPTypeRC, rxeSetup{})
	ok(t, id.Connect(t.Context(), &rdmacm.ConnParam{QPNum: client.qp.Num()}))
	ev := expect(t, ch, rdmacm.EventConnectRequest)
	destroyLater(t, ev.ID)
	ok(t, ev.ID.Migrate(to))
	server.follow(ev.ID)
	ok(t, ev.ID.Accept(&rdmacm.ConnParam{QPNum: server.qp.Num()}))
	expect(t, ch, rdmacm.EventConnectResponse)
	client.follow(id)
	ok(t, id.Establish())
	if got := expect(t, to, rdmacm.EventEstablished); got.ID != ev.ID {
		t.Error("another ID")
	}
	exchangeOver(t, client, server)

	ok(t, id.Disconnect())
	ok(t, ev.ID.Migrate(ch)) // with the event, if that is there by now
	if got := expect(t, ch, rdmacm.EventDisconnected); got.ID != ev.ID {
		t.Error("another ID")
	}
	ok(t, ev.ID.Disconnect())
	if got := expect(t, ch, rdmacm.EventDisconnected); got.ID != id {
		t.Error("another ID")
	}
}

// TestCMRxeSRQ: both ends learn that the other has an SRQ, and receive from their own.
func TestCMRxeSRQ(t *testing.T) {
	d := openRxe(t)
	noLeak(t)
	ch := newChannel(t)
	srq := must(d.pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 4, MaxSGE: 1}))(t)
	closeLater(t, srq)
	id := resolveLow(t, ch, verbs.PortSpaceTCP, listenLow(t, ch, verbs.PortSpaceTCP))
	client, server := d.end(t, verbs.QPTypeRC, rxeSetup{srq: srq}), d.end(t, verbs.QPTypeRC, rxeSetup{srq: srq})
	attachLater(t, id, client.qp)
	ok(t, id.Connect(t.Context(), nil))
	ev := expect(t, ch, rdmacm.EventConnectRequest)
	destroyLater(t, ev.ID)
	if !ev.Param.SRQ {
		t.Error("the server does not learn of the client's SRQ")
	}
	attachLater(t, ev.ID, server.qp)
	ok(t, ev.ID.Accept(nil))
	expect(t, ch, rdmacm.EventEstablished)
	expect(t, ch, rdmacm.EventEstablished)
	for i, ends := range [][2]*rxeEnd{{client, server}, {server, client}} {
		from, to := ends[0], ends[1]
		if _, err := srq.PostRecv([]verbs.RecvWR{{WRID: uint64(i), SGL: []verbs.SGE{to.mr.SGE(0, recvSize)}}}); err != nil {
			t.Fatal(err)
		}
		from.post(verbs.SendWR{WRID: 9, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{from.mr.SGE(sendFrom, 8)}})
		from.sent("9 SEND success")
		if wc := to.next(to.recvCQ); wc.WRID != uint64(i) || wc.ByteLen != 8 {
			t.Errorf("%+v", wc)
		}
	}
	partLow(t, ch, id, ev.ID)
}
