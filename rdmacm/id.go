package rdmacm

import (
	"fmt"
	"math"
	"net"
	"slices"
	"sync"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

// transport is learned from the kernel: see AttachQP.
type transport int

const (
	transportUnknown transport = iota
	transportIB                // InfiniBand and RoCE
	transportIWARP
)

// ID is one end of a connection, or a listener; an RDMA socket, so to speak.
// All methods may be called concurrently, but the kernel accepts each only in
// the state for it and answers EINVAL else.
//
// C: struct rdma_cm_id
type ID struct {
	ch       *EventChannel
	uid      uint64 // the kernel's name for us in events
	handle   uint32 // our name for the kernel's object
	ps       verbs.PortSpace
	datagram bool

	// joins is held while the kernel is told to join or leave a group, to
	// migrate or to destroy; taken before mu.
	joins  sync.Mutex
	groups []*Multicast

	pending pending // what a hub has for it

	qpMu    sync.Mutex // held while qp is being moved; taken before mu
	flushed bool       // qp is in the error state; guarded by qpMu

	mu        sync.Mutex
	settled   sync.Cond // acked, or that of a membership, changed
	acked     uint32
	destroyed bool
	transport transport
	qp        queuePair
	limits    connLimits
	to        sink // of Dial, Listen or Accept, which takes the events
	failed    bool // set-up failed after the peer's answer: mute what follows
}

// NewID makes an ID. qpType is RC or UD; zero stands for the port space's own,
// which is RC for PortSpaceIB. See the package comment on network namespaces.
//
// C: rdma_create_id
func (c *EventChannel) NewID(ps verbs.PortSpace, qpType verbs.QPType) (*ID, error) {
	if qpType == 0 {
		qpType = verbs.QPTypeRC
		if ps == verbs.PortSpaceUDP || ps == verbs.PortSpaceIPoIB {
			qpType = verbs.QPTypeUD
		}
	}
	if ps > math.MaxUint16 { // the kernel would see another one
		return nil, commandError("create ID", nil, syscall.EINVAL)
	}
	id := c.newID(ps, qpType == verbs.QPTypeUD)
	c.add(id)
	r := newRequest[abi.RdmaUcmCreateId, abi.RdmaUcmCreateIdResp](abi.RDMA_USER_CM_CMD_CREATE_ID)
	defer r.free()
	r.body.Uid, r.body.Response = id.uid, r.respAddr()
	r.body.Ps, r.body.QpType = uint16(ps), uint8(qpType)
	if err := c.file.Command(r.in(), r.out()); err != nil {
		c.remove(id)
		return nil, commandError("create ID", nil, closedError(err))
	}
	id.handle = r.resp.Id
	return id, nil
}

func (c *EventChannel) newID(ps verbs.PortSpace, datagram bool) *ID {
	id := &ID{ch: c, uid: lastUID.Add(1), ps: ps, datagram: datagram}
	id.settled.L = &id.mu
	return id
}

// adopt makes an ID of the one that the kernel made for a connect request.
// The kernel learns its uid in Accept and reports nothing about it until then.
func (c *EventChannel) adopt(listener *ID, handle uint32, peer *ConnParam) *ID {
	id := c.newID(listener.ps, listener.datagram)
	id.handle = handle
	id.limits.peer = &readLimits{clamp(uint(peer.ResponderResources)), clamp(uint(peer.InitiatorDepth))}
	c.add(id)
	return id
}

func (id *ID) String() string { return fmt.Sprintf("ID %d", id.handle) }

// Destroy ends the connection, if there is one, and frees the ID. It waits
// until each event that Get has returned for it is acknowledged; so don't call
// it while holding one. A second call returns net.ErrClosed. Close the queue
// pair first. The ID's memberships in multicast groups end with it.
//
// C: rdma_destroy_id
func (id *ID) Destroy() error {
	if id == nil {
		return closeNil("ID")
	}
	id.mu.Lock()
	if id.destroyed {
		id.mu.Unlock()
		return &OpError{Op: "destroy", Object: id.String(), Err: net.ErrClosed}
	}
	id.destroyed = true
	id.mu.Unlock()

	id.joins.Lock()
	ch := id.channel()
	reported, err := ch.destroyKernelID(id.handle)
	groups := slices.Clone(id.groups)
	id.joins.Unlock()
	if err != nil {
		id.mu.Lock()
		id.destroyed = false
		id.mu.Unlock()
		return commandError("destroy", id, closedError(err))
	}
	id.waitAcked(reported)
	ch.remove(id, groups...)
	return nil
}

func (c *EventChannel) destroyKernelID(handle uint32) (reported uint32, err error) {
	r := newRequest[abi.RdmaUcmDestroyId, abi.RdmaUcmDestroyIdResp](abi.RDMA_USER_CM_CMD_DESTROY_ID)
	defer r.free()
	r.body.Response, r.body.Id = r.respAddr(), handle
	err = c.file.Command(r.in(), r.out())
	return r.resp.EventsReported, err
}

func (id *ID) isDestroyed() bool {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.destroyed
}

func (id *ID) channel() *EventChannel {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.ch
}

// ack counts an event; those of a membership count for that and for its ID.
func (id *ID) ack(m *Multicast) {
	id.mu.Lock()
	defer id.mu.Unlock()
	id.acked++
	if m != nil {
		m.acked++
	}
	id.settled.Broadcast()
}

func (id *ID) waitAcked(reported uint32) { id.waitCount(&id.acked, reported) }

// waitCount waits for a count that mu guards.
func (id *ID) waitCount(acked *uint32, reported uint32) {
	id.mu.Lock()
	defer id.mu.Unlock()
	for *acked < reported {
		id.settled.Wait()
	}
}

// command issues a command that has no answer.
func command[B any](id *ID, cmd uint32, fill func(*B)) error {
	r := newRequest[B, struct{}](cmd)
	defer r.free()
	fill(&r.body)
	return closedError(id.channel().file.Command(r.in(), nil))
}
