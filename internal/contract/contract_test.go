// Package contract holds the objects of all public packages to one contract: how they close,
// refuse, wait and end.
package contract

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/internal/conntest"
	"github.com/goverbs/goverbs/msg"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
	"github.com/goverbs/goverbs/oob"
	_ "github.com/goverbs/goverbs/provider/all"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/rsocket"
	"github.com/goverbs/goverbs/transfer"
	"github.com/goverbs/goverbs/transfer/mooncake"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/valkeyrdma"
	"github.com/goverbs/goverbs/verbs"
)

// A world is a fabric of two hosts and what objects need.
type world struct {
	t   *testing.T
	f   *rdmatest.Fabric
	dev *uverbs.Device
	pd  *uverbs.PD
}

func newWorld(t *testing.T, kind rdmatest.Kind) *world {
	w := &world{t: t, f: rdmatest.NewWith(t, &rdmatest.Options{Kind: kind})}
	w.dev = got(uverbs.Open(w.f.Host(0).Device(0).Name()))(t)
	w.pd = got(w.dev.AllocPD())(t)
	t.Cleanup(func() { w.pd.Close(); w.dev.Close() })
	return w
}

func got[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// address is where the second host listens.
func (w *world) address() string { return w.f.Host(1).Addr() + ":0" }

// own closes c at the end of the test, if the test has not.
func own[T io.Closer](w *world, c T) T {
	w.t.Cleanup(func() { c.Close() })
	return c
}

func (w *world) cq() *uverbs.CQ {
	ch := own(w, got(w.dev.CreateCompChannel())(w.t))
	return own(w, got(w.dev.CreateCQ(16, &uverbs.CQOptions{Channel: ch}))(w.t))
}

func (w *world) qp() *uverbs.QP {
	cq := w.cq()
	return own(w, got(w.pd.CreateQP(&uverbs.QPOptions{SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1}}))(w.t))
}

// pair connects the hosts. The first end is of the first host.
func pair[C io.Closer](w *world, l io.Closer, accept func(context.Context) (C, error), dial func(context.Context) (C, error)) (C, C) {
	accepted := make(chan C, 1)
	go func() { accepted <- got(accept(w.t.Context()))(w.t) }()
	ctx := w.f.Host(0).Context(w.t.Context())
	a := own(w, got(dial(ctx))(w.t))
	b := own(w, <-accepted)
	own(w, l)
	return a, b
}

func (w *world) conn() (a, b *rdmacm.Conn) {
	l := got(rdmacm.Listen(w.t.Context(), w.address()))(w.t)
	return pair(w, l, l.Accept, func(ctx context.Context) (*rdmacm.Conn, error) { return rdmacm.Dial(ctx, l.Addr().String()) })
}

// engine returns an engine that is its own peer.
func (w *world) engine() *transfer.Engine {
	l := conntest.NewPipes()
	e := own(w, got(transfer.New([]*uverbs.Device{w.dev}, &transfer.Config{Dial: func(context.Context, string) (net.Conn, error) { return l.Dial(), nil }}))(w.t))
	go e.Serve(l)
	return e
}

// segment returns the segment of a Mooncake node.
func (w *world) segment() *mooncake.Segment {
	l, e := conntest.NewPipes(), w.engine()
	n := own(w, got(mooncake.NewNode(w.t.Context(), e, "node", nil))(w.t))
	go func() { _ = n.Serve(l) }()
	return got(mooncake.Open(w.t.Context(), e, "node", &mooncake.Config{Dial: func(context.Context, string) (net.Conn, error) { return l.Dial(), nil }}))(w.t)
}

func (w *world) overStream() (a, b *oob.Conn) {
	near, far := net.Pipe()
	cfg := &oob.Config{PD: w.pd}
	return pair(w, far, func(ctx context.Context) (*oob.Conn, error) { return oob.Accept(ctx, far, cfg) },
		func(ctx context.Context) (*oob.Conn, error) { return oob.Dial(ctx, near, cfg) })
}

func (w *world) stream() (a, b *rsocket.Conn) {
	l := got(rsocket.Listen(w.t.Context(), w.address()))(w.t)
	accept := func(context.Context) (net.Conn, error) { return l.Accept() }
	x, y := pair(w, l, accept, func(ctx context.Context) (net.Conn, error) { return rsocket.Dial(ctx, l.Addr().String()) })
	return x.(*rsocket.Conn), y.(*rsocket.Conn)
}

func (w *world) valkey() (a, b *valkeyrdma.Conn) {
	l := got(valkeyrdma.Listen(w.t.Context(), w.address()))(w.t)
	accept := func(context.Context) (net.Conn, error) { return l.Accept() }
	x, y := pair(w, l, accept, func(ctx context.Context) (net.Conn, error) { return valkeyrdma.Dial(ctx, l.Addr().String()) })
	return x.(*valkeyrdma.Conn), y.(*valkeyrdma.Conn)
}

