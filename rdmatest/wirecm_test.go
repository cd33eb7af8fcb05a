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
	"github.com/goverbs/goverbs/verbs"
)

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
	d := rdmacm.Dialer{Config: rdmacm.Config{PrivateData: []byte("hello")}}
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

// A connection between two fabrics carries data both ways, and one end learns that the other has ended it.
func TestWireConnect(t *testing.T) {
	overWire(t, func(t *testing.T, fabrics [2]*rdmatest.Fabric, _ *cable) {
		dialled, accepted := meetOverWire(t, fabrics)
		if !bytes.HasPrefix(accepted.PrivateData(), []byte("hello\x00")) || !bytes.HasPrefix(dialled.PrivateData(), []byte("welcome\x00")) {
			t.Errorf("private data: %q, %q", accepted.PrivateData(), dialled.PrivateData())
		}
		if a, b := dialled.LocalAddr(), accepted.RemoteAddr(); a != b {
			t.Errorf("the peer has the address %v, want %v", b, a)
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
			lost := 0
			c.loses = func(d rdmatest.Datagram) bool {
				msg, ok := isMAD(d)
				if ok && msg.Kind == kind && lost == 0 {
					lost++
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
			if lost != 1 {
				t.Errorf("message %#x: %d were lost", kind, lost)
			}
		})
	}
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

// A dial to an address that nobody has ends when its program gives up, and otherwise after Linux's retries.
func TestWireNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fabrics, _ := lay(t, rdmatest.RXE, 0)
		ctx, cancel := context.WithTimeout(fabrics[0].Host(0).Context(t.Context()), time.Minute)
		defer cancel()
		if _, err := rdmacm.Dial(ctx, "203.0.113.7:7471"); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if _, err := rdmacm.Dial(fabrics[0].Host(0).Context(t.Context()), "203.0.113.7:7471"); !errors.Is(err, syscall.ETIMEDOUT) {
			t.Error(err)
		}
	})
}

// A peer that gives up before it is answered is gone for the server's program.
func TestWireAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fabrics, _ := lay(t, rdmatest.RXE, 0)
		l := closed(t, must(rdmacm.Listen(t.Context(), fabrics[1].Host(0).Addr()+":0"))(t))
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
				fabrics, _ := lay(t, k, 0)
				datagramService(t, fabrics[0].Host(0), fabrics[1].Host(0), 4)
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
		_, accepted := meetOverWire(t, fabrics)
		rtu, _ := isMAD(genuine[0])
		send := func(src netip.Addr, change func(*ibcm.Message)) {
			msg := rtu
			msg.Kind, msg.Private = ibcm.REJ, nil
			change(&msg)
			d := genuine[0]
			d.Src = src
			c.to[d.Dst](packetToCM(d, msg.Marshal()))
		}
		peer := genuine[0].Src
		send(netip.MustParseAddr("203.0.113.7"), func(*ibcm.Message) {})
		send(peer, func(m *ibcm.Message) { m.LocalID++ })
		send(peer, func(m *ibcm.Message) { m.RemoteID++ })
		send(peer, func(m *ibcm.Message) { m.Kind, m.QPN = ibcm.DREQ, accepted.QP().QPN()+1 })
		select {
		case <-accepted.Done():
			t.Error("a forged message ended the connection")
		case <-time.After(time.Second):
		}
		send(peer, func(m *ibcm.Message) { m.Kind, m.QPN = ibcm.DREQ, accepted.QP().QPN() })
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
	receive := base.ConnectWire(func(d rdmatest.Datagram) {
		if msg, ok := isMAD(d); ok && msg.Kind == ibcm.REQ {
			number = msg.LocalID
		}
	})
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
		for _, err := range []error{l.Bind(netip.AddrPortFrom(own, 7471)), l.Listen(backlog), id.ResolveAddr(netip.AddrPortFrom(own, 0), netip.AddrPortFrom(peer, 1), time.Minute),
			id.ResolveRoute(time.Minute), id.Connect(t.Context(), &rdmacm.ConnParam{})} {
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
