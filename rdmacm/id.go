package rdmacm

import (
	"encoding/binary"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/qpstate"
	"github.com/goverbs/goverbs/verbs"
)

// transport is the kind of transport of an ID. See ID.learnTransport.
type transport int

const (
	transportUnknown transport = iota
	transportIB                // InfiniBand and RoCE
	transportIWARP
)

// ID is one end of a connection, or a listener, like a socket for TCP. All methods may be called
// concurrently. The kernel accepts each only in certain states, and otherwise returns EINVAL.
//
// C: struct rdma_cm_id
type ID struct {
	ch       *EventChannel
	uid      uint64 // identifies the ID in events
	handle   uint32 // identifies the ID in commands
	ps       verbs.PortSpace
	datagram bool

	// joins is held during the commands to join or leave a group, to migrate and to destroy. It
	// is locked before mu.
	joins  sync.Mutex
	groups []*Multicast

	pending pending // the events that a hub has for the ID

	qpMu    sync.Mutex // held while qp changes its state; locked before mu
	flushed bool       // qp is in the error state; guarded by qpMu

	mu        sync.Mutex
	ackedCond sync.Cond // signalled when acked changes, here or in a membership
	acked     uint32
	destroyed bool
	transport transport
	qp        queuePair
	limits    connLimits
	to        sink // receives the events, for Dial, Listen and Accept
	failed    bool // set-up failed after the peer's answer, so later events are hidden
	dropped   bool // the peer rejected the connection after it had accepted it
	rnr       rnrSettings
}