func (w *world) message() (a, b *msg.Conn) {
	l := got(msg.Listen(w.t.Context(), w.address()))(w.t)
	return pair(w, l, l.Accept, func(ctx context.Context) (*msg.Conn, error) { return msg.Dial(ctx, l.Addr().String()) })
}

// An object is one that a program opens and closes.
type object struct {
	name string
	open func(w *world) io.Closer
	null io.Closer
	use  map[string]func(w *world, c io.Closer) error                      // refused after Close
	wait map[string]func(ctx context.Context, w *world, c io.Closer) error // as long as the context lasts, or until Close
}

// of makes an object of functions that know its type.
func of[T io.Closer](name string, open func(w *world) T, use map[string]func(w *world, c T) error, wait map[string]func(ctx context.Context, w *world, c T) error) object {
	var null T
	o := object{name: name, null: null, open: func(w *world) io.Closer { return own(w, open(w)) },
		use:  make(map[string]func(*world, io.Closer) error),
		wait: make(map[string]func(context.Context, *world, io.Closer) error)}
	for n, f := range use {
		o.use[n] = func(w *world, c io.Closer) error { return f(w, c.(T)) }
	}
	for n, f := range wait {
		o.wait[n] = func(ctx context.Context, w *world, c io.Closer) error { return f(ctx, w, c.(T)) }
	}
	return o
}

type (
	uses[T any]  = map[string]func(w *world, c T) error
	waits[T any] = map[string]func(ctx context.Context, w *world, c T) error
)

// fail drops a result.
func fail[T any](_ T, err error) error { return err }

