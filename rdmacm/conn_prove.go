package rdmacm

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/verbs"
)

const (
	// proofWRID marks the completions that prove takes off the CQ.
	proofWRID = 1<<64 - 1
	// proofInterval is how long prove waits before it sends another message.
	proofInterval = 2 * time.Millisecond
	// proofTimeout is how long prove waits for the peer's kernel. By then TCP has sent a lost
	// segment again five times.
	proofTimeout = 10 * time.Second
)

// proveIfNeeded works around a race in the siw driver. The accepting side takes over its TCP socket
// for RDMA a moment after the dialling side may send. A message that arrives in that moment is not
// processed until another one arrives. Between two processors, one of a hundred connections lost its
// first message this way. Therefore, before the caller of Dial may send, an empty READ proves that
// the peer's kernel listens. While there is no answer, empty WRITEs wake the kernel. Neither
// touches memory or involves the peer's program.
//
// An empty READ has a risk of its own. If the peer is sending when it arrives, siw queues the READ
// without its length, answers with the length of the message before, and ends the connection. But
// a peer that follows RFC 5044 (7.1) sends nothing before the side that dialled has sent.
//
// The proof needs an agreement on at least one READ, and a send CQ that nothing else polls.
func (c *Conn) proveIfNeeded(ctx context.Context) error {
	if c.Device().Info().Driver != verbs.DriverSIW || !c.ownSendCQ || c.depth == 0 {
		return nil
	}
	return c.prove(ctx, proofTimeout)
}

// prove posts empty messages until the READ completes, and takes all their completions off the CQ.
// All are signalled, so each completes once, even if the connection ends meanwhile and they are
// flushed. prove does not report that the connection ended, because the caller will notice.
func (c *Conn) prove(ctx context.Context, patience time.Duration) error {
	due := c.postEmpty(verbs.OpRDMARead)
	for start := time.Now(); due > 0; {
		got, err := c.takeEmpty(ctx)
		due -= got
		switch {
		case got > 0:
		case ctx.Err() != nil:
			return ctx.Err()
		case !errors.Is(err, context.DeadlineExceeded): // the connection ended, and all is flushed
			return nil
		case time.Since(start) > patience:
			return &verbs.Error{Op: "prove the connection to", Object: c.remote.String(), Err: syscall.ETIMEDOUT,
				Hint: "the peer's kernel does not answer a READ, or SendCQ was polled before Dial returned, for instance by Config.Prepare"}
		default:
			due += c.postEmpty(verbs.OpRDMAWrite)
		}
	}
	return ctx.Err()
}

// postEmpty posts an empty message and returns 1. It returns 0 if the queue is full, because enough
// messages are under way then, or if the queue is closed.
func (c *Conn) postEmpty(op verbs.Opcode) int {
	n, _ := c.qp.PostSend([]verbs.SendWR{{WRID: proofWRID, Opcode: op, Flags: verbs.SendSignaled, SGL: make([]verbs.SGE, 1)}})
	return n
}

func (c *Conn) takeEmpty(ctx context.Context) (int, error) {
	select {
	case <-c.Done(): // the kernel need not be woken any more
	default:
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, proofInterval)
		defer cancel()
	}
	var wcs [1]verbs.WC
	return c.SendCQ().Wait(ctx, wcs[:])
}
