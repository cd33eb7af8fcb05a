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

// CM is the path to a peer through rdma_cm: a control connection, then one connection for
// each QP.
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
	cfg := w.control.config()
	cfg.Source = source
	_, err := rdmacm.Dial(ctx, address, cfg)
	if err != nil {
		return nil, err
	}
	return w, nil
}

// AcceptCM accepts the first client that connects to an address. It calls note for each
// client whose handshake failed. qpType is the type of the QPs that follow, because
// datagrams have a port space of their own.
func AcceptCM(ctx context.Context, address string, typ verbs.QPType, note func(error)) (*CM, error) {
	l, err := rdmacm.Listen(address, nil)
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
	l, err := rdmacm.Listen(address, &rdmacm.Config{QP: uverbs.QPOptions{Type: verbs.QPTypeUD}})
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
	return &rdmacm.Config{PD: e.pd, QP: e.qpOptions(), ResponderResources: depth, InitiatorDepth: depth, RetryCount: e.RetryCount, Source: w.source}
}

// patience sets the time that a message waits for a receive (RNR retries). rdma_cm sets it
// to the maximum. iWARP has no such time.
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

// next establishes the next connection.
func (w *CM) next(ctx context.Context, cfg *rdmacm.Config) (*rdmacm.Conn, error) {
	if w.listener != nil {
		request, err := w.listener.Next(ctx)
		if err != nil {
			return nil, err
		}
		return request.Accept(ctx, cfg)
	}
	for n := 1; ; n++ {
		conn, err := rdmacm.Dial(ctx, w.address, cfg)
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