var objects = []object{
	of("uverbs.Device", func(w *world) *uverbs.Device { return got(uverbs.Open(w.f.Host(0).Device(0).Name()))(w.t) }, uses[*uverbs.Device]{
		"Query":    func(_ *world, d *uverbs.Device) error { return fail(d.QueryDevice()) },
		"AllocPD":  func(_ *world, d *uverbs.Device) error { return fail(d.AllocPD()) },
		"CreateCQ": func(_ *world, d *uverbs.Device) error { return fail(d.CreateCQ(1, nil)) },
	}, waits[*uverbs.Device]{
		"AsyncEvent": func(ctx context.Context, _ *world, d *uverbs.Device) error { return fail(d.AsyncEvent(ctx)) },
	}),
	of("uverbs.PD", func(w *world) *uverbs.PD { return got(w.dev.AllocPD())(w.t) }, uses[*uverbs.PD]{
		"AllocMR": func(_ *world, p *uverbs.PD) error { return fail(p.AllocMR(4096, 0, nil)) },
	}, nil),
	of("uverbs.MR", func(w *world) *uverbs.MR { return got(w.pd.AllocMR(4096, 0, nil))(w.t) }, nil, nil),
	of("uverbs.CompChannel", func(w *world) *uverbs.CompChannel { return got(w.dev.CreateCompChannel())(w.t) }, uses[*uverbs.CompChannel]{
		"CreateCQ": func(w *world, ch *uverbs.CompChannel) error {
			return fail(w.dev.CreateCQ(1, &uverbs.CQOptions{Channel: ch}))
		},
	}, waits[*uverbs.CompChannel]{
		"Get": func(ctx context.Context, _ *world, ch *uverbs.CompChannel) error { return fail(ch.Get(ctx)) },
	}),
	of("uverbs.Endpoint", func(w *world) *uverbs.Endpoint {
		return got(w.dev.CreateEndpoint(&uverbs.EndpointOptions{SendCQEntries: 1}))(w.t)
	}, uses[*uverbs.Endpoint]{
		"CreateQP": func(_ *world, e *uverbs.Endpoint) error { return fail(e.CreateQP(nil)) },
	}, nil),
	of("uverbs.CQ", (*world).cq, uses[*uverbs.CQ]{
		"Poll": func(_ *world, cq *uverbs.CQ) error { return fail(cq.Poll(make([]verbs.WC, 1))) },
		"Arm":  func(_ *world, cq *uverbs.CQ) error { return cq.Arm(false) },
	}, waits[*uverbs.CQ]{
		"Wait": func(ctx context.Context, _ *world, cq *uverbs.CQ) error {
			return fail(cq.Wait(ctx, make([]verbs.WC, 1)))
		},
	}),
	of("uverbs.QP", (*world).qp, uses[*uverbs.QP]{
		"PostSend": func(_ *world, qp *uverbs.QP) error { return fail(qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend}})) },
		"PostRecv": func(_ *world, qp *uverbs.QP) error { return fail(qp.PostRecv([]verbs.RecvWR{{}})) },
		"Sends": func(_ *world, qp *uverbs.QP) error {
			q := qp.Sends()
			q.Send(1, 0, verbs.SGE{})
			return fail(q.Ring())
		},
		"Query": func(_ *world, qp *uverbs.QP) error { return fail(qp.Query()) },
	}, nil),
	of("uverbs.SRQ", func(w *world) *uverbs.SRQ { return got(w.pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 4, MaxSGE: 1}))(w.t) }, uses[*uverbs.SRQ]{
		"PostRecv": func(_ *world, s *uverbs.SRQ) error { return fail(s.PostRecv([]verbs.RecvWR{{}})) },
	}, nil),
	of("uverbs.MW", func(w *world) *uverbs.MW { return got(w.pd.AllocMW(verbs.MWType2))(w.t) }, nil, nil),

	of("rdmacm.Listener", func(w *world) *rdmacm.Listener { return got(rdmacm.Listen(w.t.Context(), w.address()))(w.t) }, nil, waits[*rdmacm.Listener]{
		"Accept": func(ctx context.Context, _ *world, l *rdmacm.Listener) error { return fail(l.Accept(ctx)) },
		"Next":   func(ctx context.Context, _ *world, l *rdmacm.Listener) error { return fail(l.Next(ctx)) },
	}),
	of("rdmacm.Conn", func(w *world) *rdmacm.Conn { a, _ := w.conn(); return a }, uses[*rdmacm.Conn]{
		"PostSend": func(_ *world, c *rdmacm.Conn) error {
			return fail(c.QP().PostSend([]verbs.SendWR{{Opcode: verbs.OpSend}}))
		},
		"Err": func(_ *world, c *rdmacm.Conn) error { return c.Err() },
	}, waits[*rdmacm.Conn]{
		"RecvCQ.Wait": func(ctx context.Context, _ *world, c *rdmacm.Conn) error {
			return fail(c.QP().RecvCQ().Wait(ctx, make([]verbs.WC, 1)))
		},
	}),

	of("oob.Listener", func(w *world) *oob.Listener {
		return got(oob.Listen(conntest.NewPipes(), &oob.Config{PD: w.pd}))(w.t)
	}, nil, waits[*oob.Listener]{
		"Accept": func(ctx context.Context, _ *world, l *oob.Listener) error { return fail(l.Accept(ctx)) },
	}),
	of("oob.Half", func(w *world) *oob.Half { return got(oob.Offer(&oob.Config{PD: w.pd}))(w.t) }, uses[*oob.Half]{
		"Connect": func(_ *world, h *oob.Half) error { return fail(h.Connect(nil)) },
	}, nil),
	of("oob.Conn", func(w *world) *oob.Conn { a, _ := w.overStream(); return a }, uses[*oob.Conn]{
		"PostSend": func(_ *world, c *oob.Conn) error {
			return fail(c.QP().PostSend([]verbs.SendWR{{Opcode: verbs.OpSend}}))
		},
		"Err":        func(_ *world, c *oob.Conn) error { return c.Err() },
		"Disconnect": func(_ *world, c *oob.Conn) error { return c.Disconnect() },
	}, waits[*oob.Conn]{
		"RecvCQ.Wait": func(ctx context.Context, _ *world, c *oob.Conn) error {
			return fail(c.QP().RecvCQ().Wait(ctx, make([]verbs.WC, 1)))
		},
	}),

	of("transfer.Engine", (*world).engine, uses[*transfer.Engine]{
		"Register": func(_ *world, e *transfer.Engine) error { return fail(e.Register(make([]byte, 1), 0)) },
		"Open":     func(w *world, e *transfer.Engine) error { return fail(e.Open(w.t.Context(), "peer")) },
		"Serve":    func(_ *world, e *transfer.Engine) error { return e.Serve(conntest.NewPipes()) },
		"Await":    func(w *world, e *transfer.Engine) error { return e.Await(w.t.Context(), 0, 1) },
	}, waits[*transfer.Engine]{
		"Await": func(ctx context.Context, _ *world, e *transfer.Engine) error { return e.Await(ctx, 0, 1) },
	}),
	of("transfer.Region", func(w *world) *transfer.Region { return got(w.engine().Register(make([]byte, 1), 0))(w.t) }, nil, nil),
	of("transfer.Peer", func(w *world) *transfer.Peer { return got(w.engine().Open(w.t.Context(), "peer"))(w.t) }, uses[*transfer.Peer]{
		"Submit": func(w *world, p *transfer.Peer) error { return fail(p.Submit(w.t.Context(), nil)) },
	}, nil),
	of("mooncake.Segment", (*world).segment, uses[*mooncake.Segment]{
		"Submit": func(w *world, s *mooncake.Segment) error { return fail(s.Submit(w.t.Context(), nil)) },
	}, nil),
	of("mooncake.Node", func(w *world) *mooncake.Node {
		return got(mooncake.NewNode(w.t.Context(), w.engine(), "node", nil))(w.t)
	}, uses[*mooncake.Node]{
		"Publish": func(w *world, n *mooncake.Node) error {
			return n.Publish(w.t.Context(), got(w.engine().Register(make([]byte, 1), 0))(w.t))
		},
		"Serve": func(_ *world, n *mooncake.Node) error { return n.Serve(conntest.NewPipes()) },
	}, nil),

	of("rsocket.Listener", func(w *world) *rsocket.Listener {
		return got(rsocket.Listen(w.t.Context(), w.address()))(w.t)
	}, uses[*rsocket.Listener]{
		"Accept": func(_ *world, l *rsocket.Listener) error { return fail(l.Accept()) },
	}, nil),
	of("rsocket.Conn", func(w *world) *rsocket.Conn { a, _ := w.stream(); return a }, uses[*rsocket.Conn]{
		"Read":        func(_ *world, c *rsocket.Conn) error { return fail(c.Read(make([]byte, 1))) },
		"Write":       func(_ *world, c *rsocket.Conn) error { return fail(c.Write(make([]byte, 1))) },
		"CloseWrite":  func(_ *world, c *rsocket.Conn) error { return c.CloseWrite() },
		"SetDeadline": func(_ *world, c *rsocket.Conn) error { return c.SetDeadline(time.Now()) },
		"SetLinger":   func(_ *world, c *rsocket.Conn) error { return c.SetLinger(1) },
	}, nil),

	of("valkeyrdma.Listener", func(w *world) *valkeyrdma.Listener {
		return got(valkeyrdma.Listen(w.t.Context(), w.address()))(w.t)
	}, uses[*valkeyrdma.Listener]{
		"Accept": func(_ *world, l *valkeyrdma.Listener) error { return fail(l.Accept()) },
	}, nil),
	of("valkeyrdma.Conn", func(w *world) *valkeyrdma.Conn { a, _ := w.valkey(); return a }, uses[*valkeyrdma.Conn]{
		"Read":        func(_ *world, c *valkeyrdma.Conn) error { return fail(c.Read(make([]byte, 1))) },
		"Write":       func(_ *world, c *valkeyrdma.Conn) error { return fail(c.Write(make([]byte, 1))) },
		"SetDeadline": func(_ *world, c *valkeyrdma.Conn) error { return c.SetDeadline(time.Now()) },
		"SetLinger":   func(_ *world, c *valkeyrdma.Conn) error { return c.SetLinger(1) },
	}, nil),

	of("msg.Listener", func(w *world) *msg.Listener { return got(msg.Listen(w.t.Context(), w.address()))(w.t) }, nil, waits[*msg.Listener]{
		"Accept": func(ctx context.Context, _ *world, l *msg.Listener) error { return fail(l.Accept(ctx)) },
	}),
	of("msg.Conn", func(w *world) *msg.Conn { a, _ := w.message(); return a }, uses[*msg.Conn]{
		"Send":      func(w *world, c *msg.Conn) error { return c.Send(w.t.Context(), make([]byte, 1)) },
		"Register":  func(_ *world, c *msg.Conn) error { return fail(c.Register(make([]byte, 1), 0)) },
		"SetLinger": func(_ *world, c *msg.Conn) error { return c.SetLinger(1) },
	}, waits[*msg.Conn]{
		"Recv": func(ctx context.Context, _ *world, c *msg.Conn) error { return fail(c.Recv(ctx)) },
	}),
	of("msg.Pool", func(w *world) *msg.Pool { return got(msg.NewPool(w.dev, 4, nil))(w.t) }, uses[*msg.Pool]{
		"Register": func(_ *world, p *msg.Pool) error { return fail(p.Register(make([]byte, 1), 0)) },
	}, waits[*msg.Pool]{
		"Recv": func(ctx context.Context, _ *world, p *msg.Pool) error { return fail(recvOf(p.Recv(ctx))) },
	}),
	of("msg.Region", func(w *world) *msg.Region {
		pool := own(w, got(msg.NewPool(w.dev, 4, nil))(w.t))
		return got(pool.Register(make([]byte, 64), 0))(w.t)
	}, nil, nil),

	of("netlinkrdma.Events", func(w *world) *netlinkrdma.Events {
		return got((&netlinkrdma.Client{Kernel: &nltest.Kernel{System: netlinkrdma.System{Monitor: true}}}).Subscribe())(w.t)
	}, nil, waits[*netlinkrdma.Events]{
		"Next": func(ctx context.Context, _ *world, e *netlinkrdma.Events) error { return fail(e.Next(ctx)) },
	}),
}

