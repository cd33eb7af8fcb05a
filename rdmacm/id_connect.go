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
	thread, result := make(chan interrupter, 1), make(chan error, 1)
	go func() {
		interrupt, done := interruptible()
		defer done()
		thread <- interrupt
		result <- connect()
	}()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		id.destroyUnder(<-thread, result)
		return ctx.Err()
	}
}

// destroyUnder ends a CONNECT that waits in the kernel. The Go runtime has
// interrupted calls begin anew; with the ID gone there is nothing left for this
// one to begin with.
func (id *ID) destroyUnder(interrupt interrupter, result <-chan error) {
	go id.Destroy() // returns when CONNECT has
	for {
		select {
		case <-result:
			return
		case <-time.After(time.Millisecond):
			interrupt()
		}
	}
}
