package rdmatest_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/internal/ibcm"
	"github.com/goverbs/goverbs/internal/roce"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// dialledClass is the traffic class of the connections that meetOverWire makes.
const dialledClass = 0x28

// meetOverWire returns the ends of a connection between two fabrics.
func meetOverWire(t *testing.T, fabrics [2]*rdmatest.Fabric) (dialled, accepted *rdmacm.Conn) {
	t.Helper()
	l := must((&rdmacm.ListenConfig{Config: rdmacm.Config{PrivateData: []byte("welcome")}}).Listen(t.Context(), fabrics[1].Host(0).Addr()+":0"))(t)
	done := make(chan error, 1)
	go func() {
		var err error
		accepted, err = l.Accept(context.Background())
		done <- err
	}()
	d := rdmacm.Dialer{Config: rdmacm.Config{PrivateData: []byte("hello"), TransportOptions: rdmacm.TransportOptions{TOS: dialledClass}, PeerRNRRetryCount: 5}}
	dialled, err := d.Dial(fabrics[0].Host(0).Context(t.Context()), l.Addr().String())
	if err := errors.Join(err, <-done, l.Close()); err != nil {
		t.Fatal(err)
	}
	return closed(t, dialled), closed(t, accepted)
}

// isMAD returns the message of the connection manager in a datagram, if there is one.
func isMAD(d rdmatest.Datagram) (msg ibcm.Message, ok bool) {
	r := roce.Route{Src: d.Src, Dst: d.Dst, SrcPort: d.SrcPort}
	b, ok := r.Check(d.Payload)
	p, err := roce.Parse(b)
	if !ok || err != nil || p.DestQPN != ibcm.QP {
		return msg, false
	}
	msg, err = ibcm.Parse(p.Payload)
	return msg, err == nil
}

// isPing reports whether a message asks a host whether it is there, or answers that.
func isPing(msg *ibcm.Message) bool {
	return msg.Kind == ibcm.DREQ && msg.RemoteID == 0 || msg.Kind == ibcm.DREP && msg.LocalID == 0
}

// A connection between two fabrics carries data both ways, and one end learns that the other has ended it.
func TestWireConnect(t *testing.T) {
	overWire(t, func(t *testing.T, fabrics [2]*rdmatest.Fabric, c *cable) {
		c.loses = func(d rdmatest.Datagram) bool {
			msg, ok := isMAD(d)
			if ok && (isPing(&msg) || msg.Kind == ibcm.DREP) { // of no connection
				return false
			}
			if d.TrafficClass != dialledClass || d.HopLimit != 64 {
				t.Errorf("%v: traffic class %#x, hop limit %d", msg.Kind, d.TrafficClass, d.HopLimit)
			}
			if label := (uint32(msg.Src.Port())*31 + uint32(msg.Port)) % (1 << 20); msg.Kind == ibcm.REQ && (msg.TrafficClass != dialledClass || msg.FlowLabel != label) {
				t.Errorf("%+v, want flow label %#x", msg, label)
			}
			return false
		}
		dialled, accepted := meetOverWire(t, fabrics)
		if !bytes.HasPrefix(accepted.PrivateData(), []byte("hello\x00")) || !bytes.HasPrefix(dialled.PrivateData(), []byte("welcome\x00")) {
			t.Errorf("private data: %q, %q", accepted.PrivateData(), dialled.PrivateData())
		}
		if a, b := dialled.LocalAddr(), accepted.RemoteAddr(); a != b {
			t.Errorf("the peer has the address %v, want %v", b, a)
		}
		if a := must(accepted.QP().Query())(t); a.RNRRetry != 5 || a.RetryCnt != 7 {
			t.Errorf("retries after RNR %d, other ones %d", a.RNRRetry, a.RetryCnt)
		}
		for _, e := range [][2]*rdmacm.Conn{{dialled, accepted}, {accepted, dialled}} {
			mr := region(t, e[1], nil)
			must(e[0].QP().PostSend([]verbs.SendWR{{Opcode: verbs.OpRDMAWrite, Inline: []byte("data"), RemoteAddr: mr.Addr(), RKey: mr.RKey(), Flags: verbs.SendSignaled}}))(t)
			wcs := make([]verbs.WC, 1)
			if _, err := e[0].SendCQ().Wait(t.Context(), wcs); err != nil || wcs[0].Err() != nil || string(mr.Bytes()[:4]) != "data" {
				t.Errorf("%v, %v, %q", err, wcs[0], mr.Bytes()[:4])
			}
		}
		if err := dialled.Disconnect(); err != nil {
			t.Error(err)
		}
		<-accepted.Done()
		if err := accepted.Err(); !errors.Is(err, rdmacm.ErrDisconnected) {
			t.Error(err)
		}
		<-dialled.Done()
	})
}