func recvOf(_ *msg.Conn, m *msg.Message, err error) (*msg.Message, error) { return m, err }

// eachObject runs a test on a fabric of its own.
func eachObject(t *testing.T, test func(t *testing.T, w *world, o object)) {
	for _, o := range objects {
		t.Run(o.name, func(t *testing.T) { test(t, newWorld(t, rdmatest.RXE), o) })
	}
}

// TestClose checks that Close succeeds once. The second one, and every call behind it, matches
// net.ErrClosed.
func TestClose(t *testing.T) {
	eachObject(t, func(t *testing.T, w *world, o object) {
		c := o.open(w)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		err := c.Close()
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("second Close: %v, want net.ErrClosed", err)
		}
		checkShape(t, "second Close", err)
		for name, use := range o.use {
			err := use(w, c)
			if !errors.Is(err, net.ErrClosed) {
				t.Errorf("%s after Close: %v, want net.ErrClosed", name, err)
			}
			if name != "Err" { // it returns a cause, as the Err of a context does
				checkShape(t, name, err)
			}
		}
		for name, wait := range o.wait {
			if err := wait(t.Context(), w, c); !errors.Is(err, net.ErrClosed) {
				t.Errorf("%s after Close: %v, want net.ErrClosed", name, err)
			}
		}
	})
}

