package cm

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
)

// measure is the client.
func (m *timing) measure(ctx context.Context) error {
	src, err := m.source(ctx)
	if err != nil {
		return err
	}
	dst, err := m.destination(ctx)
	if err != nil {
		return err
	}
	m.conns = make([]*conn, m.connections)
	for _, s := range m.steps(src, dst) {
		if err := m.take(ctx, s); err != nil {
			return errors.Join(err, closeAll(m.conns))
		}
	}
	m.report.Device, m.report.Connections = m.conns[0].dev.Info().Name, len(m.conns)
	return m.table()
}

// action is the operation of a step on connection i.
type action struct {
	name string
	do   func(ctx context.Context, i int) error
}

func (m *timing) steps(src netip.Addr, dst netip.AddrPort) []action {
	limit := time.Duration(m.limit) * time.Millisecond
	param := &rdmacm.ConnParam{ResponderResources: 1, InitiatorDepth: 1, RetryCount: m.retries}
	if m.retries == 0 {
		param.RetryCount = -1
	}
	all := []action{{"create id", func(_ context.Context, i int) (err error) {
		m.conns[i], err = m.channel.newConn(m.portSpace, m.qpType)
		return err
	}}}
	if src.IsValid() {
		all = append(all, action{"bind addr", func(_ context.Context, i int) error { return m.conns[i].id.Bind(netip.AddrPortFrom(src, 0)) }})
	}
	return append(all, []action{
		{"resolve addr", func(ctx context.Context, i int) error {
			return m.again(ctx, func() error { return m.conns[i].resolveAddr(ctx, src, dst, limit) })
		}},
		{"resolve route", func(ctx context.Context, i int) error {
			return m.again(ctx, func() error { return m.conns[i].resolveRoute(ctx, limit) })
		}},
		{"create qp", func(_ context.Context, i int) error { return m.conns[i].makeQP(&m.devices, 1, m.conns[i].idleCQs) }},
		{"connect", func(ctx context.Context, i int) error { return m.conns[i].connect(ctx, param) }},
		{"disconnect", func(ctx context.Context, i int) error { return m.conns[i].part(ctx) }},
		{"destroy", func(_ context.Context, i int) error { return m.conns[i].id.Destroy() }},
	}...)
}

// take takes a step with all connections.
func (m *timing) take(ctx context.Context, a action) error {
	took := make([]time.Duration, len(m.conns))
	start := time.Now()
	err := each(ctx, len(m.conns), func(ctx context.Context, i int) error {
		from := time.Now()
		err := a.do(ctx, i)
		took[i] = time.Since(from)
		return err
	})
	m.report.Steps = append(m.report.Steps, newStep(a.name, time.Since(start), took))
	return err
}

// again retries a failed operation as often as -r requests.
func (m *timing) again(ctx context.Context, do func() error) (err error) {
	for try := 0; try <= m.retries; try++ {
		if err = do(); err == nil || ctx.Err() != nil {
			break
		}
	}
	return err
}

// part disconnects, waits until the peer has too, and closes the queue pair.
func (n *conn) part(ctx context.Context) error {
	if err := n.id.Disconnect(); err != nil {
		return err
	}
	if err := n.await(ctx, rdmacm.EventDisconnected); err != nil {
		return err
	}
	n.id.DetachQP()
	return n.made.close()
}
