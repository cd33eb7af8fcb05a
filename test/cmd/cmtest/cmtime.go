package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
)

func cmtimeFlags(f *flag.FlagSet, s *session) {
	s.endsFlags(f)
	s.portFlag(f)
	s.connectionsFlag(f, 100)
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

// measure runs the client.
func (m *timing) measure(ctx context.Context) error {
	src, dst, err := m.addrs()
	if err != nil {
		return err
	}
	m.conns = make([]*conn, m.connections)
	fmt.Printf("%-14s %12s\n", "step", "total ms")
	for _, s := range m.steps(src, dst) {
		start := time.Now()
		if err := each(ctx, len(m.conns), s.do); err != nil {
			return errors.Join(err, closeAll(m.conns))
		}
		fmt.Printf("%-14s %12.2f\n", s.name, time.Since(start).Seconds()*1000)
	}
	return nil
}

// action is the operation of a step on connection i.
type action struct {
	name string
	do   func(ctx context.Context, i int) error
}

func (m *timing) steps(src netip.Addr, dst netip.AddrPort) []action {
	param := &rdmacm.ConnParam{ResponderResources: 1, InitiatorDepth: 1, RetryCount: retries}
	all := []action{{"create id", func(_ context.Context, i int) (err error) {
		m.conns[i], err = m.channel.newConn(m.portSpace, 0)
		return err
	}}}
	if src.IsValid() {
		all = append(all, action{"bind addr", func(_ context.Context, i int) error { return m.conns[i].id.Bind(netip.AddrPortFrom(src, 0)) }})
	}
	return append(all, []action{
		{"resolve addr", func(ctx context.Context, i int) error {
			return again(ctx, func() error { return m.conns[i].resolveAddr(ctx, src, dst, patience) })
		}},
		{"resolve route", func(ctx context.Context, i int) error {
			return again(ctx, func() error { return m.conns[i].resolveRoute(ctx, patience) })
		}},
		{"create qp", func(_ context.Context, i int) error { return m.conns[i].makeQP(&m.devices, 1, m.conns[i].idle) }},
		{"connect", func(ctx context.Context, i int) error { return m.conns[i].connect(ctx, param) }},
		{"disconnect", func(ctx context.Context, i int) error { return m.conns[i].disconnect(ctx) }},
		{"destroy", func(_ context.Context, i int) error { return m.conns[i].id.Close() }},
	}...)
}

// retries is how often cmtime resolves an address or a route again, as in C.
const retries = 2

func again(ctx context.Context, do func() error) (err error) {
	for try := 0; try <= retries; try++ {
		if err = do(); err == nil || ctx.Err() != nil {
			break
		}
	}
	return err
}

// disconnect disconnects, waits until the peer has too, and closes the queue pair.
func (n *conn) disconnect(ctx context.Context) error {
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
	id, err := m.listen(m.channel, func(ev *rdmacm.Event) {
		peers.Go(func() {
			if err := m.serveOne(ctx, ev.ID); err == nil {
				served.Add(1)
			} else if ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, "cmtest:", err)
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
	err = errors.Join(err, id.Close())
	peers.Wait()
	m.say("%d connections served", served.Load())
	return err
}

// serveOne keeps a connection until the client ends it.
func (m *timing) serveOne(ctx context.Context, id *rdmacm.ID) error {
	n := m.channel.adopt(id)
	err := n.makeQP(&m.devices, 1, n.idle)
	if err == nil {
		err = n.accept(ctx, nil)
	}
	if err == nil {
		err = n.await(ctx, rdmacm.EventDisconnected)
		_ = id.Disconnect() // on iWARP the kernel has disconnected already
	} else {
		_ = id.Reject(nil)
	}
	return errors.Join(err, n.close())
}
