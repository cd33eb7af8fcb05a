package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/conn"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// JoinFlags is the kind of a membership in a multicast group.
//
// C: enum rdma_cm_mc_join_flags
type JoinFlags uint16

// A full member sends and receives. A member that joined with JoinSendOnly only sends.
const (
	JoinFullMember JoinFlags = abi.RDMA_MC_JOIN_FLAG_FULLMEMBER
	JoinSendOnly   JoinFlags = abi.RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER
)

// Multicast is an ID's membership in a multicast group. Its methods may be
// called concurrently.
type Multicast struct {
	id     *ID
	uid    uint64 // identifies the membership in events
	group  netip.Addr
	flags  JoinFlags
	handle uint32 // identifies the membership in commands; guarded by id.joins
	acked  uint32 // guarded by id.mu

	// Guarded by id.qpMu.
	left     bool
	attached *UDParam // where the ID's queue pair is attached
}

// notSupported is the kernel's internal ENOTSUPP. JOIN_MCAST returns it, although user space has no name
// for it.
const notSupported = syscall.Errno(524)

const joinOp = "join multicast group"

var joinHints = map[syscall.Errno]string{
	syscall.EINVAL:     "only a datagram ID with a device can join: after EventAddrResolved or Bind to an address, and before Connect or Listen",
	syscall.ENODEV:     "the network interface with the ID's address has gone",
	syscall.ENOSYS:     "iWARP has no multicast",
	syscall.EOPNOTSUPP: "the kernel has no IPv6 multicast over RoCE v2",
}

// JoinMulticast makes the ID a member of a group, such as 239.1.2.3. The ID must have a device and must
// not be connected. Bind it to an address or resolve the group's address first. EventMulticastJoin or
// EventMulticastError follows. The UD of the former is the destination for datagrams to the group.
//
// A queue pair that is attached to the ID then receives datagrams of the group, unless flags is
// JoinSendOnly. Without an attached queue pair, attach yours to UD.AH.DGID. An ID may join several
// groups.
//
// C: rdma_join_multicast, rdma_join_multicast_ex
func (id *ID) JoinMulticast(group netip.Addr, flags JoinFlags) (*Multicast, error) {
	body := abi.RdmaUcmJoinMcast{Id: id.handle, JoinFlags: uint16(flags)}
	var err error
	if body.AddrSize, err = putSockaddr(&body.Addr, netip.AddrPortFrom(group, 0)); err != nil {
		return nil, &verbs.Error{Op: joinOp, Object: group.String(), Err: err}
	}
	if !group.IsMulticast() {
		return nil, &verbs.Error{Op: joinOp, Object: group.String(), Err: syscall.EINVAL, Hint: "not a multicast address"}
	}
	m := &Multicast{id: id, uid: lastUID.Add(1), group: group, flags: flags}
	if err := m.join(body); err != nil {
		return nil, hinted(joinOp, group, err, joinHints)
	}
	return m, nil
}

func (m *Multicast) join(body abi.RdmaUcmJoinMcast) error {
	id := m.id
	id.joins.Lock()
	defer id.joins.Unlock()
	ch := id.channel()
	ch.add(id, m) // before the kernel may report events
	r := newRequest[abi.RdmaUcmJoinMcast, abi.RdmaUcmCreateIdResp](abi.RDMA_USER_CM_CMD_JOIN_MCAST)
	defer r.free()
	r.body = body
	r.body.Response, r.body.Uid = r.respAddr(), m.uid
	if err := ch.file.Command(r.in(), r.out()); err != nil {
		ch.forget(m)
		if err == notSupported {
			return syscall.EOPNOTSUPP
		}
		return closedError(err)
	}
	m.handle = r.resp.Id
	id.groups = append(id.groups, m)
	return nil
}

// attach attaches the ID's queue pair to the group, if there is one.
func (m *Multicast) attach(to *UDParam) error {
	if m == nil || m.flags == JoinSendOnly {
		return nil
	}
	return m.id.lendQP(func(qp queuePair) error {
		if m.left {
			return nil
		}
		err := qp.AttachMcast(to.AH.DGID, to.AH.DLID)
		if err == nil {
			m.attached = to
		}
		return err
	})
}

func (m *Multicast) detach() error {
	return m.id.lendQP(func(qp queuePair) error {
		to := m.attached
		if to == nil {
			return nil
		}
		err := qp.DetachMcast(to.AH.DGID, to.AH.DLID)
		if err == nil {
			m.attached = nil
		}
		return err
	})
}

// Close ends the membership. Datagrams that are under way may still arrive. Like ID.Close, it waits until
// all events that Get has returned for the membership are acknowledged. A second call returns an error
// that matches net.ErrClosed.
//
// C: rdma_leave_multicast
func (m *Multicast) Close() error {
	if m == nil {
		return closeNil("Multicast")
	}
	const op = "leave multicast group"
	if m.setLeft(true) {
		return &verbs.Error{Op: op, Object: m.group.String(), Err: net.ErrClosed}
	}
	err := m.detach()
	if err == nil {
		err = m.leave()
	}
	if err != nil {
		m.setLeft(false)
	}
	return commandError(op, m.group, err)
}

