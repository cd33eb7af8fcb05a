package msg

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/verbs"
)

const (
	proveKick     = 2 * time.Millisecond
	provePatience = 10 * time.Second
)

// prove works round a race in the siw driver, as rdmacm.Dial does where it may read the
// send CQ: the accepting side can overlook the first message until another one follows. A
// READ of nothing proves that it listens, and WRITEs of nothing remind it.
func (c *Conn) prove(ctx context.Context) error {
	read := make(chan error, 1)
	ctx, cancel := context.WithTimeoutCause(ctx, provePatience, syscall.ETIMEDOUT)
	defer cancel()
	go func() { read <- c.nothing(ctx, verbs.OpRDMARead) }()
	kick := time.NewTicker(proveKick)
	defer kick.Stop()
	for {
		select {
		case err := <-read:
			if errors.Is(err, ErrPeerClosed) { // which it has said; the program will see
				return nil
			}
			return err
		case <-kick.C:
			short, cancel := context.WithTimeout(ctx, proveKick)
			_ = c.nothing(short, verbs.OpRDMAWrite) // the READ tells of what is wrong
			cancel()
		}
	}
}

// nothing carries out an operation on no bytes, which touches neither memory nor the
// peer's program.
func (c *Conn) nothing(ctx context.Context, code verbs.Opcode) error {
	o, err := c.takeOp(ctx)
	if err != nil {
		return err
	}
	o.sge[0] = verbs.SGE{}
	o.wr[0] = verbs.SendWR{Opcode: code, SGL: o.sge[:]}
	if err = c.runAndFree(ctx, o); err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
