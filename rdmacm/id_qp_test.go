package rdmacm

import (
	"context"
	"encoding/binary"
	"io"
	"net/netip"
	"testing"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// The peer learns of the attached queue pair's SRQ, whatever ConnParam says.
func TestAttachedSRQ(t *testing.T) {
	for want, srq := range map[uint8]*uverbs.SRQ{0: nil, 1: new(uverbs.SRQ)} {
		k := newFake()
		id := newTestID(t, k)
		if err := id.attach(&fakeQP{srq: srq}, readLimits{16, 16}); err != nil {
			t.Fatal(err)
		}
		if err := id.Connect(t.Context(), &ConnParam{SRQ: srq == nil}); err != nil {
			t.Fatal(err)
		}
		if c := body[abi.RdmaUcmConnect](k, abi.RDMA_USER_CM_CMD_CONNECT).ConnParam; c.Srq != want || c.QpNum != 42 {
			t.Errorf("SRQ %d, want %d, QP %d", c.Srq, want, c.QpNum)
		}
	}
}

// Where the kernel has nothing to set, the queue pair stays as it is.
func TestNothingToSet(t *testing.T) {
	k := newFake()
	k.noMask = true
	qp := new(fakeQP)
	if err := newTestID(t, k).attach(qp, readLimits{16, 16}); err != nil || len(qp.states) != 0 {
		t.Errorf("moved to %v, %v", qp.states, err)
	}
}

// xrcSide is one side of a connection of XRC. Its objects are closed when the test ends.
type xrcSide struct {
	t   *testing.T
	ch  *EventChannel
	id  *ID
	dev *uverbs.Device
	pd  *uverbs.PD
	cq  *uverbs.CQ
	mr  *uverbs.MR
	qp  *uverbs.QP
}

// TestXRC checks that a queue pair that only sends is connected to one of a domain, and its message
// finds the SRQ that it names.
func TestXRC(t *testing.T) {
	f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.MLX5})
	server, client := newXRCSide(t, f.Host(1), verbs.QPTypeXRCTarget), newXRCSide(t, f.Host(0), verbs.QPTypeXRCInitiator)
	noErr(t, server.id.Bind(netip.MustParseAddrPort(f.Host(1).Addr()+":0")))
	noErr(t, server.id.Listen(0))
	at := value(server.id.QueryAddr())(t).Local

	noErr(t, client.id.ResolveAddr(netip.AddrPort{}, at, time.Minute))
	client.next(EventAddrResolved)
	noErr(t, client.id.ResolveRoute(time.Minute))
	client.next(EventRouteResolved)
	client.open()
	client.qp = value(client.pd.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeXRCInitiator, SendCQ: client.cq, Cap: verbs.QPCap{MaxSendWR: 1, MaxSendSGE: 1}}))(t)
	client.attach()
	noErr(t, client.id.Connect(t.Context(), nil))

	listening := server.id
	server.id = server.next(EventConnectRequest).ID
	server.later(server.id.Close, listening.Close)
	server.open()
	domain := value(server.dev.OpenXRCD(nil, 0))(t)
	server.later(domain.Close)
	srq := value(server.pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 1, MaxSGE: 1, XRCD: domain, CQ: server.cq}))(t)
	server.later(srq.Close)
	value(srq.PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{server.mr.SGE(0, 64)}}}))(t)
	server.qp = value(domain.CreateQP())(t)
	server.attach()
	noErr(t, server.id.Accept(&ConnParam{PrivateData: binary.BigEndian.AppendUint32(nil, srq.Num())}))
	ev := client.next(EventEstablished)
	server.next(EventEstablished)

	copy(client.mr.Bytes(), "to one of your processes")
	value(client.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{client.mr.SGE(0, 24)},
		SRQN: binary.BigEndian.Uint32(ev.Param.PrivateData)}}))(t)
	client.completed()
	if wc := server.completed(); wc.QPN != server.qp.QPN() || string(server.mr.Bytes()[:wc.ByteLen]) != "to one of your processes" {
		t.Errorf("%+v, %q", wc, server.mr.Bytes()[:24])
	}
	noErr(t, client.id.Disconnect())
	server.next(EventDisconnected)
	noErr(t, server.id.Disconnect())
	client.next(EventDisconnected)
	if attr, err := server.qp.Query(); err != nil || attr.State != verbs.QPStateErr {
		t.Errorf("the target is %v, %v", attr, err)
	}
}

func newXRCSide(t *testing.T, h *rdmatest.Host, typ verbs.QPType) *xrcSide {
	s := &xrcSide{t: t, ch: value(openChannel(kernel.Owner(netip.MustParseAddr(h.Addr()))))(t)}
	s.later(s.ch.Close)
	s.id = value(s.ch.NewID(verbs.PortSpaceIB, typ))(t)
	if typ == verbs.QPTypeXRCInitiator {
		s.later(s.id.Close)
	}
	return s
}

// open creates the objects of the side on the device of its ID.
func (s *xrcSide) open() {
	s.t.Helper()
	addr := value(s.id.QueryAddr())(s.t)
	s.dev = value(uverbs.OpenIndex(addr.DeviceIndex, addr.NodeGUID))(s.t)
	s.pd = value(s.dev.AllocPD())(s.t)
	channel := value(s.dev.CreateCompChannel())(s.t)
	s.cq = value(s.dev.CreateCQ(1, &uverbs.CQOptions{Channel: channel}))(s.t)
	s.mr = value(s.pd.AllocMR(64, verbs.AccessLocalWrite, nil))(s.t)
	for _, c := range []io.Closer{s.dev, s.pd, channel, s.cq, s.mr} {
		s.later(c.Close)
	}
}

func (s *xrcSide) attach() {
	s.t.Helper()
	s.later(s.qp.Close)
	noErr(s.t, s.id.AttachQP(s.qp))
	s.later(func() error { s.id.DetachQP(); return nil })
}

// later registers an object to close at the end of the test, the last one first.
func (s *xrcSide) later(all ...func() error) {
	for _, close := range all {
		s.t.Cleanup(func() { noErr(s.t, close()) })
	}
}

func (s *xrcSide) next(want EventType) *Event {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	ev := value(s.ch.Get(ctx))(s.t)
	ev.Ack()
	if ev.Type != want || ev.Err != nil {
		s.t.Fatalf("%v (%v), want %v", ev.Type, ev.Err, want)
	}
	return ev
}

func (s *xrcSide) completed() verbs.WC {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	var wcs [1]verbs.WC
	value(s.cq.Wait(ctx, wcs[:]))(s.t)
	noErr(s.t, wcs[0].Err())
	return wcs[0]
}

func noErr(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func value[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		noErr(t, err)
		return v
	}
}
