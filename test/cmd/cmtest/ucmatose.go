package main

import (
	"context"
	"errors"
	"flag"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/verbs"
)

func matoseFlags(f *flag.FlagSet, s *session) {
	s.endsFlags(f)
	s.portFlag(f)
	s.connectionsFlag(f, 1)
	s.messagesFlags(f)
	s.tosFlag(f)
	f.String("f", "", "`format` of addresses, which are always numbers here")
	f.BoolVar(&s.migrate, "m", false, "move all to another event channel before they end")
	f.IntVar(&s.ackTimeout, "a", -1, "`exponent` of the acknowledgement timeout")
	f.Func("P", "port space, tcp or ib", func(v string) error {
		switch v {
		case "tcp":
			s.portSpace = verbs.PortSpaceTCP
		case "ib":
			s.portSpace = verbs.PortSpaceIB
		default:
			return errors.New("neither tcp nor ib")
		}
		return nil
	})
}

// matose is a run of either side.
type matose struct {
	*session
	channel *channel
	devices devices
	conns   []*conn
	id      *rdmacm.ID // that listens
}

func (m *matose) run(ctx context.Context) (err error) {
	if m.channel, err = openChannel(); err != nil {
		return err
	}
	m.conns = make([]*conn, m.connections)
	side := m.ask
	if m.server == "" {
		side = m.serve
	}
	return errors.Join(side(ctx), m.close())
}

func (m *matose) close() error {
	err := closeAll(m.conns)
	if m.id != nil {
		err = errors.Join(err, m.id.Close())
	}
	return errors.Join(err, m.channel.close(), m.devices.close())
}

// setOptions applies the options to a new ID.
func (m *matose) setOptions(id *rdmacm.ID) error {
	if m.tos >= 0 && m.server != "" {
		if err := id.SetTOS(uint8(m.tos)); err != nil {
			return err
		}
	}
	if m.ackTimeout >= 0 {
		return id.SetAckTimeout(ackTimeout(m.ackTimeout))
	}
	return nil
}

// ackTimeout returns the timeout for an exponent. 0 stands for no timeout.
func ackTimeout(exponent int) time.Duration {
	if exponent == 0 {
		return 0
	}
	return 4096 * time.Nanosecond << exponent
}

func (m *matose) send(ctx context.Context, i int) error {
	return m.conns[i].postSends(m.count, m.size)
}

func (m *matose) sent(ctx context.Context, i int) error {
	return m.conns[i].take(ctx, m.conns[i].qp.SendCQ(), m.count)
}

func (m *matose) receive(ctx context.Context, i int) error {
	return m.conns[i].take(ctx, m.conns[i].qp.RecvCQ(), m.count)
}

// ask runs the client.
func (m *matose) ask(ctx context.Context) error {
	src, dst, err := m.addrs()
	if err != nil {
		return err
	}
	if err := each(ctx, len(m.conns), func(ctx context.Context, i int) error { return m.dial(ctx, i, src, dst) }); err != nil {
		return err
	}
	m.connected(m.conns[0].dev.Info().Name, len(m.conns))
	if err := m.answer(ctx); err != nil {
		return err
	}
	if err := m.move(); err != nil {
		return err
	}
	if err := each(ctx, len(m.conns), m.leave); err != nil {
		return err
	}
	m.say("disconnected")
	return nil
}

// portTries bounds how many source ports of the kernel's choice a connection tries.
const portTries = 16

// dial establishes connection i.
func (m *matose) dial(ctx context.Context, i int, src netip.Addr, dst netip.AddrPort) error {
	for try := 1; ; try++ {
		n, err := m.channel.newConn(m.portSpace, 0)
		if err != nil {
			return err
		}
		m.conns[i] = n
		if err = m.dialOn(ctx, n, src, dst); err == nil || try == portTries || !portTaken(err) {
			return err
		}
		m.conns[i] = nil
		if err := n.close(); err != nil {
			return err
		}
	}
}

func (m *matose) dialOn(ctx context.Context, n *conn, src netip.Addr, dst netip.AddrPort) error {
	if err := m.setOptions(n.id); err != nil {
		return err
	}
	if err := n.resolveAddr(ctx, src, dst, patience); err != nil {
		return err
	}
	if err := n.resolveRoute(ctx, patience); err != nil {
		return err
	}
	if err := n.prepare(&m.devices, m.count, m.size); err != nil {
		return err
	}
	return n.connect(ctx, &rdmacm.ConnParam{ResponderResources: 1, InitiatorDepth: 1, RetryCount: 5})
}