// A connection is set up and ended although the first message of a kind is lost, and although all messages arrive twice.
func TestWireConnectLoss(t *testing.T) {
	for _, kind := range []ibcm.Kind{ibcm.REQ, ibcm.REP, ibcm.RTU, ibcm.DREQ, ibcm.DREP} {
		synctest.Test(t, func(t *testing.T) {
			fabrics, c := lay(t, rdmatest.RXE, 0)
			lost := make(map[bool]int) // by whether the message is part of the address resolution
			c.loses = func(d rdmatest.Datagram) bool {
				msg, ok := isMAD(d)
				resolving := isPing(&msg)
				if ok && msg.Kind == kind && lost[resolving] == 0 {
					lost[resolving]++
					return true
				}
				if receive := c.to[d.Dst]; ok {
					time.AfterFunc(3*time.Microsecond, func() { receive(d) })
				}
				return false
			}
			dialled, accepted := meetOverWire(t, fabrics)
			if err := dialled.Disconnect(); err != nil {
				t.Error(err)
			}
			<-accepted.Done()
			<-dialled.Done()
			time.Sleep(time.Minute) // of the bubble's time
			c.mu.Lock()
			defer c.mu.Unlock()
			if resolves := kind == ibcm.DREQ || kind == ibcm.DREP; lost[false] != 1 || (lost[true] == 1) != resolves {
				t.Errorf("message %#x: %v were lost", kind, lost)
			}
		})
	}
}

// A server that ends a connection says so once if its peer answers.
func TestWireServerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fabrics, c := lay(t, rdmatest.RXE, 0)
		ends := 0
		c.loses = func(d rdmatest.Datagram) bool {
			if msg, ok := isMAD(d); ok && msg.Kind == ibcm.DREQ && !isPing(&msg) {
				ends++
			}
			return false
		}
		dialled, accepted := meetOverWire(t, fabrics)
		if err := accepted.Disconnect(); err != nil {
			t.Error(err)
		}
		<-dialled.Done()
		<-accepted.Done()
		time.Sleep(time.Minute) // of the bubble's time
		c.mu.Lock()
		defer c.mu.Unlock()
		if ends != 1 {
			t.Errorf("%d messages end the connection", ends)
		}
	})
}

// Requests that nobody answers with yes fail with the reason.
func TestWireRejected(t *testing.T) {
	overWire(t, func(t *testing.T, fabrics [2]*rdmatest.Fabric, _ *cable) {
		from := fabrics[0].Host(0).Context(t.Context())
		l := closed(t, must(rdmacm.Listen(t.Context(), fabrics[1].Host(0).Addr()+":0"))(t))
		go func() {
			r, err := l.Next(context.Background())
			if err == nil {
				err = r.Reject([]byte("no"))
			}
			if err != nil {
				t.Error(err)
			}
		}()
		var rejected *rdmacm.RejectedError
		if _, err := rdmacm.Dial(from, l.Addr().String()); !errors.As(err, &rejected) || rejected.Reason != rdmacm.RejectConsumer || !bytes.HasPrefix(rejected.PrivateData, []byte("no\x00")) {
			t.Errorf("%v, %+v", err, rejected)
		}
		other := netip.AddrPortFrom(l.Addr().Addr(), l.Addr().Port()+1)
		if _, err := rdmacm.Dial(from, other.String()); !errors.As(err, &rejected) || rejected.Reason != rdmacm.RejectInvalidServiceID {
			t.Errorf("no listener: %v", err)
		}
	})
}

