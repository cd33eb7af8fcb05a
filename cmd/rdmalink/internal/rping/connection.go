package rping

import (
	"context"
	"io"
	"net/netip"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
)

// connection is the part of an rdmacm.Conn, or of an ownConn, that an end uses.
type connection interface {
	LocalAddr() netip.AddrPort
	RemoteAddr() netip.AddrPort
	Device() *uverbs.Device
	PD() *uverbs.PD
	QP() *uverbs.QP
	SendCQ() *uverbs.CQ
	RecvCQ() *uverbs.CQ
	Own(io.Closer)
	Done() <-chan struct{}
	Err() error
	Close() error
}

// listener is where clients come from.
type listener interface {
	Next(context.Context) (*request, error)
	Close() error
}

// request is a client's.
type request struct {
	from   netip.AddrPort
	accept func(context.Context, *end) error
	reject func() error
}

// requests is an rdmacm.Listener.
type requests struct{ *rdmacm.Listener }

func listen(_ context.Context, address string) (listener, error) {
	l, err := rdmacm.Listen(address, nil)
	if err != nil {
		return nil, err
	}
	return requests{l}, nil
}

func (l requests) Next(ctx context.Context) (*request, error) {
	r, err := l.Listener.Next(ctx)
	if err != nil {
		return nil, err
	}
	return &request{
		from: r.RemoteAddr,
		accept: func(ctx context.Context, e *end) error {
			_, err := r.Accept(ctx, e.config())
			return err
		},
		reject: func() error { return r.Reject(nil) },
	}, nil
}
