//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// lowClient sets up connections as cmtime does: all connections complete a step before the next step
// begins.
type lowClient struct {
	addr    netip.AddrPort
	channel *rdmacm.EventChannel
	pairs   lowPairs
	ids     []*rdmacm.ID
	qps     []*uverbs.QP
	done    chan error // receives a value for each event
}

const lowTimeout = 2 * time.Second

// low prints the figures of cmtime, and the rates that follow from them.
func low(n int, text string) error {
	c := &lowClient{ids: make([]*rdmacm.ID, n), qps: make([]*uverbs.QP, n), done: make(chan error, n)}
	var err error
	if c.addr, err = address(text); err != nil {
		return err
	}
	if c.channel, err = rdmacm.NewEventChannel(); err != nil {
		return err
	}
	go c.events()
	connect, err := c.steps(c.connecting())
	if err != nil {
		return err
	}
	disconnect, err := c.steps(c.disconnecting())
	if err != nil {
		return err
	}
	params := fmt.Sprintf("all at once, %d connections", n)
	return errors.Join(
		report("connect rate", params, "connections/s", float64(n)/connect.Seconds()),
		report("disconnect rate", params, "connections/s", float64(n)/disconnect.Seconds()),
		c.pairs.close(), c.channel.Close(), noneLeft())
}

// A lowStep is a step that is run for each connection. If the step has answers, it ends when all of them
// have arrived.
type lowStep struct {
	name     string
	take     func(i int) error
	answered bool
}

func (c *lowClient) connecting() []lowStep {
	src := netip.AddrPortFrom(c.addr.Addr(), 0)
	param := &rdmacm.ConnParam{ResponderResources: 1, InitiatorDepth: 1, RetryCount: 2, RNRRetryCount: -1}
	return []lowStep{
		{"create id", func(i int) (err error) { c.ids[i], err = c.channel.NewID(verbs.PortSpaceTCP, 0); return err }, false},
		{"bind addr", func(i int) error { return c.ids[i].Bind(src) }, false},
		{"resolve addr", func(i int) error { return c.ids[i].ResolveAddr(src, c.addr, lowTimeout) }, true},
		{"resolve route", func(i int) error { return c.ids[i].ResolveRoute(lowTimeout) }, true},
		{"create qp", func(i int) (err error) { c.qps[i], err = c.pairs.attach(c.ids[i]); return err }, false},
		{"connect", func(i int) error { return c.ids[i].Connect(context.Background(), param) }, true},
	}
}

func (c *lowClient) disconnecting() []lowStep {
	return []lowStep{
		{"disconnect", func(i int) error { return errors.Join(c.ids[i].Disconnect(), release(c.ids[i], c.qps[i])) }, true},
		{"destroy", func(i int) error { return c.ids[i].Destroy() }, false},
	}
}

func (c *lowClient) steps(steps []lowStep) (all time.Duration, _ error) {
	for _, s := range steps {
		start := time.Now()
		if err := c.takeAll(s); err != nil {
			return 0, fmt.Errorf("%s: %w", s.name, err)
		}
		took := time.Since(start)
		all += took
		params := fmt.Sprintf("%s, all at once, %d connections", s.name, len(c.ids))
		if err := report("connect step", params, "µs/connection", took.Seconds()*1e6/float64(len(c.ids))); err != nil {
			return 0, err
		}
	}
	return all, nil
}

func (c *lowClient) takeAll(s lowStep) error {
	for i := range c.ids {
		if err := s.take(i); err != nil {
			return err
		}
	}
	for range c.ids {
		if !s.answered {
			break
		}
		if err := <-c.done; err != nil {
			return err
		}
	}
	return nil
}

func (c *lowClient) events() {
	for {
		ev, err := c.channel.Get(context.Background())
		if err != nil {
			c.done <- ignore(err, net.ErrClosed)
			return
		}
		switch ev.Type {
		case rdmacm.EventAddrResolved, rdmacm.EventRouteResolved, rdmacm.EventEstablished, rdmacm.EventDisconnected:
			c.done <- ev.Err
		case rdmacm.EventTimewaitExit:
		default:
			c.done <- fmt.Errorf("%v: %w", ev.Type, ev.Err)
		}
		ev.Ack()
	}
}
