package rdmacm

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/uverbs"
)

// Connect asks the peer for a connection, once the route is resolved.
// EventEstablished follows, or EventRejected, EventUnreachable or
// EventConnectError.
//
// On iWARP the kernel makes the TCP connection within this call, for two
// minutes if nobody answers. When ctx ends meanwhile, Connect destroys the ID
// and returns an error that matches ctx.Err().
//
// C: rdma_connect
func (id *ID) Connect(ctx context.Context, p *ConnParam) error {
	const op = "connect"
	w, err := id.connParam(op, p, limitConnect)
	if err != nil {
		return err
	}
	ece := p.ece()
	connect := func() error {
		err := command(id, abi.RDMA_USER_CM_CMD_CONNECT, func(b *abi.RdmaUcmConnect) {
			b.Id, b.ConnParam, b.Ece = id.handle, *w, ece
		})
		return hinted(op, id, err, connectHints)
	}
	if id.isIB() { // this only sends a message
		return connect()
	}
	interrupt, done := interruptible()
	defer done()
	over, destroyed := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(destroyed)
		id.destroyUnder(interrupt, over)
	})
	err = connect()
	close(over)
	if !stop() {
		<-destroyed // or it might interrupt what the thread does next
		return &OpError{Op: op, Object: id.String(), Err: ctx.Err()}
	}
	return err
}

// destroyUnder ends a CONNECT that waits in the kernel. The Go runtime has
// interrupted calls begin anew; with the ID gone there is nothing left for this
// one to begin with.
func (id *ID) destroyUnder(interrupt interrupter, over <-chan struct{}) {
	go id.Destroy() // returns when CONNECT has
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
	syscall.EINVAL:       "wrong state for it, or, unless the transport is iWARP, private data too long",
	syscall.ENOMEM:       "more responder resources or initiator depth than the device has, or out of memory",
	syscall.ECONNREFUSED: "nobody listens on that port",
	syscall.ENOTCONN:     "the connection is gone",
	syscall.ENOENT:       "the peer gave up meanwhile, or the ID is destroyed",
}

// Accept answers a connect request with yes. With a queue pair attached it
// brings that to RTS first, except on iWARP, where the kernel does so.
// EventEstablished follows.
//
// C: rdma_accept
func (id *ID) Accept(p *ConnParam) error {
	const op = "accept"
	w, err := id.connParam(op, p, limitAccept)
	if err != nil {
		return err
	}
	if err := id.readyQP(&w.ResponderResources, &w.InitiatorDepth); err != nil {
		return err
	}
	err = command(id, abi.RDMA_USER_CM_CMD_ACCEPT, func(b *abi.RdmaUcmAccept) {
		b.Uid, b.Id, b.ConnParam, b.Ece = id.uid, id.handle, *w, p.ece()
	})
	if err != nil {
		id.failQP()
	}
	return hinted(op, id, err, connectHints)
}

// Reject answers a connect request with no. The ID must still be destroyed.
//
// C: rdma_reject
func (id *ID) Reject(private []byte) error { return id.reject(private, 0) }

// RejectECE is Reject because of the options in [ConnParam].ECE, which the peer may leave
// out and try again. The peer's error matches RejectVendorOption.
//
// C: rdma_reject_ece
func (id *ID) RejectECE(private []byte) error {
	return id.reject(private, uint8(RejectVendorOption))
}

// reject says no for a reason; 0 is the kernel's default, RejectConsumer.
func (id *ID) reject(private []byte, reason uint8) error {
	const op = "reject"
	id.learnTransport()
	id.mu.Lock()
	err := checkPrivate(op, id, private, limitReject)
	id.mu.Unlock()
	if err != nil {
		return err
	}
	err = command(id, abi.RDMA_USER_CM_CMD_REJECT, func(b *abi.RdmaUcmReject) {
		b.Id, b.Reason = id.handle, reason
		b.PrivateDataLen = uint8(copy(b.PrivateData[:], private))
	})
	return hinted(op, id, err, connectHints)
}

// Disconnect ends the connection and, except on iWARP, moves an attached queue
// pair to the error state, so that outstanding work is flushed. Both sides get
// EventDisconnected; except on iWARP this side gets it when the peer has answered
// its own with Disconnect too.
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

// Notify tells the connection manager of an asynchronous event that its queue pair had.
// EventCommEst is the one it wants to know: a message came in before the peer's
// confirmation, which was lost, so the connection is there.
//
// C: rdma_notify
func (id *ID) Notify(event uverbs.EventType) error {
	err := command(id, abi.RDMA_USER_CM_CMD_NOTIFY, func(b *abi.RdmaUcmNotify) {
		b.Id, b.Event = id.handle, uint32(event)
	})
	return hinted("notify", id, err, map[syscall.Errno]string{
		syscall.EINVAL: "an event that does not concern connections, or no connection is being made",
	})
}

// Establish completes a connection on the active side after
// EventConnectResponse, for an ID without attached queue pair: its owner has
// brought the queue pair to RTS.
//
// C: rdma_establish
func (id *ID) Establish() error {
	err := command(id, abi.RDMA_USER_CM_CMD_ACCEPT, func(b *abi.RdmaUcmAccept) {
		b.Id = id.handle // conn_param.valid stays 0: ready to use
	})
	return hinted("establish", id, err, connectHints)
}

// connParam decides what goes to the peer and checks it.
func (id *ID) connParam(op string, p *ConnParam, limit privateLimit) (*abi.RdmaUcmConnParam, error) {
	if p == nil {
		p = new(ConnParam)
	}
	if len(p.PrivateData) > 0 {
		id.learnTransport()
	}
	id.mu.Lock()
	defer id.mu.Unlock()
	if err := checkPrivate(op, id, p.PrivateData, limit); err != nil {
		return nil, err
	}
	resources, depth, err := id.limits.negotiate(p)
	if err != nil {
		return nil, &OpError{Op: op, Object: id.String(), Err: err}
	}
	w := new(abi.RdmaUcmConnParam)
	p.wire(w, resources, depth)
	if id.qp != nil {
		w.QpNum, w.Srq = id.qp.Num(), flag(id.qp.SRQ() != nil)
	}
	return w, nil
}
