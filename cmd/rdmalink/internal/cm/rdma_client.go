package cm

import (
	"context"
	"errors"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/peer"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

var (
	onceServerRow = cli.NewRow('s', "server", "HOST", "the server's address or name (default 127.0.0.1)", serverRow.Set)
	onceListenRow = cli.NewRow('s', "server", "ADDR", "own address to listen on (default all)", bindRow.Set)
	onceDefaults  = options{server: "127.0.0.1", port: 7471}
)

var rdmaClient = &Program{
	Name: "rdma_client", Args: "[OPTIONS]",
	Summary: "send a message of 16 bytes and get one back; the other end may be rdma_server",
	text: `
The server disconnects first, when its message has arrived.

---
`,
	table:    cli.Options(onceServerRow, portRow("where the server listens (default 7471)"), jsonRow),
	defaults: onceDefaults,
	run:      func(ctx context.Context, s *session) error { return ask(ctx, s, (*once).first) },
}

var rdmaServer = &Program{
	Name: "rdma_server", Args: "[OPTIONS]",
	Summary: "serve one client: get a message of 16 bytes and send one back; the other end may be rdma_client",
	text: `
The server disconnects first, when its message has arrived.

---
`,
	table:    cli.Options(onceListenRow, portRow("to listen on (default 7471)"), jsonRow),
	defaults: options{port: 7471},
	run:      func(ctx context.Context, s *session) error { return serve(ctx, s, (*once).second) },
}

// first sends, and then receives.
func (o *once) first(ctx context.Context) error {
	start := time.Now()
	if err := o.send(ctx); err != nil {
		return err
	}
	if err := o.receive(ctx); err != nil {
		return err
	}
	o.left(ctx)
	return o.reportMessages(start, 1, 1)
}

// second receives, and then sends.
func (o *once) second(ctx context.Context) error {
	start := time.Now()
	if err := o.receive(ctx); err != nil {
		return err
	}
	if err := o.send(ctx); err != nil {
		return err
	}
	return o.reportMessages(start, 1, 1)
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
	dst, err := s.destination(ctx)
	if err != nil {
		return err
	}
	o := &once{session: s}
	if o.conn, err = (&rdmacm.Dialer{Config: *o.config()}).Dial(ctx, dst.String()); err != nil {
		return peer.Interrupted(err)
	}
	return o.run(ctx, talk)
}

// serve serves one client.
func serve(ctx context.Context, s *session, talk func(*once, context.Context) error) error {
	s.report.Role = "server"
	l, err := rdmacm.Listen(s.listenAddress())
	if err != nil {
		return err
	}
	defer l.Close()
	o := &once{session: s}
	err = peer.AcceptFirst(ctx, l.Next, func(ctx context.Context, r *rdmacm.Request) (err error) {
		o.conn, err = r.Accept(ctx, o.config())
		return err
	}, s.passedOver)
	if err != nil {
		return peer.Interrupted(err)
	}
	return o.run(ctx, talk)
}

func (o *once) run(ctx context.Context, talk func(*once, context.Context) error) error {
	err := o.connected(o.conn.Device().Info().Name, 1)
	if err == nil {
		err = talk(o, ctx)
	}
	return errors.Join(peer.Interrupted(err), o.conn.Close())
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

// reportMessages counts and prints the messages.
func (o *once) reportMessages(start time.Time, sent, received int) error {
	o.size = onceSize
	o.report.Size = onceSize
	return o.transferred(start, sent, received)
}
