package cm

import (
	"context"
	"errors"
	"math"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/verbs"
)

var cmtime = &Program{
	Name: "cmtime", Args: "[OPTIONS]",
	Summary: "measure how long each step of making connections takes; the other end may be cmtime up to rdma-core 51",
	text: `
The client completes each step for all connections before the next step. It prints
the time of the step for all connections, for the slowest and for the fastest, and the
total divided by the number of connections. All queue pairs share a completion queue.
The server accepts until it is interrupted.

---

This does not interoperate with cmtime of rdma-core 52 and later, which coordinates
each step over TCP.
`,
	table: cli.Options(serverRow, bindRow, connectionsRow("how many (default 100)"), portRow("where the server listens (default 7471)"),
		cli.NewRow('r', "retries", "N", "of finding the address and the route, and of each message (default 2)", cli.Number("number of retries", 0, 7, func(o *options) *int { return &o.retries })),
		cli.NewRow('t', "timeout", "MS", "to wait for an address or a route (default 2000)", cli.Number("timeout", 1, math.MaxInt32, func(o *options) *int { return &o.limit })),
		jsonRow),
	defaults: options{port: 7471, portSpace: verbs.PortSpaceTCP, connections: 100, retries: 2, limit: 2000},
	run:      func(ctx context.Context, s *session) error { return (&timing{session: s}).run(ctx) },
}

// timing is a run of either side.
type timing struct {
	*session
	channel *channel
	devices devices
	conns   []*conn // the client's
}

func (m *timing) run(ctx context.Context) (err error) {
	if m.channel, err = openChannel(); err != nil {
		return err
	}
	side := m.measure
	if m.server == "" {
		side = m.serve
	}
	return errors.Join(side(ctx), m.channel.close(), m.devices.close())
}

// step is how long a step took.
type step struct {
	Name  string  `json:"name"`
	Total float64 `json:"total_msec"` // from the first one's beginning to the last one's end
	Max   float64 `json:"max_msec"`
	Min   float64 `json:"min_usec"`
	Each  float64 `json:"usec_per_connection"`
}

func newStep(name string, total time.Duration, each []time.Duration) step {
	s := step{Name: name, Total: msec(total), Min: math.Inf(1), Each: usec(total) / float64(len(each))}
	for _, took := range each {
		s.Max, s.Min = max(s.Max, msec(took)), min(s.Min, usec(took))
	}
	return s
}

func usec(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
func msec(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// table prints the steps.
func (m *timing) table() error {
	if m.JSON {
		return nil
	}
	err := m.Printf("%-14s %12s %12s %12s %12s\n", "step", "total ms", "max ms", "min µs", "µs/conn")
	for _, s := range m.report.Steps {
		if err == nil {
			err = m.Printf("%-14s %12.2f %12.2f %12.2f %12.2f\n", s.Name, s.Total, s.Max, s.Min, s.Each)
		}
	}
	return err
}

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

// serve accepts connections concurrently until ctx ends. A connection that fails does
// not end the others.
func (m *timing) serve(ctx context.Context) error {
	var peers sync.WaitGroup
	var served atomic.Int64
	ids, err := m.listen(ctx, m.channel, func(ev *rdmacm.Event) {
		peers.Go(func() {
			if err := m.serveOne(ctx, ev.ID); err == nil {
				served.Add(1)
			} else if ctx.Err() == nil {
				m.Note("%s", cli.PlainLine(err))
			}
		})
	})
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-m.channel.stopped:
		err = m.channel.err
	}
	err = errors.Join(err, destroy(ids))
	peers.Wait()
	m.report.Connections = int(served.Load())
	return errors.Join(err, m.say("%s served", plural(m.report.Connections, "connection")))
}

// serveOne has one connection until the client ends it.
func (m *timing) serveOne(ctx context.Context, id *rdmacm.ID) error {
	n := m.channel.adopt(id)
	err := n.makeQP(&m.devices, 1, n.idleCQs)
	if err == nil {
		err = n.accept(ctx, nil)
	}
	if err == nil {
		err = n.await(ctx, rdmacm.EventDisconnected)
		_ = id.Disconnect() // over iWARP the kernel has
	} else {
		_ = id.Reject(nil)
	}
	return errors.Join(err, n.close())
}
