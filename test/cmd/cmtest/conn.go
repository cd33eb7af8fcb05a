package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// conn is one end of a connection: an ID, its queue pair and the objects of the queue pair.
type conn struct {
	channel *channel
	id      *rdmacm.ID
	events  chan *rdmacm.Event
	private []byte // the peer's private data, if the last event had any
	dev     *device
	qp      *uverbs.QP
	mr      *uverbs.MR // a message to receive, then one to send
	made    closers
}

// roomForEvents is more than an ID reports in its life.
const roomForEvents = 16

// newConn returns the active side of a connection, with a queue pair of that type; 0 is the
// type of the port space.
func (c *channel) newConn(ps verbs.PortSpace, typ verbs.QPType) (*conn, error) {
	id, err := c.NewID(ps, typ)
	if err != nil {
		return nil, err
	}
	return c.adopt(id), nil
}

// adopt returns a connection for an existing ID.
func (c *channel) adopt(id *rdmacm.ID) *conn {
	n := &conn{channel: c, id: id, events: make(chan *rdmacm.Event, roomForEvents)}
	c.add(n)
	return n
}

// await waits for the next event, which must be of the given type.
func (n *conn) await(ctx context.Context, want rdmacm.EventType) error {
	select {
	case ev := <-n.events:
		n.private = ev.Param.PrivateData
		return outcome(ev, want)
	case <-ctx.Done():
		return ctx.Err()
	case <-n.channel.stopped:
		return n.channel.err
	}
}

func outcome(ev *rdmacm.Event, want rdmacm.EventType) error {
	switch {
	case ev.Type == want && ev.Err == nil:
		return nil
	case ev.Type == rdmacm.EventDisconnected:
		return rdmacm.ErrDisconnected
	case ev.Err != nil:
		return ev.Err
	}
	return fmt.Errorf("%v came instead of %v", ev.Type, want)
}

// patience is the time for the kernel to resolve an address or a route.
const patience = 2 * time.Second

func (n *conn) resolveAddr(ctx context.Context, src netip.Addr, dst netip.AddrPort, limit time.Duration) error {
	from := netip.AddrPort{}
	if src.IsValid() {
		from = netip.AddrPortFrom(src, 0)
	}
	if err := n.id.ResolveAddr(from, dst, limit); err != nil {
		return err
	}
	return during("resolve "+dst.Addr().String(), n.await(ctx, rdmacm.EventAddrResolved))
}

func (n *conn) resolveRoute(ctx context.Context, limit time.Duration) error {
	if err := n.id.ResolveRoute(limit); err != nil {
		return err
	}
	return during("resolve the route", n.await(ctx, rdmacm.EventRouteResolved))
}

func (n *conn) connect(ctx context.Context, p *rdmacm.ConnParam) error {
	if err := n.id.Connect(ctx, p); err != nil {
		return err
	}
	return during("connect", n.await(ctx, rdmacm.EventEstablished))
}

func (n *conn) accept(ctx context.Context, p *rdmacm.ConnParam) error {
	if err := n.id.Accept(p); err != nil {
		return err
	}
	return during("wait for the peer's confirmation", n.await(ctx, rdmacm.EventEstablished))
}

// during adds the step to an error that an event reported.
func during(step string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%s: %w", step, err)
}

// portTaken adds a hint to the error for a source port that a TCP connection of this host
// still uses. The connection manager does not check for that when it chooses a port.
func portTaken(err error) bool {
	return errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EADDRINUSE)
}

// close frees all. A peer that has not been disconnected from learns of it.
func (n *conn) close() error {
	n.id.DetachQP()
	err := n.made.close()
	if destroyed := n.id.Close(); !errors.Is(destroyed, verbs.ErrClosed) { // a Connect that was cancelled has
		err = errors.Join(err, destroyed)
	}
	n.channel.remove(n)
	return err
}

// makeQP creates the queue pair on the ID's device, with room for count messages in each
// direction.
func (n *conn) makeQP(d *devices, count int, on func() (*uverbs.Endpoint, error)) (err error) {
	if n.dev, err = d.of(n.id); err != nil {
		return err
	}
	end, err := on()
	if err != nil {
		return err
	}
	room := uint32(max(count, 1))
	n.qp, err = end.CreateQP(&uverbs.QPOptions{Cap: verbs.QPCap{MaxSendWR: room, MaxRecvWR: room, MaxSendSGE: 1, MaxRecvSGE: 1}})
	if err != nil {
		return err
	}
	n.made.add(n.qp)
	return n.id.AttachQP(n.qp)
}