func (m *Multicast) leave() error {
	ch, reported, err := m.leaveKernel()
	if err != nil {
		return err
	}
	m.id.waitCount(&m.acked, reported)
	ch.forget(m)
	return nil
}

func (m *Multicast) leaveKernel() (ch *EventChannel, reported uint32, err error) {
	id := m.id
	id.joins.Lock()
	defer id.joins.Unlock()
	if id.isDestroyed() { // the handle may belong to another membership by now
		return nil, 0, net.ErrClosed
	}
	ch = id.channel()
	r := newRequest[abi.RdmaUcmDestroyId, abi.RdmaUcmDestroyIdResp](abi.RDMA_USER_CM_CMD_LEAVE_MCAST)
	defer r.free()
	r.body.Response, r.body.Id = r.respAddr(), m.handle
	if err := ch.file.Command(r.in(), r.out()); err != nil {
		return nil, 0, closedError(err)
	}
	id.groups = slices.DeleteFunc(id.groups, func(other *Multicast) bool { return other == m })
	return ch, r.resp.EventsReported, nil
}

func (m *Multicast) setLeft(left bool) (before bool) {
	m.id.qpMu.Lock()
	defer m.id.qpMu.Unlock()
	before, m.left = m.left, left
	return before
}

// Group is a multicast group that a datagram Conn has joined. The Peer is the destination for datagrams to
// all members. The Group owns its AH.
type Group struct {
	Peer
	Addr netip.Addr

	conn   *Conn // the Conn that has joined
	member *Conn // owns the ID of the membership
}

// JoinMulticast joins a group, such as 239.1.2.3, through c's device. c's queue pair then receives the
// datagrams of the group, including its own, unless flags is JoinSendOnly. A Conn may join any number of
// groups. Group.Close leaves one, and Conn.Close leaves all.
//
// On RoCE v2 the kernel supports only IPv4 groups. For others the error matches verbs.ErrNotSupported.
//
// C: rdma_join_multicast_ex
func (c *Conn) JoinMulticast(ctx context.Context, group netip.Addr, flags JoinFlags) (*Group, error) {
	s, err := c.sibling(joinOp, group.String())
	if err != nil {
		return nil, err
	}
	g := &Group{Addr: group, conn: c, member: s}
	if err := g.join(ctx, flags); err != nil {
		return nil, s.abandon(ctx, err)
	}
	return g, nil
}

func (g *Group) join(ctx context.Context, flags JoinFlags) error {
	s := g.member
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
	if _, ok := err.(*verbs.Error); ok {
		return err
	}
	if err != nil {
		return hinted(joinOp, g.Addr, err, joinHints)
	}
	return g.conn.addGroup(g, ev, flags)
}

// addGroup attaches the queue pair to the group. Close waits meanwhile, and then leaves the group.
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
	g.member.link.Add(peer.AH)
	if flags != JoinSendOnly {
		gid, lid := ev.UD.AH.DGID, ev.UD.AH.DLID
		if err := c.qp.AttachMcast(gid, lid); err != nil {
			return err
		}
		g.member.link.Add(conn.Freeing(func() error { return c.qp.DetachMcast(gid, lid) }))
	}
	c.groups = append(c.groups, g)
	return nil
}

// Close ends the membership and closes the Peer's AH. Work requests that use the AH must have completed.
// Datagrams that are under way may still arrive. A second call returns an error that matches
// net.ErrClosed.
//
// C: rdma_leave_multicast
func (g *Group) Close() error {
	if g == nil {
		return closeNil("Group")
	}
	g.conn.closing.Lock()
	defer g.conn.closing.Unlock()
	return g.leave()
}

func (g *Group) leave() error {
	err := g.member.Close()
	if err == nil {
		g.conn.groups = slices.DeleteFunc(g.conn.groups, func(other *Group) bool { return other == g })
	}
	return err
}

// leaveAll leaves all groups. The caller holds closing.
func (c *Conn) leaveAll() error {
	var errs []error
	for _, g := range slices.Clone(c.groups) {
		errs = append(errs, g.leave())
	}
	return errors.Join(errs...)
}

// onDevice adds the device and its driver to an error that matches verbs.ErrNotSupported.
func onDevice(err error, d uverbs.DeviceInfo) error {
	if e, ok := err.(*verbs.Error); ok && errors.Is(e, verbs.ErrNotSupported) {
		e.Device, e.Driver = d.Name, d.Driver.String()
	}
	return err
}

// Format implements [fmt.Formatter]. It prints the group.
func (m *Multicast) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "membership of %v", m.group) }

// Format implements [fmt.Formatter]. It prints the group.
func (g *Group) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "membership of %v", g.Addr) }