// TestWireNobody checks that the address of a host that does not answer is not resolved, and that no other host or
// connection can answer for it.
func TestWireNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fabrics, c := lay(t, rdmatest.RXE, 0)
		nobody, asked := netip.MustParseAddr("203.0.113.7"), 0
		here := c.to[fabrics[0].Host(0).Device(0).Addrs()[0]]
		c.to[nobody] = func(d rdmatest.Datagram) {
			asked++
			msg, ok := isMAD(d)
			if !ok || !isPing(&msg) {
				t.Errorf("%+v", msg)
			}
			answer := func(src netip.Addr, kind ibcm.Kind, number uint32) {
				d := rdmatest.Datagram{Src: src, Dst: d.Src, SrcPort: d.SrcPort}
				here(packetToCM(d, (&ibcm.Message{Kind: kind, RemoteID: number}).Marshal()))
			}
			answer(nobody.Next(), ibcm.DREP, msg.LocalID)
			answer(nobody, ibcm.DREP, msg.LocalID+1)
			answer(nobody, ibcm.RTU, msg.LocalID)
		}
		from := fabrics[0].Host(0).Context(t.Context())
		_, err := rdmacm.Dial(from, "203.0.113.7:7471")
		c.mu.Lock()
		if !errors.Is(err, syscall.ETIMEDOUT) || !strings.Contains(err.Error(), ": resolve address: ") || asked < 2 {
			t.Errorf("after %d requests: %v", asked, err)
		}
		c.mu.Unlock()
		// A program that doesn't wait for the event, and a host that answers twice.
		ch := closed(t, must(rdmacm.NewEventChannelFor(fabrics[0].Host(0).Device(0).Addrs()[0]))(t))
		id := closed(t, must(ch.NewID(verbs.PortSpaceTCP, verbs.QPTypeRC))(t))
		if err := id.ResolveAddr(netip.AddrPortFrom(fabrics[0].Host(0).Device(0).Addrs()[0], 0), netip.AddrPortFrom(nobody, 1), time.Second); err != nil {
			t.Error(err)
		}
		if err := id.ResolveRoute(time.Second); !errors.Is(err, syscall.EINVAL) {
			t.Error(err)
		}
		c.mu.Lock()
		c.to[nobody] = func(d rdmatest.Datagram) {
			msg, _ := isMAD(d)
			for range 2 {
				answer := ibcm.Message{Kind: ibcm.DREP, RemoteID: msg.LocalID}
				here(packetToCM(rdmatest.Datagram{Src: nobody, Dst: d.Src, SrcPort: d.SrcPort}, answer.Marshal()))
			}
		}
		c.mu.Unlock()
		again := closed(t, must(ch.NewID(verbs.PortSpaceTCP, verbs.QPTypeRC))(t))
		if err := again.ResolveAddr(netip.AddrPortFrom(fabrics[0].Host(0).Device(0).Addrs()[0], 0), netip.AddrPortFrom(nobody, 1), time.Second); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		resolved := 0
		for ev, err := ch.Get(ctx); err == nil; ev, err = ch.Get(ctx) {
			if ev.Type == rdmacm.EventAddrResolved && ev.ID == again {
				resolved++
			}
			ev.Ack()
		}
		if resolved != 1 {
			t.Errorf("resolved %d times", resolved)
		}
	})
}

// TestWireUnanswered checks that a request to a host that answers only the resolution fails after Linux's retries.
func TestWireUnanswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fabrics, c := lay(t, rdmatest.RXE, 0)
		requests := 0
		c.loses = func(d rdmatest.Datagram) bool {
			msg, ok := isMAD(d)
			if !ok || msg.Kind != ibcm.REQ {
				return false
			}
			requests++
			// The peer asks for time to confirm an answer that there wasn't.
			mra := ibcm.Message{Kind: ibcm.MRA, RemoteID: msg.LocalID, LocalID: 5, Of: 1, Timeout: 24}
			receive, answer := c.to[d.Src], packetToCM(rdmatest.Datagram{Src: d.Dst, Dst: d.Src, SrcPort: d.SrcPort}, mra.Marshal())
			time.AfterFunc(time.Millisecond, func() { receive(answer) })
			return true
		}
		ctx, cancel := context.WithTimeout(fabrics[0].Host(0).Context(t.Context()), 5*time.Minute)
		defer cancel()
		_, err := rdmacm.Dial(ctx, fabrics[1].Host(0).Addr()+":7471")
		c.mu.Lock()
		defer c.mu.Unlock()
		if !errors.Is(err, syscall.ETIMEDOUT) || requests != 16 {
			t.Errorf("after %d requests: %v", requests, err)
		}
	})
}

