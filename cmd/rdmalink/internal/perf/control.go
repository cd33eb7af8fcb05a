package perf

import (
	"context"
	"errors"
	"fmt"

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
// farewell behind it.
const places = 2

func (c *control) config() *rdmacm.Config {
	return &rdmacm.Config{Prepare: c.prepare, RetryCount: 7,
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
