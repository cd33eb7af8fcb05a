package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Group is a multicast group that a datagram Conn has joined. The Peer is for
// sending to all its members; the Group owns its AH.
type Group struct {
	Peer
	Addr netip.Addr

	conn *Conn // that has joined
	side *Conn // the ID for it
}

// JoinMulticast joins a group, 239.1.2.3 for instance, through c's device. c's
// queue pair receives what is sent to it, its own messages included, unless flags
// say JoinSendOnly. Any number of groups may be joined; Leave ends one, Close all.
//
// On RoCE v2 the kernel knows IPv4 groups only: others match
// verbs.ErrNotSupported.
//
// C: rdma_join_multicast_ex
func (c *Conn) JoinMulticast(ctx context.Context, group netip.Addr, flags JoinFlags) (*Group, error) {
	s, err := c.side(joinOp, group.String())
	if err != nil {
		return nil, err
	}
	g := &Group{Addr: group, conn: c, side: s}
	if err := g.join(ctx, flags); err != nil {
		return nil, s.abandon(ctx, err)
	}
	return g, nil
}

func (g *Group) join(ctx context.Context, flags JoinFlags) error {
	s := g.side
	if err := s.bind(g.conn.local.Addr()); err != nil {
		return err
	}
	if err := s.sameDevice(g.conn); err != nil {
		return err
	}
	if _, err := s.id.JoinMulticast(g.Addr, flags); err != nil {
		return onDevice(err, g.conn.Device().Info())
	}
	ev, err := s.await(ctx, EventMulticastJoin)
	if _, ok := err.(*OpError); ok {
		return err
	}
	if err != nil {
		return hinted(joinOp, g.Addr, err, joinHints)
	}
	return g.conn.addGroup(g, ev, flags)
}

// addGroup has the queue pair take part. Close waits meanwhile, and then knows of
// the group.
func (c *Conn) addGroup(g *Group, ev *Event, flags JoinFlags) error {
	c.closing.Lock()
	defer c.closing.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	peer, err := newPeer(c.pd, ev)
	if err != nil {
		return err
	}
	g.Peer = *peer
	g.side.link.add(peer.AH)
	if flags != JoinSendOnly {
		gid, lid := ev.UD.AH.DGID, ev.UD.AH.DLID
		if err := c.qp.AttachMcast(gid, lid); err != nil {
			return err
		}
		g.side.link.add(freeing(func() error { return c.qp.DetachMcast(gid, lid) }))
	}
	c.groups = append(c.groups, g)
	return nil
}

// Leave ends the membership and closes the Peer's AH: work requests that use it
// must have completed. Datagrams on their way may still arrive. A second call returns an
// error that matches net.ErrClosed.
//
// C: rdma_leave_multicast
func (g *Group) Leave() error {
	if g == nil {
		return closeNil("Group")
	}
	g.conn.closing.Lock()
	defer g.conn.closing.Unlock()
	return g.leave()
}

func (g *Group) leave() error {
	err := g.side.Close()
	if err == nil {
		g.conn.groups = slices.DeleteFunc(g.conn.groups, func(other *Group) bool { return other == g })
	}
	return err
}

// leaveAll is for Close, which holds closing.
func (c *Conn) leaveAll() error {
	var errs []error
	for _, g := range slices.Clone(c.groups) {
		errs = append(errs, g.leave())
	}
	return errors.Join(errs...)
}

// onDevice names the device, and its driver, in the error of what it does not support.
func onDevice(err error, d uverbs.DeviceInfo) error {
	if e, ok := err.(*OpError); ok && errors.Is(e, verbs.ErrNotSupported) {
		e.Object += fmt.Sprintf(" on %s (%v)", d.Name, d.Driver)
	}
	return err
}
