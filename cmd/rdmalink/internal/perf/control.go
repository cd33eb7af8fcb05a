package perf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goverbs/goverbs/internal/giveup"
	"github.com/goverbs/goverbs/internal/perftest"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// control is the connection for control messages between two ends that rdma_cm connects.
// It is a perftest.Messenger.
type control struct {
	conn *rdmacm.Conn
	mr   *uverbs.MR // places to send from, and behind them those to receive into
	sent uint64     // how many messages, and the WRID of the last
	come []verbs.WC // of messages that Receive has not returned yet
	met  bool       // the peer has said something
}

// places is how many messages an end sends, or receives, at once: one, and a
// give-up message behind it.
const places = 2

func (c *control) config() *rdmacm.Config {
	return &rdmacm.Config{Prepare: c.prepare, TransportOptions: rdmacm.TransportOptions{RetryCount: 7},
		QP: uverbs.QPOptions{Cap: verbs.QPCap{MaxSendWR: 16, MaxRecvWR: places, MaxSendSGE: 1, MaxRecvSGE: 1}}}
}

func (c *control) prepare(conn *rdmacm.Conn) error {
	mr, err := conn.PD().AllocMR(2*places*perftest.MaxMessage, verbs.AccessLocalWrite, nil)
	if err != nil {
		return err
	}
	conn.Own(mr)
	c.conn, c.mr = conn, mr
	for place := range places {
		if err := c.postRecv(place); err != nil {
			return err
		}
	}
	return nil
}

func (c *control) postRecv(place int) error {
	sge := c.mr.SGE((places+place)*perftest.MaxMessage, perftest.MaxMessage)
	_, err := c.conn.QP().PostRecv([]verbs.RecvWR{{WRID: uint64(place), SGL: []verbs.SGE{sge}}})
	return err
}

// Send sends a message. If the peer disconnects before it acknowledges the message, Send
// returns no error: the acknowledgement may arrive after the disconnect. Receive returns
// the error if the peer left too soon.
func (c *control) Send(ctx context.Context, message []byte) error {
	at := int(c.sent%places) * perftest.MaxMessage
	n := copy(c.mr.Bytes()[at:][:perftest.MaxMessage], message)
	c.sent++
	wr := verbs.SendWR{WRID: c.sent, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{c.mr.SGE(at, n)}}
	if _, err := c.conn.QP().PostSend([]verbs.SendWR{wr}); err != nil {
		return c.lastWord(err)
	}
	for {
		wc, err := c.take(ctx, c.conn.SendCQ())
		switch {
		case errors.Is(err, rdmacm.ErrDisconnected):
			return c.lastWord(nil)
		case err != nil:
			return c.lastWord(err)
		case wc.WRID == c.sent: // not one whose wait was interrupted
			return nil
		}
	}
}

// Receive waits for a message.
func (c *control) Receive(ctx context.Context, buf []byte) (int, error) {
	wc, err := c.next(ctx)
	if err != nil {
		return 0, err
	}
	c.met = true
	message, err := c.message(&wc)
	if err != nil {
		return 0, err
	}
	n := copy(buf, message)
	return n, c.postRecv(int(wc.WRID))
}

func (c *control) next(ctx context.Context) (verbs.WC, error) {
	if len(c.come) == 0 {
		return c.takeFirst(ctx)
	}
	wc := c.come[0]
	c.come = c.come[1:]
	return wc, nil
}

// message returns the received message, at the place that the completion gives.
func (c *control) message(wc *verbs.WC) ([]byte, error) {
	if wc.WRID >= places || wc.ByteLen > perftest.MaxMessage {
		return nil, fmt.Errorf("a completion of receive %d with %d bytes: it was not posted", wc.WRID, wc.ByteLen)
	}
	at := (places + int(wc.WRID)) * perftest.MaxMessage
	return c.mr.Bytes()[at:][:wc.ByteLen], nil
}

// remindEvery is how long an answer may take before the peer's kernel is reminded.
const remindEvery = 20 * time.Millisecond

// takeFirst works round siw's accepting side, which can overlook a message that
// comes while it takes over the connection, until something else comes. rdmacm
// proves a connection by a READ, but perftest allows none on this one: a WRITE of
// nothing it has to take.
func (c *control) takeFirst(ctx context.Context) (verbs.WC, error) {
	for !c.met && c.conn.Device().Info().Driver == verbs.DriverSIW {
		soon, cancel := context.WithTimeout(ctx, remindEvery)
		wc, err := c.take(soon, c.conn.RecvCQ())
		cancel()
		if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return wc, err
		}
		// A full queue is enough under way.
		_, _ = c.conn.QP().PostSend([]verbs.SendWR{{Opcode: verbs.OpRDMAWrite, SGL: make([]verbs.SGE, 1)}})
	}
	return c.take(ctx, c.conn.RecvCQ())
}

// awaitFirst waits for the peer's first message if the peer has to send first (RFC 5044,
// 7.1). siw would treat a message that arrives before its own as a malformed reply, and
// fail the dial.
func (c *control) awaitFirst(ctx context.Context) error {
	if c.met || len(c.come) > 0 || c.conn.Device().Info().NodeType != verbs.NodeRNIC {
		return nil
	}
	wc, err := c.takeFirst(ctx)
	if err == nil {
		c.come = append(c.come, wc)
	}
	return err
}

// take waits for a completion, until the connection ends.
func (c *control) take(ctx context.Context, cq *uverbs.CQ) (wc verbs.WC, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-ctx.Done():
		case <-c.conn.Done():
			cancel(c.conn.Err())
		}
	}()
	var wcs [1]verbs.WC
	n, err := cq.Wait(ctx, wcs[:])
	if n == 0 && ctx.Err() != nil {
		// Everything that the peer did before it disconnected is in the CQ by now.
		if n, err = cq.Poll(wcs[:]); n == 0 {
			err = context.Cause(ctx)
		}
	}
	if cause := c.conn.Err(); cause != nil && errors.Is(err, cause) {
		err = cause
	}
	if n == 0 || err != nil {
		return wcs[0], err
	}
	return wcs[0], c.explain(ctx, &wcs[0])
}

// explain distinguishes the end of a connection from other failures.
func (c *control) explain(ctx context.Context, wc *verbs.WC) error {
	if wc.Status != verbs.StatusWRFlushErr {
		return wc.Err()
	}
	select {
	case <-c.conn.Done():
	case <-ctx.Done():
	case <-time.After(5 * time.Second):
	}
	return cmp.Or(c.conn.Err(), wc.Err())
}

// listen waits until the peer fails or the connection ends. It leaves messages to Receive.
func (c *control) listen(ctx context.Context) error {
	for n := 0; ; n++ {
		if n == len(c.come) {
			wc, err := c.take(ctx, c.conn.RecvCQ())
			if err != nil {
				return err
			}
			c.come = append(c.come, wc)
		}
		message, err := c.message(&c.come[n])
		if err := cmp.Or(err, giveup.Parse(message)); err != nil {
			return err
		}
	}
}

// lastWord returns the peer's give-up message, if there is one, instead of the error that its
// leaving caused.
func (c *control) lastWord(err error) error {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	if why := c.listen(now); giveup.Is(why) {
		return why
	}
	return err
}
