//go:build vm

package rxe

import (
	"encoding/binary"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/verbs"
)

// TestRxeNotReadyForever checks that RNRRetry 7 has no limit only if RetryCnt is 7. The acknowledgement timeout also
// expires while the requester waits for the peer to be ready, and the retries for it are counted.
func TestRxeNotReadyForever(t *testing.T) {
	onRxe(t, "RetryCnt 3", func(t *testing.T, d *kit.RxeDevice) {
		a := d.End(t, verbs.QPTypeRC, kit.RxeSetup{Change: func(attr *verbs.QPAttr) { attr.AckTimeout, attr.RetryCnt = 4096<<8, 3 }})
		b := d.End(t, verbs.QPTypeRC, kit.RxeSetup{Change: func(attr *verbs.QPAttr) { attr.RNRTimer = 655360 * time.Microsecond }})
		a.Connect(b)
		b.Connect(a)
		a.Post(a.Send(1, kit.SendFrom, 8))
		if got := outcome(a.Next(a.SendCQ)); got != "1 transport retries exceeded" {
			t.Error(got)
		}
		if s := state(b); s != verbs.QPStateRTS {
			t.Errorf("the peer is in %v", s)
		}
	})
}

// TestRxeNoReadDepth checks that a READ with a depth of 0 waits for ever.
func TestRxeNoReadDepth(t *testing.T) {
	onRxe(t, "depth 0", func(t *testing.T, d *kit.RxeDevice) {
		a := d.End(t, verbs.QPTypeRC, kit.RxeSetup{Change: func(attr *verbs.QPAttr) { attr.MaxRDAtomic = 0 }})
		b := d.End(t, verbs.QPTypeRC, kit.RxeSetup{})
		a.Connect(b)
		b.Connect(a)
		read := a.Send(1, kit.SendFrom, 8)
		read.Opcode = verbs.OpRDMARead
		a.Post(read)
		a.PostRecv(1000, 0, 8)
		b.Post(b.Send(2, kit.SendFrom, 8)) // a is alive all the while
		b.Sent("2 SEND success")
		a.Got("1000 RECV success 8")
		if s := state(a); s != verbs.QPStateRTS {
			t.Errorf("state %v", s)
		}
		a.Modify(verbs.QPAttr{State: verbs.QPStateErr}, 0)
		a.Sent("1 SEND work request flushed") // rxe gives a failure the opcode 0
	})
}

// TestRxeQuery checks that some fields differ from those that Modify set.
func TestRxeQuery(t *testing.T) {
	kit.ForAllTypes(t, func(t *testing.T, typ verbs.QPType) {
		kit.RxeFabric(t)
		kit.NoLeak(t)
		d := kit.OpenRxe(t)
		a, b := d.End(t, typ, kit.RxeSetup{}), d.End(t, typ, kit.RxeSetup{})
		query := func(mtu verbs.MTU, hops uint8) {
			t.Helper()
			attr := kit.Must(a.QP.Query())(t)
			if attr.PathMTU != mtu || !attr.AH.Global || attr.AH.HopLimit != hops {
				t.Errorf("%v: path MTU %v, global %v, hop limit %d", attr.State, attr.PathMTU, attr.AH.Global, attr.AH.HopLimit)
			}
		}
		query(verbs.MTU256, 0)
		a.ToInit()
		query(verbs.MTU256, 0)
		a.Change = func(attr *verbs.QPAttr) { attr.AH.HopLimit = 7 }
		a.ToRTR(b)
		a.ToRTS()
		if typ == verbs.QPTypeUD {
			query(verbs.MTU256, 0)
			return
		}
		query(verbs.MTU1024, 64)
	})
}

// TestRxeGRHLength checks that the GRH of a datagram has the length of the UDP packet.
func TestRxeGRHLength(t *testing.T) {
	onRxe(t, "GRH", func(t *testing.T, d *kit.RxeDevice) {
		a, b := d.Pair(t, verbs.QPTypeUD, kit.RxeSetup{})
		sendGRH(t, a, b, d.Ah(t, pathOf(d, kit.RxeIPv4, kit.RxeIPv4)))
		if n := binary.BigEndian.Uint16(b.MR.Bytes()[22:]); n != 20+40 {
			t.Errorf("%d bytes of IPv4", n)
		}
		sendGRH(t, a, b, d.Ah(t, pathOf(d, kit.RxeIPv6, kit.RxeIPv6)))
		if n := binary.BigEndian.Uint16(b.MR.Bytes()[4:]); n != 40 || b.MR.Bytes()[6] != 17 {
			t.Errorf("%d bytes of IPv6, next header %d", n, b.MR.Bytes()[6])
		}
	})
}

// TestRxeBoundRegion checks that a region with a bound window can't be closed.
func TestRxeBoundRegion(t *testing.T) {
	onRxe(t, "bound", func(t *testing.T, d *kit.RxeDevice) {
		a, _ := d.Pair(t, verbs.QPTypeRC, kit.RxeSetup{})
		mr := kit.Must(d.PD.AllocMR(4096, d.Access(), nil))(t)
		mw := kit.Must(d.PD.AllocMW(verbs.MWType2))(t)
		a.Post(verbs.SendWR{WRID: 1, Opcode: verbs.OpBindMW, Flags: verbs.SendSignaled,
			Bind: &verbs.BindMW{MW: mw, MR: mr, RKey: mw.RKey() + 1, Addr: mr.Addr(), Length: 4096, Access: verbs.AccessRemoteRead}})
		a.Sent("1 BIND_MW success")
		if err := mr.Close(); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("closed: %v", err)
		}
		for _, c := range []interface{ Close() error }{mw, mr} {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestRxeCQOverflow checks that each completion that a CQ has no room for is an event. Neither the CQ nor its queue
// pairs end: later requests are carried out and complete. Only waits fail.
func TestRxeCQOverflow(t *testing.T) {
	onRxe(t, "overflow", func(t *testing.T, d *kit.RxeDevice) {
		a, b := d.End(t, verbs.QPTypeRC, kit.RxeSetup{CQE: 3}), d.End(t, verbs.QPTypeRC, kit.RxeSetup{})
		a.Connect(b)
		b.Connect(a)
		const lost = 2
		room := a.SendCQ.Cap()
		for i := range room + lost {
			a.Post(a.Send(uint64(i), kit.SendFrom, 8))
			b.PostRecv(1000, 0, 8)
			b.Got("1000 RECV success 8")
		}
		for range lost {
			if ev := event(d); ev.Type != verbs.EventCQErr || ev.CQ != a.SendCQ {
				t.Errorf("%+v", ev)
			}
		}
		wcs := make([]verbs.WC, room+lost)
		if n, err := a.SendCQ.Poll(wcs); n != room || err != nil {
			t.Errorf("%d of %d completions, %v", n, room, err)
		}
		a.Post(a.Send(99, kit.SendFrom, 8))
		b.PostRecv(1000, 0, 8)
		if got := kit.Brief(polled(t, a.SendCQ)); got != "99 SEND success" {
			t.Error(got)
		}
		if _, err := a.SendCQ.Wait(t.Context(), wcs); !errors.Is(err, verbs.ErrCQOverflow) {
			t.Error(err)
		}
	})
}
