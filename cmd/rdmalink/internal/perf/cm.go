package perf

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/peer"
	"github.com/goverbs/goverbs/internal/giveup"
	"github.com/goverbs/goverbs/internal/perftest"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// CM is the path to a peer through rdma_cm: a control connection, then one connection for
// each QP.
type CM struct {
	control  *control
	address  string           // of the server, for a client
	source   netip.AddrPort   // to dial from
	listener *rdmacm.Listener // of a server
}

// DialCM connects a client to a server at an address such as "10.0.0.1:18515", from a local
// address if source is valid.
func DialCM(ctx context.Context, address string, source netip.AddrPort) (*CM, error) {
	w := &CM{control: &control{}, address: address, source: source}
	d := rdmacm.Dialer{LocalAddr: source, Config: *w.control.config()}
	_, err := d.Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	return w, nil
}

// AcceptCM accepts the first client that connects to an address. It calls note for each
// client whose handshake failed. qpType is the type of the QPs that follow, because
// datagrams have a port space of their own.
func AcceptCM(ctx context.Context, address string, typ verbs.QPType, note func(error)) (*CM, error) {
	l, err := rdmacm.Listen(ctx, address)
	if err != nil {
		return nil, err
	}
	w := &CM{control: &control{}, listener: l}
	err = peer.AcceptFirst(ctx, l.Next, func(ctx context.Context, r *rdmacm.Request) error {
		w.control = &control{}
		_, err := r.Accept(ctx, w.control.config())
		return err
	}, note)
	if err == nil && typ == verbs.QPTypeUD {
		if err = w.listenForDatagrams(address); err != nil {
			w.Leave(err)
		}
	}
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// listenForDatagrams replaces the first listener, because with an iWARP device present only
// one of the two listeners can have the port.
func (w *CM) listenForDatagrams(address string) error {
	if err := w.listener.Close(); err != nil {
		return err
	}
	l, err := (&rdmacm.ListenConfig{Config: rdmacm.Config{QP: uverbs.QPOptions{Type: verbs.QPTypeUD}}}).Listen(context.Background(), address)
	w.listener = l
	return err
}

// Device returns the name of the device that rdma_cm chose.
func (w *CM) Device() string { return w.device().Info().Name }

// Close ends all connections.
func (w *CM) Close() error {
	var err error
	if w.control.conn != nil {
		err = w.control.conn.Close()
	}
	if w.listener != nil {
		err = errors.Join(err, w.listener.Close())
	}
	return err
}

func (w *CM) device() *uverbs.Device { return w.control.conn.Device() }

func (w *CM) session(o *Options) *perftest.Session {
	test := o.Test
	test.CM = true
	return perftest.OverCM(w.control, w.control.conn.RemoteAddr().String(), o.Role, test)
}

func (w *CM) endpoints(e *end) []perftest.Endpoint { return e.endpoints(nil) }

// connect has nothing to do: the QPs were connected before the endpoints were exchanged.
func (w *CM) connect(*end, []perftest.Endpoint, []perftest.Endpoint) error { return nil }

// makePairs creates and connects the QPs.
//
// C: create_rdma_cm_connection
func (w *CM) makePairs(ctx context.Context, session *perftest.Session, e *end) error {
	if err := session.SyncCM(ctx); err != nil {
		return err
	}
	if err := w.connectPairs(ctx, e); err != nil {
		return err
	}
	return session.SyncCM(ctx)
}

// connectPairs stops when the peer fails or leaves.
func (w *CM) connectPairs(ctx context.Context, e *end) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer w.watch(cancel)()
	for _, f := range e.flows {
		if err := w.connectPair(ctx, e, f); err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return fmt.Errorf("connect QP %d of %d: %w", f.index+1, e.QPCount, err)
		}
	}
	return nil
}

func (w *CM) connectPair(ctx context.Context, e *end, f *flow) error {
	cfg := w.config(e)
	cfg.Prepare = func(conn *rdmacm.Conn) error { return e.expectClient(f, conn) }
	conn, err := w.next(ctx, cfg)
	if err != nil {
		return err
	}
	f.qp, f.close = conn.QP(), conn.Close
	return errors.Join(w.patience(e, f.qp), e.acquaint(ctx, f, conn))
}

func (w *CM) config(e *end) *rdmacm.Config {
	depth := -1 // none
	if e.Verb == perftest.Read || e.Verb == perftest.Atomic {
		depth = e.OutReads
	}
	return &rdmacm.Config{PD: e.PD, QP: e.qpOptions(), ResponderResources: depth, InitiatorDepth: depth, TransportOptions: rdmacm.TransportOptions{RetryCount: e.RetryCount}}
}

// patience sets the time that a message waits for a receive (RNR retries). rdma_cm sets it
// to the maximum. iWARP has no such time.
func (w *CM) patience(e *end, qp *uverbs.QP) error {
	if e.iWARP() || e.Type != verbs.QPTypeRC {
		return nil
	}
	return qp.Modify(&verbs.QPAttr{RNRTimer: 640 * time.Microsecond}, verbs.QPAttrRNRTimer)
}

// How often, and how long after a refusal, a client asks again: the server may
// not listen yet.
const (
	dialTries = 20
	dialPause = 100 * time.Millisecond
)