// TestInlineLimit checks that a QP that takes less inline data than asked for is not created,
// although not every kernel refuses it.
func TestInlineLimit(t *testing.T) {
	for _, kind := range rdmatest.Kinds {
		t.Run(kind.String(), func(t *testing.T) {
			w := newWorld(t, kind)
			cq := w.cq()
			for _, most := range []uint32{1 << 20, math.MaxInt32 + 1, math.MaxUint32} {
				qp, err := w.pd.CreateQP(&uverbs.QPOptions{SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 4, MaxSendSGE: 1, MaxInline: most}})
				if qp != nil || err == nil || !strings.Contains(err.Error(), "nline") {
					t.Errorf("%d: %v, %v", most, qp, err)
				}
			}
		})
	}
}

// TestNoEntries checks that a CQ without entries is an error, although some drivers round its size up.
func TestNoEntries(t *testing.T) {
	for _, kind := range rdmatest.Kinds {
		t.Run(kind.String(), func(t *testing.T) {
			w := newWorld(t, kind)
			cq := w.cq()
			for _, entries := range []int{0, -1, math.MinInt32} {
				none, err := w.dev.CreateCQ(entries, nil)
				if none != nil {
					own(w, none)
				}
				for _, err := range []error{err, cq.Resize(entries)} {
					if !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "at least 1 entry") {
						t.Errorf("%d: %v", entries, err)
					}
				}
			}
		})
	}
}

// TestCloseNil checks that Close of a nil pointer is an error, and no panic.
func TestCloseNil(t *testing.T) {
	for _, o := range objects {
		err := o.null.Close()
		if !errors.Is(err, os.ErrInvalid) {
			t.Errorf("%s: %v, want os.ErrInvalid", o.name, err)
		}
		checkShape(t, o.name, err)
	}
}

// TestCloseEndsWaits checks that a call that waits ends when its object is closed, and Close does not
// wait for the network.
func TestCloseEndsWaits(t *testing.T) {
	for _, o := range objects {
		for name, wait := range o.wait {
			t.Run(o.name+"."+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, rdmatest.RXE)
					c := o.open(w)
					ended := make(chan error, 1)
					go func() { ended <- wait(context.Background(), w, c) }()
					synctest.Wait()
					start := time.Now()
					if err := c.Close(); err != nil {
						t.Error(err)
					}
					if err := <-ended; !errors.Is(err, net.ErrClosed) {
						t.Errorf("%v, want net.ErrClosed", err)
					}
					if took := time.Since(start); took > 0 {
						t.Errorf("Close took %v", took)
					}
				})
			})
		}
	}
}

// TestContexts checks that an error that a context causes matches ctx.Err() and names the operation.
// It is a time-out if the context's deadline has passed.
func TestContexts(t *testing.T) {
	check := func(t *testing.T, ctx context.Context, err error) {
		t.Helper()
		if !errors.Is(err, ctx.Err()) || err == ctx.Err() {
			t.Errorf("%v, want one that matches %v and names the operation", err, ctx.Err())
		}
		checkShape(t, "wait", err)
		var timeout interface{ Timeout() bool }
		late := ctx.Err() == context.DeadlineExceeded
		if is := errors.As(err, &timeout) && timeout.Timeout(); is != late {
			t.Errorf("%v: a time-out: %v, want %v", err, is, late)
		}
	}
	waits := func(t *testing.T, w *world, name string, wait func(context.Context) error) {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			check(t, ctx, wait(ctx))
			late, cancel := context.WithDeadline(context.Background(), time.Unix(1, 0))
			defer cancel()
			check(t, late, wait(late))
		})
	}
	eachObject(t, func(t *testing.T, w *world, o object) {
		if len(o.wait) == 0 {
			return
		}
		c := o.open(w)
		for name, wait := range o.wait {
			waits(t, w, name, func(ctx context.Context) error { return wait(ctx, w, c) })
		}
	})
	w := newWorld(t, rdmatest.RXE)
	there := w.f.Host(1).Addr() + ":7"
	waits(t, w, "rdmacm.Dial", func(ctx context.Context) error { return fail(rdmacm.Dial(ctx, there)) })
	waits(t, w, "oob.Dial", func(ctx context.Context) error {
		near, _ := net.Pipe()
		return fail(oob.Dial(ctx, near, &oob.Config{PD: w.pd}))
	})
	waits(t, w, "rsocket.Dial", func(ctx context.Context) error { return fail(rsocket.Dial(ctx, there)) })
	waits(t, w, "valkeyrdma.Dial", func(ctx context.Context) error { return fail(valkeyrdma.Dial(ctx, there)) })
	waits(t, w, "msg.Dial", func(ctx context.Context) error { return fail(msg.Dial(ctx, there)) })
}