// A peer that gives up before it is answered is gone for the server's program.
func TestWireAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fabrics, c := lay(t, rdmatest.RXE, 0)
		l := closed(t, must(rdmacm.Listen(t.Context(), fabrics[1].Host(0).Addr()+":0"))(t))
		const timeout, ofAnother = 4, 2
		c.loses = func(d rdmatest.Datagram) bool {
			if msg, ok := isMAD(d); ok && msg.Kind == ibcm.REJ && (msg.Reason != timeout || msg.Of != ofAnother || msg.GUID != 0) {
				t.Errorf("%+v", msg)
			}
			return false
		}
		ctx, cancel := context.WithCancel(fabrics[0].Host(0).Context(t.Context()))
		dialled := make(chan error, 1)
		go func() { _, err := rdmacm.Dial(ctx, l.Addr().String()); dialled <- err }()
		r := must(l.Next(t.Context()))(t)
		cancel()
		<-dialled
		time.Sleep(time.Millisecond) // of the bubble's time
		if _, err := r.Accept(t.Context(), nil); !errors.Is(err, syscall.EINVAL) {
			t.Error(err)
		}
	})
}

// A request that rdma_cm would not send is refused, and a packet that is no message of the connection manager ignored.
func TestWireRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fabrics, c := lay(t, rdmatest.RXE, 0)
		own, peer := netip.MustParseAddr(fabrics[1].Host(0).Addr()), netip.MustParseAddr("203.0.113.9")
		l := closed(t, must(rdmacm.Listen(t.Context(), own.String()+":7471"))(t))
		answers := make(chan ibcm.Message, 4)
		c.to[peer] = func(d rdmatest.Datagram) {
			msg, _ := isMAD(d)
			if msg.Kind == ibcm.REP {
				rtu := ibcm.Message{Kind: ibcm.RTU, LocalID: msg.RemoteID, RemoteID: msg.LocalID}
				c.to[own](packetToCM(rdmatest.Datagram{Src: peer, Dst: own, SrcPort: 1}, rtu.Marshal()))
				return
			}
			answers <- msg
		}
		number := uint32(5)
		send := func(change func(p *roce.Packet, msg *ibcm.Message)) {
			number++
			msg := ibcm.Message{Kind: ibcm.REQ, LocalID: number, Space: ibcm.SpaceTCP, Port: 7471, MTU: 3, Src: netip.AddrPortFrom(peer, 9), Dst: own}
			p := roce.Packet{Opcode: roce.ServiceUD<<5 | roce.SendOnly, PKey: 0xffff, DestQPN: ibcm.QP, SrcQPN: ibcm.QP, QKey: ibcm.QKey}
			change(&p, &msg)
			if p.Payload == nil {
				p.Payload = msg.Marshal()
			}
			r := roce.Route{Src: peer, Dst: own, SrcPort: 1}
			c.to[own](rdmatest.Datagram{Src: r.Src, Dst: r.Dst, SrcPort: r.SrcPort, Payload: r.AppendICRC(p.Append(nil))})
			time.Sleep(time.Second) // of the bubble's time
		}
		const ignored = 0
		for name, c := range map[string]struct {
			reason uint16
			change func(p *roce.Packet, msg *ibcm.Message)
		}{
			"partition":      {ignored, func(p *roce.Packet, _ *ibcm.Message) { p.PKey = 0x1234 }},
			"Q_Key":          {ignored, func(p *roce.Packet, _ *ibcm.Message) { p.QKey++ }},
			"service":        {ignored, func(p *roce.Packet, _ *ibcm.Message) { p.Opcode = roce.ServiceUC<<5 | roce.SendOnly }},
			"operation":      {ignored, func(p *roce.Packet, _ *ibcm.Message) { p.Opcode = roce.ServiceUD<<5 | roce.SendOnlyImm }},
			"port space":     {uint16(rdmacm.RejectInvalidServiceID), func(_ *roce.Packet, m *ibcm.Message) { m.Space = ibcm.SpaceUDP }},
			"no addresses":   {uint16(rdmacm.RejectInvalidServiceID), func(p *roce.Packet, m *ibcm.Message) { p.Payload = m.Marshal(); p.Payload[24+140]++ }},
			"its address":    {uint16(rdmacm.RejectConsumer), func(_ *roce.Packet, m *ibcm.Message) { m.Src = netip.AddrPortFrom(peer.Next(), 9) }},
			"our address":    {uint16(rdmacm.RejectConsumer), func(_ *roce.Packet, m *ibcm.Message) { m.Dst = peer }},
			"transport":      {uint16(rdmacm.RejectConsumer), func(_ *roce.Packet, m *ibcm.Message) { m.Transport = 1 }},
			"small path MTU": {uint16(rdmacm.RejectConsumer), func(_ *roce.Packet, m *ibcm.Message) { m.MTU = 0 }},
			"large path MTU": {uint16(rdmacm.RejectConsumer), func(_ *roce.Packet, m *ibcm.Message) { m.MTU = 6 }},
		} {
			send(c.change)
			var reason uint16
			select {
			case answer := <-answers:
				if reason = answer.Reason; answer.Kind != ibcm.REJ || answer.RemoteID != number {
					t.Errorf("%s: %+v", name, answer)
				}
			default:
			}
			if reason != c.reason {
				t.Errorf("%s: reason %d, want %d", name, reason, c.reason)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if r, err := l.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("request %v, %v", r, err)
		}
		device := fabrics[1].Host(0).Device(0)
		device.SetLink(false)
		send(func(*roce.Packet, *ibcm.Message) {})
		device.SetLink(true)
		limited := func(p *roce.Packet, m *ibcm.Message) { p.PKey, m.MTU = 0x7fff, 1 }
		send(limited)
		conn := closed(t, must(must(l.Next(t.Context()))(t).Accept(t.Context(), nil))(t))
		if got := must(conn.QP().Query())(t).PathMTU; got != verbs.MTU256 {
			t.Errorf("path MTU %v", got)
		}
	})
}