// answer receives the server's messages and sends as many.
func (m *matose) answer(ctx context.Context) error {
	if m.count == 0 {
		return nil
	}
	if err := each(ctx, len(m.conns), m.receive); err != nil {
		return err
	}
	if err := each(ctx, len(m.conns), m.send); err != nil {
		return err
	}
	m.transferred(len(m.conns)*m.count, len(m.conns)*m.count)
	return nil
}

// leave waits for the server to disconnect, and does so too.
func (m *matose) leave(ctx context.Context, i int) error {
	n := m.conns[i]
	if err := during("wait for the server to disconnect", n.await(ctx, rdmacm.EventDisconnected)); err != nil {
		return err
	}
	_ = n.id.Disconnect() // over iWARP the kernel has
	if m.count == 0 {
		return nil
	}
	return n.lastSends()
}

// serve runs the server.
func (m *matose) serve(ctx context.Context) (err error) {
	requests := make(chan *rdmacm.ID, len(m.conns))
	var came atomic.Int64
	m.id, err = m.listen(m.channel, func(ev *rdmacm.Event) {
		if came.Add(1) > int64(len(m.conns)) {
			refuse(ev.ID)
			return
		}
		requests <- ev.ID
	})
	if err != nil {
		return err
	}
	left := newCountdown(len(m.conns))
	if err := each(ctx, len(m.conns), func(ctx context.Context, i int) error { return m.admit(ctx, i, requests, left) }); err != nil {
		return err
	}
	m.connected(m.conns[0].dev.Info().Name, len(m.conns))
	if err := m.speak(ctx); err != nil {
		return err
	}
	if err := m.move(); err != nil {
		return err
	}
	if err := each(ctx, len(m.conns), m.end); err != nil {
		return err
	}
	m.say("disconnected")
	return nil
}

// admit accepts the next request. It returns when no other is due.
func (m *matose) admit(ctx context.Context, i int, requests <-chan *rdmacm.ID, left *countdown) error {
	var id *rdmacm.ID
	select {
	case id = <-requests:
	case <-ctx.Done():
		return ctx.Err()
	}
	n := m.channel.adopt(id)
	m.conns[i] = n
	if err := m.admitOn(ctx, n); err != nil {
		_ = id.Reject(nil)
		return err
	}
	left.down()
	select {
	case <-left.zero:
		return nil
	case ev := <-n.events:
		return outcome(ev, rdmacm.EventTimewaitExit)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (m *matose) admitOn(ctx context.Context, n *conn) error {
	if err := m.setOptions(n.id); err != nil {
		return err
	}
	if err := n.prepare(&m.devices, m.count, m.size); err != nil {
		return err
	}
	return n.accept(ctx, nil)
}

// iwarpPause is the time for the client's kernel to read the server's reply, which must
// not be followed by data at once. iWARP requires the connecting end to send first, which
// the protocol of ucmatose does not do. No event reports that the client is ready.
const iwarpPause = 50 * time.Millisecond

// speak sends all messages and receives as many.
func (m *matose) speak(ctx context.Context) error {
	if m.count == 0 {
		return nil
	}
	if m.conns[0].dev.Info().NodeType == verbs.NodeRNIC {
		select {
		case <-time.After(iwarpPause):
		case <-ctx.Done():
		}
	}
	for _, step := range []func(context.Context, int) error{m.send, m.sent, m.receive} {
		if err := each(ctx, len(m.conns), step); err != nil {
			return err
		}
	}
	m.transferred(len(m.conns)*m.count, len(m.conns)*m.count)
	return nil
}

// end disconnects.
func (m *matose) end(ctx context.Context, i int) error {
	n := m.conns[i]
	if err := n.id.Disconnect(); err != nil {
		return err
	}
	return during("wait for the client to disconnect", n.await(ctx, rdmacm.EventDisconnected))
}

// move moves all IDs to another event channel, where their ends are reported.
func (m *matose) move() error {
	if !m.migrate {
		return nil
	}
	to, err := openChannel()
	if err != nil {
		return err
	}
	from := m.channel
	from.mu.Lock()
	to.request = from.request
	from.mu.Unlock()
	if m.id != nil {
		err = m.id.Migrate(to.EventChannel)
	}
	for _, n := range m.conns {
		to.add(n)
		err = errors.Join(err, n.id.Migrate(to.EventChannel))
		from.remove(n)
		n.channel = to
	}
	m.channel = to
	return errors.Join(err, from.close())
}
