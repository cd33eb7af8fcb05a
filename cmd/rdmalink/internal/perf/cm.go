package perf

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/peer"
	"github.com/goverbs/goverbs/internal/perftest"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// CM is the way to a peer that rdma_cm finds: a connection for what there is to
// say, and then one for each QP.
type CM struct {
	control  *control
	address  string           // of the server, for a client
	source   netip.AddrPort   // to dial from
	listener *rdmacm.Listener // of a server
}

// DialCM is the way of a client to a server at an address such as
// "10.0.0.1:18515", from a local address if source is valid.
func DialCM(ctx context.Context, address string, source netip.AddrPort) (*CM, error) {
	w := &CM{control: &control{}, address: address, source: source}
	d := rdmacm.Dialer{LocalAddr: source, Config: *w.control.config()}
	_, err := d.Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	return w, nil
}

// AcceptCM is the way of a server to the first client that comes to an address; note is told
// of those whose handshakes failed.
// QPs of that type it will be asked for; datagrams have ports of their own.
func AcceptCM(ctx context.Context, address string, typ verbs.QPType, note func(error)) (*CM, error) {
	l, err := rdmacm.Listen(address)
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

// listenForDatagrams takes the place of the first listener: an iWARP device, if
// there is one too, lets one of them have the port only.
func (w *CM) listenForDatagrams(address string) error {
	if err := w.listener.Close(); err != nil {
		return err
	}
	l, err := (&rdmacm.ListenConfig{Config: rdmacm.Config{QP: uverbs.QPOptions{Type: verbs.QPTypeUD}}}).Listen(context.Background(), address)
	w.listener = l
	return err
}

// Device is the name of the device that rdma_cm chose.
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

// connect: the QPs are connected before their addresses are told.
func (w *CM) connect(*end, []perftest.Endpoint, []perftest.Endpoint) error { return nil }

// makePairs makes the QPs, connected.
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

// connectPairs gives up when the peer does, or goes away.
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
	return &rdmacm.Config{PD: e.pd, QP: e.qpOptions(), ResponderResources: depth, InitiatorDepth: depth, RetryCount: e.RetryCount}
}

// patience shortens the time that a message without a receive waits, which
// rdma_cm sets to the longest there is. iWARP does not know it.
func (w *CM) patience(e *end, qp *uverbs.QP) error {
	if e.iWARP() || e.Type != verbs.QPTypeRC {
		return nil
	}
	return qp.Modify(&verbs.QPAttr{MinRNRTimer: 12}, verbs.QPAttrMinRNRTimer)
}

// How often, and how long after a refusal, a client asks again: the server may
// not listen yet.
const (
	dialTries = 20
	dialPause = 100 * time.Millisecond
)

// next makes the next connection.
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