// A program that is slow to take an answer asks for time, and may refuse the answer.
func TestWireSlowClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fabrics, c := lay(t, rdmatest.RXE, 0)
		kinds := make(map[ibcm.Kind]int)
		const ofREP = 1
		own, dst := netip.MustParseAddr(fabrics[0].Host(0).Addr()), netip.MustParseAddr(fabrics[1].Host(0).Addr())
		c.loses = func(d rdmatest.Datagram) bool {
			msg, _ := isMAD(d)
			kinds[msg.Kind]++
			if fromClient := d.Dst == dst; fromClient && (msg.Kind == ibcm.MRA || msg.Kind == ibcm.REJ) && msg.Of != ofREP {
				t.Errorf("%+v", msg)
			}
			return false
		}
		l := closed(t, must(rdmacm.Listen(t.Context(), fabrics[1].Host(0).Addr()+":0"))(t))
		accepted := make(chan error, 1)
		go func() {
			r, err := l.Next(context.Background())
			if err == nil {
				_, err = r.Accept(context.Background(), nil)
			}
			accepted <- err
		}()
		ch := closed(t, must(rdmacm.NewEventChannelFor(own))(t))
		id := closed(t, must(ch.NewID(verbs.PortSpaceTCP, verbs.QPTypeRC))(t))
		for _, step := range []func() error{
			func() error { return id.ResolveAddr(netip.AddrPortFrom(own, 0), l.Addr(), time.Minute) },
			func() error { return id.ResolveRoute(time.Minute) },
			func() error { return id.Connect(t.Context(), &rdmacm.ConnParam{QPN: 5}) },
		} {
			err := step()
			if err != nil {
				t.Fatal(err)
			}
			ev := must(ch.Get(t.Context()))(t)
			ev.Ack()
			if ev.Err != nil {
				t.Fatal(ev)
			}
		}
		time.Sleep(8 * time.Second) // of the bubble's time
		if err := id.Reject(nil); err != nil {
			t.Error(err)
		}
		var rejected *rdmacm.RejectedError
		if err := <-accepted; !errors.As(err, &rejected) {
			t.Error(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if kinds[ibcm.MRA] == 0 || kinds[ibcm.REJ] == 0 {
			t.Error(kinds)
		}
	})
}