// idle returns the endpoint of queue pairs without work.
func (n *conn) idle() (*uverbs.Endpoint, error) { return n.dev.end, nil }

// own creates an endpoint with room for the given numbers of completions.
func (n *conn) own(sends, receives int) (*uverbs.Endpoint, error) {
	end, err := n.dev.CreateEndpoint(&uverbs.EndpointOptions{PD: n.dev.end.PD, SendCQEntries: sends, RecvCQEntries: receives,
		CQ: uverbs.CQOptions{Channel: n.dev.end.SendCQ.Channel()}})
	if err == nil {
		n.made.add(end)
	}
	return end, err
}

// prepare creates the queue pair and posts a receive for each message.
func (n *conn) prepare(d *devices, count, size int) error {
	room := max(count, 1)
	err := n.makeQP(d, count, func() (*uverbs.Endpoint, error) { return n.own(room, room) })
	if err != nil || count == 0 {
		return err
	}
	if n.mr, err = n.dev.end.PD.AllocMR(2*size, verbs.AccessLocalWrite, nil); err != nil {
		return err
	}
	n.made.add(n.mr)
	for range count {
		if _, err := n.qp.PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{n.mr.SGE(0, size)}}}); err != nil {
			return err
		}
	}
	return nil
}

func (n *conn) postSends(count, size int) error {
	for range count {
		wr := verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{n.mr.SGE(size, size)}}
		if _, err := n.qp.PostSend([]verbs.SendWR{wr}); err != nil {
			return err
		}
	}
	return nil
}

// take waits for n completions, and returns an error if one of them failed.
func (n *conn) take(ctx context.Context, cq *uverbs.CQ, count int) error {
	var wcs [8]verbs.WC
	for count > 0 {
		got, err := cq.Wait(ctx, wcs[:min(count, len(wcs))])
		if err != nil {
			return err
		}
		for i := range wcs[:got] {
			if err := wcs[i].Err(); err != nil {
				return n.whyFailed(&wcs[i])
			}
		}
		count -= got
	}
	return nil
}

// whyFailed finds the reason for which a work request was dropped. The event may come a
// little after the completion.
func (n *conn) whyFailed(wc *verbs.WC) error {
	if wc.Status != verbs.StatusWRFlushErr {
		return wc.Err()
	}
	select {
	case ev := <-n.events:
		return outcome(ev, rdmacm.EventTimewaitExit)
	case <-time.After(5 * time.Second):
		return wc.Err()
	}
}

// lastSends handles the sends that the peer may have aborted by disconnecting. A peer
// disconnects when it has received them, possibly before its device has acknowledged
// them.
func (n *conn) lastSends() error {
	var wcs [8]verbs.WC
	for {
		got, err := n.qp.SendCQ().Poll(wcs[:])
		if got == 0 || err != nil {
			return err
		}
		for i := range wcs[:got] {
			if err := wcs[i].Err(); err != nil && wcs[i].Status != verbs.StatusWRFlushErr {
				return err
			}
		}
	}
}

// device is an open device with the objects that its connections share.
type device struct {
	*uverbs.Device
	end *uverbs.Endpoint
}

func (d *device) close() error { return errors.Join(d.end.Close(), d.Device.Close()) }

// devices holds the open devices of the connections.
type devices struct {
	mu   sync.Mutex
	open map[uint32]*device
}

// of returns the device that the connection manager chose for an ID.
func (d *devices) of(id *rdmacm.ID) (*device, error) {
	addr, err := id.QueryAddr()
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if known := d.open[addr.DeviceIndex]; known != nil {
		return known, nil
	}
	dev, err := uverbs.OpenIndex(addr.DeviceIndex, addr.NodeGUID)
	if err != nil {
		return nil, err
	}
	end, err := dev.CreateEndpoint(&uverbs.EndpointOptions{SendCQEntries: 1})
	if err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	opened := &device{dev, end}
	if d.open == nil {
		d.open = make(map[uint32]*device)
	}
	d.open[addr.DeviceIndex] = opened
	return opened, nil
}

func (d *devices) close() (err error) {
	for _, one := range d.open {
		err = errors.Join(err, one.close())
	}
	return err
}