// TestCloseDoesNotBlock checks that Close returns although the network is gone and data waits for it,
// and a reset frees everything at once.
func TestCloseDoesNotBlock(t *testing.T) {
	for name, open := range map[string]func(w *world) (c io.Closer, write func() error){
		"rdmacm": func(w *world) (io.Closer, func() error) {
			a, _ := w.conn()
			return a, func() error {
				return fail(a.QP().PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Inline: []byte("x")}}))
			}
		},
		"oob": func(w *world) (io.Closer, func() error) {
			a, _ := w.overStream()
			return a, func() error {
				return fail(a.QP().PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Inline: []byte("x")}}))
			}
		},
		"rsocket": func(w *world) (io.Closer, func() error) {
			a, _ := w.stream()
			return a, func() error { return fail(a.Write([]byte("x"))) }
		},
		"valkeyrdma": func(w *world) (io.Closer, func() error) {
			a, b := w.valkey()
			// Both have the offers of the other's buffer when data has crossed.
			_ = fail(a.Write([]byte("x")))
			_ = fail(b.Read(make([]byte, 1)))
			return a, func() error { return fail(a.Write([]byte("x"))) }
		},
		"msg": func(w *world) (io.Closer, func() error) {
			a, _ := w.message()
			return a, func() error { return a.Send(w.t.Context(), []byte("x")) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, rdmatest.RXE)
				c, write := open(w)
				heal := w.f.Partition(w.f.Host(0), w.f.Host(1))
				defer heal()
				if err := write(); err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				if err := c.Close(); err != nil {
					t.Error(err)
				}
				if took := time.Since(start); took > 0 {
					t.Errorf("Close took %v", took)
				}
			})
		})
	}
}

// TestTemporary checks that a peer that cannot be accepted ends no listener. Accept drops it or
// returns a temporary error, and takes the next peer.
func TestTemporary(t *testing.T) {
	type listener struct {
		accept func() (io.Closer, error)
		dial   func(ctx context.Context) (io.Closer, error)
	}
	for name, listen := range map[string]func(w *world) listener{
		"rdmacm": func(w *world) listener {
			l := own(w, got(rdmacm.Listen(t.Context(), w.address()))(w.t))
			return listener{func() (io.Closer, error) { return l.Accept(w.t.Context()) },
				func(ctx context.Context) (io.Closer, error) { return rdmacm.Dial(ctx, l.Addr().String()) }}
		},
		"rsocket": func(w *world) listener {
			l := own(w, got(rsocket.Listen(t.Context(), w.address()))(w.t))
			return listener{func() (io.Closer, error) { return l.Accept() },
				func(ctx context.Context) (io.Closer, error) { return rsocket.Dial(ctx, l.Addr().String()) }}
		},
		"valkeyrdma": func(w *world) listener {
			l := own(w, got(valkeyrdma.Listen(t.Context(), w.address()))(w.t))
			return listener{func() (io.Closer, error) { return l.Accept() },
				func(ctx context.Context) (io.Closer, error) { return valkeyrdma.Dial(ctx, l.Addr().String()) }}
		},
		"msg": func(w *world) listener {
			l := own(w, got(msg.Listen(t.Context(), w.address()))(w.t))
			return listener{func() (io.Closer, error) { return l.Accept(w.t.Context()) },
				func(ctx context.Context) (io.Closer, error) { return msg.Dial(ctx, l.Addr().String()) }}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, rdmatest.RXE)
			l := listen(w)
			fault := w.f.FailCM(rdmatest.CMAccept, syscall.EINVAL)
			accepted := make(chan io.Closer, 1)
			go func() {
				for {
					c, err := l.accept()
					if err == nil {
						accepted <- c
						return
					}
					var temporary interface{ Temporary() bool }
					if !errors.As(err, &temporary) || !temporary.Temporary() {
						t.Errorf("Accept: %v, which is not temporary", err)
						close(accepted)
						return
					}
				}
			}()
			ctx, cancel := context.WithTimeout(w.f.Host(0).Context(t.Context()), time.Minute)
			defer cancel()
			if c, err := l.dial(ctx); err == nil {
				c.Close()
				t.Error("the peer whose ACCEPT failed is connected")
			}
			if !fault.Struck() {
				t.Error("no ACCEPT failed")
			}
			own(w, got(l.dial(ctx))(t))
			if c := <-accepted; c != nil {
				own(w, c)
			}
		})
	}
}