// A server that takes its time gets the request once.
func TestWireSlowServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fabrics, _ := lay(t, rdmatest.RXE, 0)
		l := closed(t, must(rdmacm.Listen(t.Context(), fabrics[1].Host(0).Addr()+":0"))(t))
		dialled := make(chan *rdmacm.Conn, 1)
		go func() {
			c, err := rdmacm.Dial(fabrics[0].Host(0).Context(t.Context()), l.Addr().String())
			if err != nil {
				t.Error(err)
			}
			dialled <- c
		}()
		r := must(l.Next(t.Context()))(t)
		time.Sleep(5 * time.Minute) // of the bubble's time
		closed(t, must(r.Accept(t.Context(), nil))(t))
		closed(t, <-dialled)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := l.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error("a second request:", err)
		}
	})
}

// A datagram service in another fabric is looked up.
func TestWireDatagramService(t *testing.T) {
	for _, k := range onWire {
		t.Run(k.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fabrics, c := lay(t, k, 0)
				// Each message arrives twice, after messages that are for connections.
				c.loses = func(d rdmatest.Datagram) bool {
					msg, ok := isMAD(d)
					if !ok || msg.Kind != ibcm.SIDRREP {
						return false
					}
					receive := c.to[d.Dst]
					time.AfterFunc(3*time.Microsecond, func() { receive(d) })
					for _, kind := range []ibcm.Kind{ibcm.REP, ibcm.REJ, ibcm.DREQ} {
						other := ibcm.Message{Kind: kind, LocalID: 5, RemoteID: msg.RemoteID}
						time.AfterFunc(0, func() { receive(packetToCM(d, other.Marshal())) })
					}
					return false
				}
				datagramService(t, fabrics[0].Host(0), fabrics[1].Host(0), 4)
				cfg, _ := datagrams(t)
				var rejected *rdmacm.RejectedError
				if _, err := (&rdmacm.Dialer{Config: *cfg}).Dial(fabrics[0].Host(0).Context(t.Context()), fabrics[1].Host(0).Addr()+":7471"); !errors.As(err, &rejected) {
					t.Errorf("no listener: %v", err)
				}
			})
		})
	}
}

