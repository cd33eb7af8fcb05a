package cm

import (
	"context"
	"net/netip"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
)

// ask is the client.
func (m *matose) ask(ctx context.Context) error {
	src, err := m.source(ctx)
	if err != nil {
		return err
	}
	dst, err := m.destination(ctx)
	if err != nil {
		return err
	}
	if err := each(ctx, len(m.conns), func(ctx context.Context, i int) error { return m.dial(ctx, i, src, dst) }); err != nil {
		return err
	}
	if err := m.stand(); err != nil {
		return err
	}
	if err := m.answer(ctx); err != nil {
		return err
	}
	if err := m.move(); err != nil {
		return err
	}
	if err := each(ctx, len(m.conns), m.leave); err != nil {
		return err
	}
	return m.say("disconnected")
}

// portTries bounds how many source ports of the kernel's choice a connection tries.
const portTries = 16

// dial establishes connection i.
func (m *matose) dial(ctx context.Context, i int, src netip.Addr, dst netip.AddrPort) error {
	for try := 1; ; try++ {
		n, err := m.channel.newConn(m.portSpace, m.qpType)
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
	start := time.Now()
	if err := each(ctx, len(m.conns), m.receive); err != nil {
		return err
	}
	if err := each(ctx, len(m.conns), m.send); err != nil {
		return err
	}
	return m.counted(start)
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
