package perf

import (
	"context"
	"errors"
	"time"

	"github.com/goverbs/goverbs/internal/perftest"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
)

// control is the connection over which two ends speak that rdma_cm connects. It
// is a perftest.Messenger.
type control struct {
	conn *rdmacm.Conn
	mr   *uverbs.MR // a message to send, and behind it one that comes
	met  bool       // the peer has said something
}

func (c *control) config() *rdmacm.Config {
	return &rdmacm.Config{Prepare: c.prepare, RetryCount: 7,
		QP: uverbs.QPOptions{Cap: uverbs.QPCap{MaxSendWR: 16, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}}}
}

func (c *control) prepare(conn *rdmacm.Conn) error {
	mr, err := conn.PD().AllocMR(2*perftest.MaxMessage, uverbs.AccessLocalWrite, nil)
	if err != nil {
		return err
	}
	conn.Own(mr)
	c.conn, c.mr = conn, mr
	return c.postRecv()
}

func (c *control) postRecv() error {
	_, err := c.conn.QP().PostRecv([]uverbs.RecvWR{{SGL: []uverbs.SGE{c.mr.SGE(perftest.MaxMessage, perftest.MaxMessage)}}})
	return err
}

// Send sends a message.
func (c *control) Send(ctx context.Context, message []byte) error {
	n := copy(c.mr.Bytes()[:perftest.MaxMessage], message)
	_, err := c.conn.QP().PostSend([]uverbs.SendWR{{Opcode: uverbs.OpSend, Flags: uverbs.SendSignaled, SGL: []uverbs.SGE{c.mr.SGE(0, n)}}})
	if err != nil {
		return err
	}
	_, err = c.take(ctx, c.conn.SendCQ())
	return err
}

// Receive waits for a message.
func (c *control) Receive(ctx context.Context, buf []byte) (int, error) {
	wc, err := c.takeFirst(ctx)
	if err != nil {
		return 0, err
	}
	c.met = true
	n := copy(buf, c.mr.Bytes()[perftest.MaxMessage:][:wc.ByteLen])
	return n, c.postRecv()
}

// remindEvery is how long an answer may take before the peer's kernel is reminded.
const remindEvery = 20 * time.Millisecond

// takeFirst works round siw's accepting side, which can overlook a message that
// comes while it takes over the connection, until something else comes. rdmacm
// proves a connection by a READ, but perftest allows none on this one: a WRITE of
// nothing it has to take.
func (c *control) takeFirst(ctx context.Context) (uverbs.WC, error) {
	for !c.met && c.conn.Device().Info().Driver == uverbs.DriverSIW {
		soon, cancel := context.WithTimeout(ctx, remindEvery)
		wc, err := c.take(soon, c.conn.RecvCQ())
		cancel()
		if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return wc, err
		}
		// A full queue is enough under way.
		_, _ = c.conn.QP().PostSend([]uverbs.SendWR{{Opcode: uverbs.OpRDMAWrite, SGL: make([]uverbs.SGE, 1)}})
	}
	return c.take(ctx, c.conn.RecvCQ())
}

// take waits for a completion, until the connection ends.
func (c *control) take(ctx context.Context, cq *uverbs.CQ) (wc uverbs.WC, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-ctx.Done():
		case <-c.conn.Done():
			cancel(c.conn.Err())
		}
	}()
	var wcs [1]uverbs.WC
	n, err := cq.Wait(ctx, wcs[:])
	if n == 0 && ctx.Err() != nil {
		// What the peer did before it disconnected is in the CQ by now.
		if n, err = cq.Poll(wcs[:]); n == 0 {
			err = context.Cause(ctx)
		}
	}
	if n == 0 || err != nil {
		return wcs[0], err
	}
	return wcs[0], c.explain(&wcs[0])
}

// explain tells the end of a connection from a failure of its own.
func (c *control) explain(wc *uverbs.WC) error {
	if wc.Status != uverbs.StatusWRFlushErr {
		return wc.Err()
	}
	select {
	case <-c.conn.Done():
		return c.conn.Err()
	case <-time.After(5 * time.Second):
		return wc.Err()
	}
}
