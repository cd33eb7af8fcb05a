package rdmacm

import (
	"context"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
)

// Connect asks the peer for a connection, once the route is resolved.
// EventEstablished follows, or EventRejected, EventUnreachable or
// EventConnectError.
//
// On iWARP the kernel makes the TCP connection within this call, for two
// minutes if nobody answers. When ctx ends meanwhile, Connect destroys the ID
// and returns ctx.Err().
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
		return ctx.Err()
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