// What is sent to a group arrives at its members in another fabric, until they leave. A member that only sends receives nothing.
func TestWireMulticast(t *testing.T) {
	for _, k := range onWire {
		t.Run(k.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fabrics, c := lay(t, k, 0)
				group := netip.MustParseAddr("239.1.2.3")
				join := func(f *rdmatest.Fabric, flags rdmacm.JoinFlags) (*rdmacm.Conn, *rdmacm.Group, *uverbs.MR) {
					cfg, mr := datagrams(t)
					end := must(rdmacm.OpenUD(netip.MustParseAddr(f.Host(0).Addr()), cfg))(t)
					return end, must(end.JoinMulticast(t.Context(), group, flags))(t), *mr
				}
				sender, to, _ := join(fabrics[0], rdmacm.JoinSendOnly)
				receiver, in, mr := join(fabrics[1], rdmacm.JoinFullMember)
				other, _, _ := join(fabrics[1], rdmacm.JoinFullMember)
				near, _, nearMR := join(fabrics[0], rdmacm.JoinFullMember)
				must(near.QP().PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{nearMR.SGE(0, recvSize)}}}))(t) // for a second one
				send := func(data string) {
					must(sender.QP().PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Inline: []byte(data), AH: to.Peer.AH, RemoteQPN: to.Peer.QPN, RemoteQKey: to.Peer.QKey}}))(t)
					time.Sleep(time.Second) // of the bubble's time
				}
				arrived := func(c *rdmacm.Conn) bool {
					wcs := make([]verbs.WC, 1)
					return must(c.RecvCQ().Poll(wcs))(t) == 1 && wcs[0].ByteLen == uverbs.GRHSize+4 && wcs[0].SrcQPN == sender.QP().QPN()
				}
				// Neither a packet for a queue pair nor one of another service is for the group.
				c.loses = func(d rdmatest.Datagram) bool {
					r := roce.Route{Src: d.Src, Dst: d.Dst, SrcPort: d.SrcPort}
					b, _ := r.Check(d.Payload)
					receive := c.to[c.members[group][0]]
					for _, change := range []func(p *roce.Packet){func(p *roce.Packet) { p.DestQPN-- }, func(p *roce.Packet) { p.Opcode = roce.ServiceUC<<5 | roce.SendOnly }} {
						p := must(roce.Parse(b))(t)
						change(&p)
						p.Payload = []byte("fake")
						other := d
						other.Member, other.Payload = c.members[group][0], r.AppendICRC(p.Append(nil))
						time.AfterFunc(0, func() { receive(other) })
					}
					return false
				}
				if len(c.members[group]) != 2 {
					t.Errorf("members: %v", c.members)
				}
				send("data")
				if !arrived(near) || arrived(near) {
					t.Error("a member of the sender's fabric did not receive it, or twice")
				}
				if err := near.Close(); err != nil {
					t.Error(err)
				}
				h, err := uverbs.ParseGRH(mr.Bytes()[:uverbs.GRHSize])
				if !arrived(receiver) || !arrived(other) || string(mr.Bytes()[uverbs.GRHSize:][:4]) != "data" || err != nil || h.DGID.Addr() != group || h.HopLimit != 1 || h.TrafficClass != 0 {
					t.Errorf("%+v, %v", h, err)
				}
				defer func() {
					if err := errors.Join(to.Close(), sender.Close(), receiver.Close(), c.wrong); err != nil {
						t.Error(err)
					}
				}()
				for i, leaves := range []func() error{in.Close, other.Close} {
					if err := leaves(); err != nil {
						t.Error(err)
					}
					if len(c.members[group]) != 1-i {
						t.Errorf("members after %d have left: %v", i+1, c.members)
					}
				}
			})
		})
	}
}

// Messages from another address than the peer's, or with another number, don't concern a connection.
func TestWireForged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fabrics, c := lay(t, rdmatest.RXE, 0)
		var genuine []rdmatest.Datagram
		c.loses = func(d rdmatest.Datagram) bool {
			if msg, ok := isMAD(d); ok && msg.Kind == ibcm.RTU {
				genuine = append(genuine, d)
			}
			return false
		}
		dialled, accepted := meetOverWire(t, fabrics)
		c.mu.Lock()
		first := genuine[0]
		c.mu.Unlock()
		rtu, _ := isMAD(first)
		send := func(src netip.Addr, change func(*ibcm.Message)) {
			msg := rtu
			msg.Kind, msg.Private = ibcm.REJ, nil
			change(&msg)
			d := first
			d.Src = src
			c.to[d.Dst](packetToCM(d, msg.Marshal()))
		}
		peer := first.Src
		send(netip.MustParseAddr("203.0.113.7"), func(*ibcm.Message) {})
		send(peer, func(m *ibcm.Message) { m.LocalID++ })
		send(peer, func(m *ibcm.Message) { m.LocalID = 0 })
		send(peer, func(m *ibcm.Message) { m.RemoteID++ })
		send(peer, func(m *ibcm.Message) { m.Kind, m.QPN = ibcm.DREQ, accepted.QP().QPN()+1 })
		select {
		case <-accepted.Done():
			t.Error("a forged message ended the connection")
		case <-time.After(time.Second):
		}
		// Another answer to the request, which has been answered.
		rep := ibcm.Message{Kind: ibcm.REP, LocalID: rtu.RemoteID, RemoteID: rtu.LocalID, QPN: accepted.QP().QPN() + 1}
		back := rdmatest.Datagram{Src: first.Dst, Dst: peer, SrcPort: first.SrcPort}
		c.to[peer](packetToCM(back, rep.Marshal()))
		if err := dialled.Disconnect(); err != nil {
			t.Error(err)
		}
		<-accepted.Done()
	})
}