// TestUnsupported checks that what a device or its driver does not have matches
// errors.ErrUnsupported, and the error names the call, the device and the driver.
func TestUnsupported(t *testing.T) {
	w := newWorld(t, rdmatest.SIW)
	cq := w.cq()
	for name, call := range map[string]func() error{
		"open XRC domain": func() error { return fail(w.dev.OpenXRCD(nil, os.O_CREATE)) },
		"query clock":     func() error { return fail(w.dev.QueryClock()) },
		"device memory":   func() error { return fail(w.dev.AllocDM(64, 1)) },
		"counters":        func() error { return fail(w.dev.CreateCounters()) },
		"MW":              func() error { return fail(w.pd.AllocMW(verbs.MWType2)) },
		"UD QP": func() error {
			return fail(w.pd.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeUD, SendCQ: cq, RecvCQ: cq}))
		},
		"resize": func() error { return cq.Resize(64) },
	} {
		err := call()
		if !errors.Is(err, errors.ErrUnsupported) || !errors.Is(err, verbs.ErrNotSupported) {
			t.Errorf("%s: %v, want one that matches errors.ErrUnsupported and verbs.ErrNotSupported", name, err)
			continue
		}
		if text := err.Error(); !strings.Contains(text, w.f.Host(0).Device(0).Name()) || !strings.Contains(text, "siw") {
			t.Errorf("%s: %q names no device or no driver", name, text)
		}
	}
	if verbs.ErrClosed != net.ErrClosed {
		t.Error("verbs.ErrClosed is not net.ErrClosed")
	}
}

// TestSends checks that with every driver, lists that are built arrive, end at a full queue, keep
// apart from those of other goroutines, and are refused after Close.
func TestSends(t *testing.T) {
	for _, kind := range []rdmatest.Kind{rdmatest.RXE, rdmatest.SIW, rdmatest.ERDMA, rdmatest.MLX5} {
		t.Run(fmt.Sprint(kind), func(t *testing.T) {
			w := newWorld(t, kind)
			a, b := w.conn()
			qp, most := a.QP(), int(a.QP().Cap().MaxSendWR)
			from := own(w, got(qp.PD().AllocMR(64, verbs.AccessLocalWrite, nil))(t))
			to := own(w, got(b.QP().PD().AllocMR(64, verbs.AccessLocalWrite|verbs.AccessRemoteWrite, nil))(t))
			copy(from.Bytes(), "memory, ")
			took := func(cq *uverbs.CQ, n int) (ids []uint64) {
				t.Helper()
				for wcs := make([]verbs.WC, 16); len(ids) < n; {
					for _, wc := range wcs[:got(cq.Wait(t.Context(), wcs))(t)] {
						if wc.Err() != nil {
							t.Fatal(wc.Err())
						}
						ids = append(ids, wc.WRID)
					}
				}
				return ids
			}

			_ = got(b.QP().PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{to.SGE(32, 8)}}, {SGL: []verbs.SGE{to.SGE(40, 8)}}}))(t)
			q := qp.Sends()
			q.Write(1, verbs.SendSignaled, from.SGE(0, 8), to.Addr(), to.RKey())
			q.WriteInline(2, verbs.SendSignaled, []byte("inline, "), to.Addr()+8, to.RKey())
			q.Send(3, verbs.SendSignaled, from.SGE(0, 8))
			q.SendInline(4, verbs.SendSignaled, []byte("inline. "))
			if n, err := q.Ring(); n != 4 || err != nil {
				t.Fatal(n, err)
			}
			if ids := took(qp.SendCQ(), 4); !slices.Equal(ids, []uint64{1, 2, 3, 4}) {
				t.Error(ids)
			}
			took(b.QP().RecvCQ(), 2)
			q.Write(5, verbs.SendSignaled, from.SGE(0, 8), to.Addr(), to.RKey())
			if n, err := q.Ring(); n != 0 || !errors.Is(err, syscall.EINVAL) { // Ring ended the list
				t.Error(n, err)
			}
			if text := string(to.Bytes()[:16]) + string(to.Bytes()[32:48]); text != "memory, inline, memory, inline. " {
				t.Errorf("%q arrived", text)
			}

			more := 3
			if kind == rdmatest.ERDMA { // takes more sends of one block than it says, and has no completions for them
				more = 0
			}
			q = qp.Sends()
			for i := range most + more {
				q.Write(uint64(i), verbs.SendSignaled, from.SGE(0, 8), to.Addr(), to.RKey())
			}
			n, err := q.Ring()
			if n != most || errors.Is(err, verbs.ErrQueueFull) != (more > 0) {
				t.Errorf("%d of %d: %v", n, most, err)
			}
			took(qp.SendCQ(), n)

			const users = 3
			var all sync.WaitGroup
			lists := most / users / 2
			for g := range users {
				all.Go(func() {
					for i := range lists {
						id := uint64(2 * (g*lists + i))
						q := qp.Sends()
						q.WriteInline(id, verbs.SendSignaled, []byte("x"), to.Addr(), to.RKey())
						runtime.Gosched()
						q.Write(id+1, verbs.SendSignaled, from.SGE(0, 8), to.Addr(), to.RKey())
						if n, err := q.Ring(); n != 2 || err != nil {
							t.Error(n, err)
						}
					}
				})
			}
			all.Wait()
			if t.Failed() {
				return
			}
			for ids := range slices.Chunk(took(qp.SendCQ(), users*lists*2), 2) {
				if ids[0]%2 != 0 || ids[1] != ids[0]+1 {
					t.Errorf("%d of two lists", ids)
				}
			}

			if err := errors.Join(from.Close(), to.Close(), a.Close()); err != nil {
				t.Fatal(err)
			}
			q = qp.Sends()
			q.Write(1, 0, verbs.SGE{Length: 8}, to.Addr(), to.RKey())
			q.SendInline(1, 0, []byte("x"))
			if n, err := q.Ring(); n != 0 || !errors.Is(err, net.ErrClosed) {
				t.Errorf("after Close: %d, %v", n, err)
			}
		})
	}
}

