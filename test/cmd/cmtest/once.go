package main

import (
	"context"
	"errors"
	"flag"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

func clientFlags(f *flag.FlagSet, s *session) {
	f.StringVar(&s.server, "s", "127.0.0.1", "server's `address`")
	s.portFlag(f)
}

func serverFlags(f *flag.FlagSet, s *session) {
	f.StringVar(&s.bind, "s", "", "own `address`")
	s.portFlag(f)
}

// first sends, and then receives.
func (o *once) first(ctx context.Context) error {
	if err := o.send(ctx); err != nil {
		return err
	}
	if err := o.receive(ctx); err != nil {
		return err
	}
	o.left(ctx)
	o.transferred(1, 1)
	return nil
}

// second receives, and then sends.
func (o *once) second(ctx context.Context) error {
	if err := o.receive(ctx); err != nil {
		return err
	}
	if err := o.send(ctx); err != nil {
		return err
	}
	o.transferred(1, 1)
	return nil
}

// onceSize is the message size of rdma_client and its relatives.
const onceSize = 16

// once is a connection that carries one message, or one each way.
type once struct {
	*session
	conn *rdmacm.Conn
	mr   *uverbs.MR // a message to receive, then one to send
}

func (o *once) config() *rdmacm.Config {
	return &rdmacm.Config{
		QP:      uverbs.QPOptions{Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}},
		Prepare: o.prepare,
	}
}

func (o *once) prepare(c *rdmacm.Conn) (err error) {
	if o.mr, err = c.PD().AllocMR(2*onceSize, verbs.AccessLocalWrite, nil); err != nil {
		return err
	}
	c.Own(o.mr)
	_, err = c.QP().PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{o.mr.SGE(0, onceSize)}}})
	return err
}

// ask connects and calls talk.
func ask(ctx context.Context, s *session, talk func(*once, context.Context) error) error {
	_, dst, err := s.addrs()
	if err != nil {
		return err
	}
	o := &once{session: s}
	if o.conn, err = (&rdmacm.Dialer{Config: *o.config()}).Dial(ctx, dst.String()); err != nil {
		return err
	}
	return o.run(ctx, talk)
}

// serve serves one client.
func serve(ctx context.Context, s *session, talk func(*once, context.Context) error) error {
	l, err := rdmacm.Listen(ctx, s.listenAddress())
	if err != nil {
		return err
	}
	defer l.Close()
	r, err := l.Next(ctx)
	if err != nil {
		return err
	}
	o := &once{session: s}
	if o.conn, err = r.Accept(ctx, o.config()); err != nil {
		return err
	}
	return o.run(ctx, talk)
}

func (o *once) run(ctx context.Context, talk func(*once, context.Context) error) error {
	o.connected(o.conn.Device().Info().Name, 1)
	return errors.Join(talk(o, ctx), o.conn.Close())
}

// send sends a message. It is no error if the peer, having received the message,
// disconnects before its device has acknowledged it.
func (o *once) send(ctx context.Context) error {
	wr := verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{o.mr.SGE(onceSize, onceSize)}}
	if _, err := o.conn.QP().PostSend([]verbs.SendWR{wr}); err != nil {
		return err
	}
	wc, err := o.take(ctx, o.conn.SendCQ())
	if wc.Status == verbs.StatusWRFlushErr && o.left(ctx) {
		return nil
	}
	return err
}

// remindAfter is how long a message may take before siw is reminded of it.
const remindAfter = 20 * time.Millisecond

// receive works around a bug of siw's accepting side: a message that arrives while it
// takes over the connection is noticed only with the next packet. The next packet is the
// answer to an empty READ, which the peer's kernel sends automatically. The connection
// has been taken over once the READ is under way.
func (o *once) receive(ctx context.Context) error {
	if o.conn.Device().Info().Driver == verbs.DriverSIW {
		soon, cancel := context.WithTimeout(ctx, remindAfter)
		defer cancel()
		if _, err := o.take(soon, o.conn.RecvCQ()); ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		if _, err := o.conn.QP().PostSend([]verbs.SendWR{{Opcode: verbs.OpRDMARead, SGL: make([]verbs.SGE, 1)}}); err != nil {
			return err
		}
	}
	_, err := o.take(ctx, o.conn.RecvCQ())
	return err
}

func (o *once) take(ctx context.Context, cq *uverbs.CQ) (verbs.WC, error) {
	var wcs [1]verbs.WC
	if n, err := cq.Wait(ctx, wcs[:]); n == 0 {
		return wcs[0], err
	}
	return wcs[0], wcs[0].Err()
}

// leaveLimit is how long the end that receives last lets the other one disconnect first,
// so that its own acknowledgement gets there.
const leaveLimit = 5 * time.Second

// left waits for the peer to disconnect.
func (o *once) left(ctx context.Context) bool {
	select {
	case <-o.conn.Done():
		return errors.Is(o.conn.Err(), rdmacm.ErrDisconnected)
	case <-time.After(leaveLimit):
	case <-ctx.Done():
	}
	return false
}