// packetToCM returns the datagram with other data for the connection manager.
func packetToCM(d rdmatest.Datagram, data []byte) rdmatest.Datagram {
	p := roce.Packet{Opcode: roce.ServiceUD<<5 | roce.SendOnly, PKey: 0xffff, DestQPN: ibcm.QP, SrcQPN: ibcm.QP, QKey: ibcm.QKey, Payload: data}
	r := roce.Route{Src: d.Src, Dst: d.Dst, SrcPort: d.SrcPort}
	d.Payload = r.AppendICRC(p.Append(nil))
	return d
}

// FuzzWireCM checks that hostile messages of a peer neither end the process nor make a listener keep
// more requests than its backlog.
func FuzzWireCM(f *testing.F) {
	base := rdmatest.NewWith(f, &rdmatest.Options{Hosts: make([]rdmatest.HostOptions, 1)})
	var number uint32 // of the connection that the peer was asked for
	var receive func(rdmatest.Datagram)
	receive = base.ConnectWire(func(d rdmatest.Datagram) {
		switch msg, ok := isMAD(d); {
		case ok && msg.Kind == ibcm.REQ:
			number = msg.LocalID
		case ok && msg.Kind == ibcm.DREQ && isPing(&msg):
			answer := ibcm.Message{Kind: ibcm.DREP, RemoteID: msg.LocalID}
			go receive(packetToCM(rdmatest.Datagram{Src: d.Dst, Dst: d.Src, SrcPort: 1}, answer.Marshal()))
		}
	}, nil)
	own, peer := base.Host(0).Device(0).Addrs()[0], netip.MustParseAddr("203.0.113.9")
	for kind := ibcm.REQ; kind <= ibcm.SIDRREP; kind++ {
		msg := ibcm.Message{Kind: kind, LocalID: 5, Space: ibcm.SpaceTCP, Port: 7471, MTU: 3, Src: netip.AddrPortFrom(peer, 9), Dst: own}
		f.Add(append(msg.Marshal(), msg.Marshal()...))
	}
	const backlog, numberAt = 4, 24 + 4
	f.Fuzz(func(t *testing.T, script []byte) {
		ch := must(rdmacm.NewEventChannelFor(own))(t)
		defer ch.Close()
		l, id := must(ch.NewID(verbs.PortSpaceTCP, verbs.QPTypeRC))(t), must(ch.NewID(verbs.PortSpaceTCP, verbs.QPTypeRC))(t)
		defer l.Close()
		defer id.Close()
		for _, err := range []error{l.Bind(netip.AddrPortFrom(own, 7471)), l.Listen(backlog), id.ResolveAddr(netip.AddrPortFrom(own, 0), netip.AddrPortFrom(peer, 1), time.Minute)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		ev := must(ch.Get(t.Context()))(t)
		ev.Ack()
		for _, err := range []error{ev.Err, id.ResolveRoute(time.Minute), id.Connect(t.Context(), &rdmacm.ConnParam{})} {
			if err != nil {
				t.Fatal(err)
			}
		}
		for len(script) > 0 {
			n := min(ibcm.Size, len(script))
			b := script[:n]
			if n == ibcm.Size && b[len(b)-1] == 0 {
				b = bytes.Clone(b)
				binary.BigEndian.PutUint32(b[numberAt:], number)
			}
			receive(packetToCM(rdmatest.Datagram{Src: peer, Dst: own, SrcPort: 1}, b))
			script = script[n:]
		}
		if n := strings.Count(strings.Join(base.Left(), "\n"), "connection manager ID"); n > 2+backlog {
			t.Errorf("%d IDs", n)
		}
	})
}
