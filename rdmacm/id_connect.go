package rdmacm

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

// Connect sends a connect request to the peer. The route must be resolved. EventEstablished follows, or
// EventRejected, EventUnreachable or EventConnectError.
//
// On iWARP the kernel establishes the TCP connection within this call, which takes two minutes if the
// peer does not answer. If ctx ends meanwhile, Connect destroys the ID and returns an error that
// matches ctx.Err().
//
// C: rdma_connect
func (id *ID) Connect(ctx context.Context, p *ConnParam) error {
	const op = "connect"
	var w abi.RdmaUcmConnParam
	if err := id.connParam(&w, op, p, limitConnect); err != nil {
		return err
	}
	ece := p.ece()
	connect := func() error {
		err := command(id, abi.RDMA_USER_CM_CMD_CONNECT, func(b *abi.RdmaUcmConnect) {
			b.Id, b.ConnParam, b.Ece = id.handle, w, ece
		})
		return hinted(op, id, err, connectHints)
	}
	if id.isOver(transportIB) { // this only sends a message
		return connect()
	}
	interrupt, done := interruptible()
	defer done()
	over, destroyed := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(destroyed)
		id.destroyUnder(interrupt, over)
	})
	err := connect()
	close(over)
	if !stop() {
		<-destroyed // otherwise it might interrupt the thread's next system call
		return &verbs.Error{Op: op, Object: id.String(), Err: ctx.Err()}
	}
	return err
}

// destroyUnder ends a CONNECT that waits in the kernel. The Go runtime restarts interrupted calls. With
// the ID destroyed, the restarted call fails.
func (id *ID) destroyUnder(interrupt interrupter, over <-chan struct{}) {
	go id.Close() // returns when CONNECT has
	for {
		select {
		case <-over:
			return
		case <-time.After(time.Millisecond):
			interrupt()
		}
	}
}

var errPrivateData = errors.New("private data too long")

var connectHints = map[syscall.Errno]string{
	syscall.EINVAL:       "wrong state, or, unless the transport is iWARP, private data too long",
	syscall.ENOMEM:       "more responder resources or initiator depth than the device has, or out of memory",
	syscall.ECONNREFUSED: "no listener on that port",
	syscall.ENOTCONN:     "the connection is gone",
	syscall.ENOENT:       "the peer has given up, or the ID is destroyed",
}

// Accept accepts a connect request. It first moves an attached queue pair to RTS, except on iWARP, where
// the kernel does that. EventEstablished follows.
//
// C: rdma_accept
func (id *ID) Accept(p *ConnParam) error {
	const op = "accept"
	var w abi.RdmaUcmConnParam
	if err := id.connParam(&w, op, p, limitAccept); err != nil {
		return err
	}
	if err := id.readyQP(&w.ResponderResources, &w.InitiatorDepth); err != nil {
		return err
	}
	err := command(id, abi.RDMA_USER_CM_CMD_ACCEPT, func(b *abi.RdmaUcmAccept) {
		b.Uid, b.Id, b.ConnParam, b.Ece = id.uid, id.handle, w, p.ece()
	})
	if err != nil {
		id.failQP()
	}
	return hinted(op, id, err, connectHints)
}

// Reject refuses a connect request. The ID must still be destroyed.
//
// C: rdma_reject
func (id *ID) Reject(private []byte) error { return id.reject(private, 0) }

// RejectECE refuses a connect request because of the options in [ConnParam].ECE. The peer may try again
// without them. Its [RejectedError] has the reason RejectVendorOption.
//
// C: rdma_reject_ece
func (id *ID) RejectECE(private []byte) error {
	return id.reject(private, uint8(RejectVendorOption))
}

// reject refuses a connect request for a reason. 0 stands for the kernel's default, RejectConsumer.
func (id *ID) reject(private []byte, reason uint8) error {
	const op = "reject"
	id.learnTransport()
	id.mu.Lock()
	err := checkPrivate(op, id, private, limitReject)
	id.mu.Unlock()
	if err != nil {
		return err
	}
	return id.rejectWith(private, reason)
}

// rejectWith is reject with private data that is not too long.
func (id *ID) rejectWith(private []byte, reason uint8) error {
	err := command(id, abi.RDMA_USER_CM_CMD_REJECT, func(b *abi.RdmaUcmReject) {
		b.Id, b.Reason = id.handle, reason
		b.PrivateDataLen = uint8(copy(b.PrivateData[:], private))
	})
	return hinted("reject", id, err, connectHints)
}

// Disconnect ends the connection. Except on iWARP, it also moves an attached queue pair to the error
// state, which flushes outstanding work. Both sides get EventDisconnected. Except on iWARP, this side
// gets it once the peer has called Disconnect too, in answer to its own event.
//
// C: rdma_disconnect
func (id *ID) Disconnect() error {
	if !id.isIWARP() {
		id.failQP()
	}
	return id.disconnect()
}

func (id *ID) disconnect() error {
	err := command(id, abi.RDMA_USER_CM_CMD_DISCONNECT, func(b *abi.RdmaUcmDisconnect) {
		b.Id = id.handle
	})
	return hinted("disconnect", id, err, connectHints)
}

// Notify passes an asynchronous event of the queue pair to the connection manager. It acts on
// EventCommEst: a message has arrived although the peer's confirmation was lost, so the connection is
// established.
//
// C: rdma_notify
func (id *ID) Notify(event verbs.EventType) error {
	err := command(id, abi.RDMA_USER_CM_CMD_NOTIFY, func(b *abi.RdmaUcmNotify) {
		b.Id, b.Event = id.handle, uint32(event)
	})
	return hinted("notify", id, err, map[syscall.Errno]string{
		syscall.EINVAL: "an event that does not concern connections, or no connection is being set up",
	})
}

// Establish completes a connection on the active side after EventConnectResponse. Call it only for an ID
// without an attached queue pair, after moving the caller's queue pair to RTS.
//
// C: rdma_establish
func (id *ID) Establish() error {
	err := command(id, abi.RDMA_USER_CM_CMD_ACCEPT, func(b *abi.RdmaUcmAccept) {
		b.Id = id.handle // conn_param.valid stays 0: ready to use
	})
	return hinted("establish", id, err, connectHints)
}

// connParam checks the parameters and sets w, those for the peer.
func (id *ID) connParam(w *abi.RdmaUcmConnParam, op string, p *ConnParam, limit privateLimit) error {
	if p == nil {
		p = new(ConnParam)
	}
	if len(p.PrivateData) > 0 {
		id.learnTransport()
	}
	id.mu.Lock()
	defer id.mu.Unlock()
	if err := checkPrivate(op, id, p.PrivateData, limit); err != nil {
		return err
	}
	resources, depth, err := id.limits.negotiate(p)
	if err != nil {
		return &verbs.Error{Op: op, Object: id.String(), Err: err}
	}
	p.wire(w, resources, depth)
	if id.qp != nil {
		w.QpNum, w.Srq = id.qp.QPN(), flag(id.qp.SRQ() != nil)
	}
	return nil
}