// TestHooks checks that the hooks that rdmacm and msg set belong to them alone.
func TestHooks(t *testing.T) {
	for _, typ := range []reflect.Type{reflect.TypeFor[*uverbs.QP](), reflect.TypeFor[*uverbs.CQ]()} {
		for _, name := range []string{"OnError", "End", "Wake"} {
			if _, ok := typ.MethodByName(name); ok {
				t.Errorf("%v has the method %s", typ, name)
			}
		}
	}
}

// TestDurations checks that every time in a configuration is a time.Duration.
func TestDurations(t *testing.T) {
	named := []string{"Timeout", "Delay", "KeepAlive", "Linger", "Interval", "Period", "Limit"}
	for _, typ := range configs {
		for i := range typ.NumField() {
			f := typ.Field(i)
			if f.IsExported() && slices.ContainsFunc(named, func(s string) bool { return strings.HasSuffix(f.Name, s) }) && f.Type != reflect.TypeFor[time.Duration]() {
				t.Errorf("%v.%s is a %v, want a time.Duration", typ, f.Name, f.Type)
			}
		}
	}
}

var configs = []reflect.Type{
	reflect.TypeFor[rdmacm.Config](), reflect.TypeFor[rdmacm.Dialer](), reflect.TypeFor[rdmacm.ListenConfig](),
	reflect.TypeFor[rsocket.Config](), reflect.TypeFor[rsocket.Dialer](), reflect.TypeFor[rsocket.ListenConfig](),
	reflect.TypeFor[valkeyrdma.Config](), reflect.TypeFor[valkeyrdma.Dialer](), reflect.TypeFor[valkeyrdma.ListenConfig](),
	reflect.TypeFor[msg.Config](), reflect.TypeFor[msg.Dialer](), reflect.TypeFor[msg.ListenConfig](), reflect.TypeFor[rdmatest.Options](),
}

// TestDialing checks that the packages that connect have dialers and listeners of one shape.
func TestDialing(t *testing.T) {
	for name, c := range map[string]struct {
		types  []reflect.Type
		fields []string
		method string
	}{
		"Dialer": {[]reflect.Type{reflect.TypeFor[rdmacm.Dialer](), reflect.TypeFor[rsocket.Dialer](), reflect.TypeFor[valkeyrdma.Dialer](), reflect.TypeFor[msg.Dialer]()},
			[]string{"Timeout", "LocalAddr", "Resolver", "FallbackDelay"}, "Dial"},
		"ListenConfig": {[]reflect.Type{reflect.TypeFor[rdmacm.ListenConfig](), reflect.TypeFor[rsocket.ListenConfig](), reflect.TypeFor[valkeyrdma.ListenConfig](), reflect.TypeFor[msg.ListenConfig]()},
			[]string{"Resolver", "Backlog"}, "Listen"},
	} {
		for _, typ := range c.types {
			for _, field := range append(c.fields, "Config") {
				f, ok := typ.FieldByName(field)
				first, _ := c.types[0].FieldByName(field)
				if !ok || field != "Config" && f.Type != first.Type || field == "Config" && !f.Anonymous {
					t.Errorf("%v.%s is a %v, want a %v as in %v", typ, field, f.Type, first.Type, c.types[0])
				}
			}
			m, ok := reflect.PointerTo(typ).MethodByName(c.method)
			if !ok || m.Type.NumIn() != 3 || m.Type.NumOut() != 2 || m.Type.Out(0).Kind() != reflect.Pointer {
				t.Errorf("%v has no method %s(ctx, address) that returns a concrete type: %v", name, c.method, m.Type)
			}
		}
	}
}

// TestPrint checks that an object may be printed open and closed, and while another goroutine closes
// it. It prints a line.
func TestPrint(t *testing.T) {
	eachObject(t, func(t *testing.T, w *world, o object) {
		c := o.open(w)
		show := func() {
			for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
				if s := fmt.Sprintf(format, c); s == "" || len(s) > 300 || strings.ContainsAny(s, "\n{") || strings.Contains(s, "PANIC") {
					t.Errorf("%s: %d bytes: %.300q", format, len(s), s)
				}
			}
			var text, fields bytes.Buffer
			slog.New(slog.NewTextHandler(&text, nil)).Info("x", "c", c)
			slog.New(slog.NewJSONHandler(&fields, nil)).Info("x", "c", c)
			if text.Len() > 400 || fields.Len() > 400 {
				t.Errorf("slog prints %d and %d bytes: %.300q %.300q", text.Len(), fields.Len(), &text, &fields)
			}
		}
		show()
		closed := make(chan error)
		go func() { closed <- c.Close() }()
		show()
		if err := <-closed; err != nil {
			t.Error(err)
		}
		show()
	})
}
