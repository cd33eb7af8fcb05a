package rdmacm

import (
	"net/netip"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
)

// JoinFlags say how to take part in a multicast group.
//
// C: enum rdma_cm_mc_join_flags
type JoinFlags uint16

// A full member sends and receives, the other kind only sends.
const (
	JoinFullMember JoinFlags = abi.RDMA_MC_JOIN_FLAG_FULLMEMBER
	JoinSendOnly   JoinFlags = abi.RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER
)

// Multicast is an ID's membership in a multicast group. Its methods may be
// called concurrently.
type Multicast struct {
	id     *ID
	uid    uint64 // the kernel's name for us in events
	group  netip.Addr
	flags  JoinFlags
	handle uint32 // our name for the kernel's object; guarded by id.joins
	acked  uint32 // guarded by id.mu

	// Guarded by id.qpMu.
	left     bool
	attached *UDParam // where the ID's queue pair is attached
}

// notSupported is the kernel's own number for it, which joining lets out: user
// space has no name for it.
const notSupported = syscall.Errno(524)

const joinOp = "join multicast group"

var joinHints = map[syscall.Errno]string{
	syscall.EINVAL:     "only a datagram ID with a device joins, after EventAddrResolved or Bind to an address and not after Connect or Listen",
	syscall.ENODEV:     "the network interface with the ID's address has gone",
	syscall.ENOSYS:     "iWARP has no multicast",
	syscall.EOPNOTSUPP: "the kernel has no IPv6 multicast over RoCE v2",
}

// JoinMulticast makes the ID a member of a group, 239.1.2.3 for instance. It
// takes an ID with a device that is not connected, so one that was bound to an
// address, or has resolved the group's. EventMulticastJoin or
// EventMulticastError follows; the former tells with UD how to send to the
// group. A queue pair attached to the ID receives from then on, unless flags say
// JoinSendOnly; without one, attach yours to UD.AH.DGID. An ID may join several
// groups.
//
// C: rdma_join_multicast, rdma_join_multicast_ex
func (id *ID) JoinMulticast(group netip.Addr, flags JoinFlags) (*Multicast, error) {
	body := abi.RdmaUcmJoinMcast{Id: id.handle, JoinFlags: uint16(flags)}
	var err error
	if body.AddrSize, err = putSockaddr(&body.Addr, netip.AddrPortFrom(group, 0)); err != nil {
		return nil, &OpError{Op: joinOp, Object: group.String(), Err: err}
	}
	if !group.IsMulticast() {
		return nil, &OpError{Op: joinOp, Object: group.String(), Err: syscall.EINVAL, Hint: "not a multicast address"}
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
	ch.add(id, m) // before the kernel may report
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

// attach has an attached queue pair receive what the group is sent.
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