// next establishes the next connection.
func (w *CM) next(ctx context.Context, cfg *rdmacm.Config) (*rdmacm.Conn, error) {
	if w.listener != nil {
		request, err := w.listener.Next(ctx)
		if err != nil {
			return nil, err
		}
		return request.Accept(ctx, cfg)
	}
	d := rdmacm.Dialer{LocalAddr: w.source, Config: *cfg}
	for n := 1; ; n++ {
		conn, err := d.Dial(ctx, w.address)
		if err == nil || n == dialTries || !errors.Is(err, syscall.ECONNREFUSED) {
			return conn, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(dialPause):
		}
	}
}

// Leave sends the peer the reason why this end fails, if the peer is still
// connected.
func (w *CM) Leave(why error) {
	if giveup.Is(why) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), wordLimit)
	defer cancel()
	if w.listener != nil && w.control.awaitFirst(ctx) != nil {
		return // the peer has left, or never sends
	}
	_ = w.control.Send(ctx, giveup.Message(why))
}

// watch calls heard when the peer fails or leaves, until the returned function is
// called.
func (w *CM) watch(heard func(error)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := w.control.listen(ctx); ctx.Err() == nil {
			heard(err)
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// For datagrams, rdma_cm gives only the client the address of the server. If the
// server sends too, the client first sends it a datagram with its QP number as
// immediate data.

// answered reports whether the server sends.
func (o *Options) answered() bool { return o.Latency || o.Bidirectional }

const introduction = 4 // bytes, whose content is ignored

// expectClient posts the receive for a client's first datagram.
//
// C: rdma_cm_request_ud_connection_parameters
func (e *end) expectClient(f *flow, conn *rdmacm.Conn) error {
	if e.Type != verbs.QPTypeUD || !e.answered() || e.client() {
		return nil
	}
	sge := e.mr.SGE(e.front+f.index*e.part, uverbs.GRHSize+introduction)
	_, err := conn.QP().PostRecv([]verbs.RecvWR{{WRID: uint64(f.index), SGL: []verbs.SGE{sge}}})
	return err
}

// acquaint exchanges the addresses of a flow's ends.
func (e *end) acquaint(ctx context.Context, f *flow, conn *rdmacm.Conn) error {
	switch {
	case e.Type != verbs.QPTypeUD:
		return nil
	case e.client():
		p := conn.Peer()
		f.to = datagramPeer{p.AH, p.QPN, p.QKey, 0}
		if !e.answered() {
			return nil
		}
		return e.introduce(ctx, f)
	case e.answered():
		return e.meetClient(ctx, f)
	}
	return nil
}

// C: rdma_cm_send_ud_connection_parameters
func (e *end) introduce(ctx context.Context, f *flow) error {
	wr := verbs.SendWR{WRID: uint64(f.index), Opcode: verbs.OpSendImm, Flags: verbs.SendSignaled, Imm: f.qp.QPN(),
		SGL: []verbs.SGE{e.mr.SGE(f.index*e.part, introduction)}, AH: f.to.ah, RemoteQPN: f.to.qpn, RemoteQKey: f.to.qkey}
	if _, err := f.qp.PostSend([]verbs.SendWR{wr}); err != nil {
		return err
	}
	_, err := e.await(ctx, e.sendCQ)
	return err
}

// C: rdma_cm_initialize_ud_connection_parameters
func (e *end) meetClient(ctx context.Context, f *flow) error {
	wc, err := e.await(ctx, e.recvCQ)
	if err != nil {
		return fmt.Errorf("wait for the client's first datagram: %w", err)
	}
	qpn, err := introduced(&wc)
	if err != nil {
		return err
	}
	ah, err := e.PD.AHFromWC(e.Port, &wc, e.mr.Bytes()[e.front+f.index*e.part:][:uverbs.GRHSize])
	if err != nil {
		return err
	}
	attr, err := f.qp.Query()
	if err != nil {
		return err
	}
	f.to = datagramPeer{ah, qpn, attr.QKey, 0}
	return nil
}

// introduced returns the number of the client's QP, from the immediate data of its first
// datagram.
func introduced(wc *verbs.WC) (uint32, error) {
	switch {
	case wc.Flags&verbs.WCWithImm == 0:
		return 0, fmt.Errorf("the client's first datagram has no immediate data, which should be the number of its QP")
	case wc.Imm > maxQPN:
		return 0, fmt.Errorf("the client's first datagram has %#x as immediate data, which is not a QP number", wc.Imm)
	}
	return wc.Imm, nil
}

// maxQPN is the largest number of a QP that a packet has room for.
const maxQPN = 1<<24 - 1

// await takes one completion, before the test.
func (e *end) await(ctx context.Context, cq *uverbs.CQ) (verbs.WC, error) {
	var wcs [1]verbs.WC
	for {
		n, err := cq.Poll(wcs[:])
		switch {
		case err != nil:
			return wcs[0], err
		case n > 0:
			return wcs[0], wcs[0].Err()
		case ctx.Err() != nil:
			return wcs[0], ctx.Err()
		}
		runtime.Gosched()
	}
}
