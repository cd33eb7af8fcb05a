package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/verbs"
)

// connections sets up and ends a connection with the single calls of rdma_cm.
func connections(l *lab) {
	s, c := l.program("server", 1), l.program("client", 0)

	listener := s.newID()
	check(listener.Bind(netip.AddrPortFrom(s.addr, 0)))
	local := must(listener.QueryAddr())
	s.did("Bind", "it has a device: %v, and a port: %v", local.Port != 0, local.Local.Port() != 0)
	check(listener.Listen(8))
	s.did("Listen", "nothing leaves the host")

	id := c.newID()
	check(id.ResolveAddr(netip.AddrPortFrom(c.addr, 0), local.Local, time.Minute))
	c.did("ResolveAddr", "returns at once")
	c.event()
	check(id.ResolveRoute(time.Minute))
	c.did("ResolveRoute", "returns at once")
	c.event()
	a := c.queuePair(id)
	c.did("AttachQP", "no peer knows of it yet; the queue pair is in %v", a.state())
	check(id.Connect(background, &rdmacm.ConnParam{PrivateData: []byte("I am the client"), InitiatorDepth: 2, ResponderResources: 3}))
	c.did("Connect", "REQ leaves; the queue pair is in %v", a.state())

	request := s.event()
	child, wants := request.ID, request.Param
	s.did("", "a second ID: %v; of the listener: %v", child != listener, request.Listener == listener)
	s.did("", "private data %q; the peer issues up to %d READs at a time, and serves up to %d",
		strings.TrimRight(string(wants.PrivateData), "\x00"), wants.ResponderResources, wants.InitiatorDepth)
	b := s.queuePair(child)
	s.did("AttachQP", "the queue pair is in %v", b.state())
	b.receive(1, b.memory(pageSize, verbs.AccessLocalWrite).SGE(0, 64))
	check(child.Accept(&rdmacm.ConnParam{PrivateData: []byte("I am the server")}))
	s.did("Accept", "REP leaves; the queue pair is in %v", b.state())
	s.did("", "has it an event? %s", s.quiet())
	c.did("", "nobody has read the event yet: the queue pair is in %v", a.state())
	c.event()
	c.did("", "RTU leaves; the queue pair is in %v", a.state())
	s.event()

	succeed(a.do(verbs.SendWR{Opcode: verbs.OpSend, Inline: []byte("hello")}))
	l.say("a message: %v", wait(b.recvCQ).Status)

	check(id.Disconnect())
	c.did("Disconnect", "DREQ leaves; the queue pair is in %v", a.state())
	ended := must(s.ch.Get(background))
	s.did("Get", "%v; the queue pair is in %v", ended.Type, b.state())
	check(child.Disconnect())
	s.did("Disconnect", "DREP leaves")
	c.event()

	gone := make(chan error)
	go func() { gone <- child.Close() }()
	select {
	case <-gone:
		s.did("Close", "has returned")
	case <-time.After(20 * time.Millisecond):
		s.did("Close", "waits, because an event is not acknowledged")
	}
	ended.Ack()
	s.did("Ack", "Close: %s", result(<-gone))
	c.event() // after half a second
	check(id.Close())

	// A request that the server's program rejects, and one to a port without a listener.
	for _, to := range []netip.AddrPort{local.Local, netip.AddrPortFrom(local.Local.Addr(), 9)} {
		id := c.reach(to)
		if to == local.Local {
			ev := s.event()
			check(ev.ID.Reject([]byte("no room")))
			check(ev.ID.Close())
		}
		ev := c.event()
		var no *rdmacm.RejectedError
		if errors.As(ev.Err, &no) {
			c.did("", "REJ, reason %d, %q: %v", no.Reason, strings.TrimRight(string(no.PrivateData), "\x00"), no.Reason)
		}
		check(id.Close())
	}
	check(listener.Close())
}

// program is one side of a connection: an event channel, on one host.
type program struct {
	lab  *lab
	name string
	host int
	addr netip.Addr
	ch   *rdmacm.EventChannel
}

func (l *lab) program(name string, host int) *program {
	addr := netip.MustParseAddr(l.host(rdmatest.RXE, host).addr)
	return &program{l, name, host, addr, closing(l, must(rdmacm.NewEventChannelFor(addr)))}
}

func (p *program) newID() *rdmacm.ID { return must(p.ch.NewID(verbs.PortSpaceTCP, verbs.QPTypeRC)) }

// did prints the effect of a call.
func (p *program) did(call, format string, args ...any) {
	p.lab.say("%s  %-13s %s", p.name, call, fmt.Sprintf(format, args...))
}

// event reads the next event, prints it and acknowledges it.
func (p *program) event() *rdmacm.Event {
	ev := must(p.ch.Get(background))
	p.did("Get, Ack", "%v", ev.Type)
	ev.Ack()
	return ev
}

// quiet waits a short time for an event that should not arrive.
func (p *program) quiet() string {
	return noEvent(func(ctx context.Context) error {
		_, err := p.ch.Get(ctx)
		return err
	})
}

// queuePair creates a queue pair whose state the ID changes.
func (p *program) queuePair(id *rdmacm.ID) *end {
	e := p.lab.inReset(p.lab.host(rdmatest.RXE, p.host), verbs.QPTypeRC)
	check(id.AttachQP(e.qp))
	return e
}

// reach prepares an ID for Connect.
func (p *program) reach(to netip.AddrPort) *rdmacm.ID {
	id := p.newID()
	check(id.ResolveAddr(netip.AddrPortFrom(p.addr, 0), to, time.Minute))
	must(p.ch.Get(background)).Ack()
	check(id.ResolveRoute(time.Minute))
	must(p.ch.Get(background)).Ack()
	p.queuePair(id)
	check(id.Connect(background, nil))
	return id
}