// NewID creates an ID. qpType is RC or UD. Zero stands for the type of the port space, which is RC for
// PortSpaceIB. The package comment explains network namespaces.
//
// C: rdma_create_id
func (c *EventChannel) NewID(ps verbs.PortSpace, qpType verbs.QPType) (*ID, error) {
	if qpType == 0 {
		qpType = verbs.QPTypeRC
		if ps == verbs.PortSpaceUDP || ps == verbs.PortSpaceIPoIB {
			qpType = verbs.QPTypeUD
		}
	}
	if ps > math.MaxUint16 { // the kernel would truncate it
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
	id.ackedCond.L = &id.mu
	return id
}

// adopt returns an ID for the one that the kernel created for a connect request. Accept passes its uid
// to the kernel, which reports no events about the ID before that.
func (c *EventChannel) adopt(listener *ID, handle uint32, peer *ConnParam) *ID {
	id := c.newID(listener.ps, listener.datagram)
	id.handle = handle
	id.limits.peer = &readLimits{clamp(uint(peer.ResponderResources)), clamp(uint(peer.InitiatorDepth))}
	c.add(id)
	return id
}

func (id *ID) String() string { return idPrefix + strconv.FormatUint(uint64(id.handle), 10) }

const idPrefix = "ID "

// Close ends the connection, if there is one, and frees the ID. Close the queue pair first. Close
// waits until all events that Get has returned for the ID are acknowledged, so acknowledge them before.
// It also ends the ID's memberships in multicast groups. A second call returns an error that matches
// net.ErrClosed.
//
// C: rdma_destroy_id
func (id *ID) Close() error {
	if id == nil {
		return closeNil("ID")
	}
	ch, groups, reported, err := id.destroyInKernel()
	if err != nil {
		return err
	}
	id.waitAcked(reported)
	ch.remove(id, groups...)
	return nil
}

// destroyInKernel destroys the kernel's part of the ID. A concurrent call waits for the outcome before it returns an
// error that matches net.ErrClosed: its caller may close the channel next, and the ID must be gone by then.
func (id *ID) destroyInKernel() (ch *EventChannel, groups []*Multicast, reported uint32, err error) {
	id.joins.Lock()
	defer id.joins.Unlock()
	if !id.setDestroyed(true) {
		return nil, nil, 0, &verbs.Error{Op: "destroy", Object: id.String(), Err: net.ErrClosed}
	}
	ch = id.channel()
	if reported, err = ch.destroyKernelID(id.handle); err != nil {
		id.setDestroyed(false)
		return nil, nil, 0, commandError("destroy", id, closedError(err))
	}
	return ch, slices.Clone(id.groups), reported, nil
}

// setDestroyed marks the ID as destroyed or not, and reports whether that is a change.
func (id *ID) setDestroyed(destroyed bool) bool {
	id.mu.Lock()
	defer id.mu.Unlock()
	changed := id.destroyed != destroyed
	id.destroyed = destroyed
	return changed
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

// ack counts an acknowledged event. An event of a membership is counted in the membership and in its
// ID.
func (id *ID) ack(m *Multicast) {
	id.mu.Lock()
	defer id.mu.Unlock()
	id.acked++
	if m != nil {
		m.acked++
	}
	id.ackedCond.Broadcast()
}

func (id *ID) waitAcked(reported uint32) { id.waitCount(&id.acked, reported) }

// waitCount waits until a count, which mu guards, has reached reported.
func (id *ID) waitCount(acked *uint32, reported uint32) {
	id.mu.Lock()
	defer id.mu.Unlock()
	for *acked < reported {
		id.ackedCond.Wait()
	}
}

// command issues a command without an answer.
func command[B any](id *ID, cmd uint32, fill func(*B)) error {
	r := newRequest[B, struct{}](cmd)
	defer r.free()
	fill(&r.body)
	return closedError(id.channel().file.Command(r.in(), nil))
}

// Migrate moves the ID, and the events that are queued for it, to another channel. It waits until all
// events that Get has returned for the ID are acknowledged.
//
// C: rdma_migrate_id
func (id *ID) Migrate(to *EventChannel) error {
	id.joins.Lock()
	from, groups := id.channel(), slices.Clone(id.groups)
	if from == to {
		id.joins.Unlock()
		return nil
	}
	to.add(id, groups...) // before the kernel may report events on that channel
	r := newRequest[abi.RdmaUcmMigrateId, abi.RdmaUcmMigrateResp](abi.RDMA_USER_CM_CMD_MIGRATE_ID)
	defer r.free()
	r.body.Response, r.body.Id = r.respAddr(), id.handle
	var err error
	if lent := from.file.Descriptor(func(fd uint32) {
		r.body.Fd = fd
		err = to.file.Command(r.in(), r.out())
	}); lent != nil {
		err = lent
	}
	if err != nil {
		to.remove(id, groups...)
		id.joins.Unlock()
		return commandError("migrate", id, closedError(err))
	}
	id.mu.Lock()
	id.ch = to
	id.mu.Unlock()
	id.joins.Unlock()
	id.waitAcked(r.resp.EventsReported)
	from.remove(id, groups...)
	return nil
}

// SetTOS sets the IPv4 type of service or IPv6 traffic class of the connection's packets. Call it before
// ResolveRoute.
//
// C: rdma_set_option(RDMA_OPTION_ID_TOS)
func (id *ID) SetTOS(tos uint8) error {
	return setIDOption(id, "TOS", abi.RDMA_OPTION_ID_TOS, [1]uint8{tos})
}

// SetReuseAddr allows several IDs to share a local address. Call it before Bind.
//
// C: rdma_set_option(RDMA_OPTION_ID_REUSEADDR)
func (id *ID) SetReuseAddr(on bool) error {
	return setIDOption(id, "REUSEADDR", abi.RDMA_OPTION_ID_REUSEADDR, [1]int32{int32(flag(on))})
}

// SetAFOnly sets whether an IPv6 wildcard address excludes IPv4. Call it before Bind.
//
// C: rdma_set_option(RDMA_OPTION_ID_AFONLY)
func (id *ID) SetAFOnly(on bool) error {
	return setIDOption(id, "AFONLY", abi.RDMA_OPTION_ID_AFONLY, [1]int32{int32(flag(on))})
}

// SetAckTimeout sets how long the queue pair waits for an acknowledgement before it sends
// again. Zero stands for no limit. Other values are rounded up to the next one that queue
// pairs have: 4.096 µs times a power of two, from 8.192 µs to 2 hours, 26 minutes and 36
// seconds. A negative or longer one returns an error that matches syscall.EINVAL. iWARP
// does not have this option. Call it before Connect or Accept.
//
// C: rdma_set_option(RDMA_OPTION_ID_ACK_TIMEOUT)
func (id *ID) SetAckTimeout(d time.Duration) error {
	code, ok := qpstate.AckTimeoutCode(d)
	if !ok {
		return &verbs.Error{Op: "set option ACK_TIMEOUT", Object: id.String(), Err: syscall.EINVAL, Hint: fmt.Sprintf("%v is not in the range from 0 to %v", d, qpstate.MaxAckTimeout)}
	}
	return setIDOption(id, "ACK_TIMEOUT", abi.RDMA_OPTION_ID_ACK_TIMEOUT, [1]uint8{code})
}

// setIDOption sets an option of level RDMA_OPTION_ID.
func setIDOption[T [1]uint8 | [1]int32](id *ID, name string, option uint32, value T) error {
	return hinted("set option "+name, id, setOption(id, abi.RDMA_OPTION_ID, option, value), map[syscall.Errno]string{
		syscall.EINVAL: "the ID is past the state for this option, or the transport does not support the value",
		syscall.ENOSYS: "this kernel has no such option",
	})
}

// setOption passes the value to the kernel in the memory that other commands use for their answer,
// because that memory does not move.
func setOption[T any](id *ID, level, option uint32, value T) error {
	r := newRequest[abi.RdmaUcmSetOption, T](abi.RDMA_USER_CM_CMD_SET_OPTION)
	defer r.free()
	r.hdr.Out = 0
	r.resp = value
	r.body.Optval, r.body.Optlen = r.respAddr(), uint32(len(r.out()))
	r.body.Id, r.body.Level, r.body.Optname = id.handle, level, option
	return closedError(id.channel().file.Command(r.in(), r.out()))
}

// newCommand explains the kernel's error for a command that older kernels lack.
const newCommand = "the ID is in the wrong state, or the kernel is too old: Linux 6.12 does not have this yet"

// WriteEvent queues an event on the ID's channel: EventUser with arg as its Arg and, unless cause is 0,
// cause as its Err. This wakes a goroutine that waits in Get, or another process with the same channel.
// The ID may be in any state.
//
// C: rdma_write_cm_event
func (id *ID) WriteEvent(cause syscall.Errno, arg uint64) error {
	err := command(id, abi.RDMA_USER_CM_CMD_WRITE_CM_EVENT, func(b *abi.RdmaUcmWriteCmEvent) {
		b.Id, b.Event, b.Status = id.handle, uint32(EventUser), uint32(-int32(cause))
		binary.NativeEndian.PutUint64(b.Param[:], arg)
	})
	return hinted("write an event of", id, err, map[syscall.Errno]string{syscall.EINVAL: newCommand})
}

// Format implements [fmt.Formatter].
func (id *ID) Format(f fmt.State, _ rune) { fmt.Fprint(f, id.String()) }
