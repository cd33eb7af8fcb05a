package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/test/bench/ring/rounds"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
	"github.com/goverbs/goverbs/verbs/flow"
)

// pair is a device that is connected to itself through rdma_cm. Its memory has a part for sends,
// followed by a part for receives.
type pair struct {
	channel                  *rdmacm.EventChannel
	mr                       *uverbs.MR
	active, passive          *uverbs.QP
	sendCQ, recvCQ           *uverbs.CQ
	listener, dialed, called *rdmacm.ID
	typ                      verbs.QPType
}

const memorySize = 2 * rounds.Depth * rounds.Message

// connect creates a pair on dev, whose interface has the address.
func connect(dev *uverbs.Device, addr netip.Addr) (*pair, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p := &pair{}
	for _, step := range []func() error{
		func() error { return p.objects(dev) },
		func() error { return p.listen(addr) },
		func() error { return p.resolve(ctx) },
		func() error { return p.call(ctx) },
		func() error { return p.answer(ctx) },
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	time.Sleep(settle)
	return p, nil
}

const (
	patience = 10 * time.Second
	settle   = 50 * time.Millisecond // siw can miss packets that arrive while it takes over the socket
)

func (p *pair) objects(dev *uverbs.Device) error {
	pd, err := dev.AllocPD()
	if err != nil {
		return err
	}
	if p.mr, err = pd.AllocMR(memorySize, verbs.AccessLocalWrite|verbs.AccessRemoteWrite, nil); err != nil {
		return err
	}
	events, err := dev.CreateCompChannel()
	if err != nil {
		return err
	}
	if p.sendCQ, err = dev.CreateCQ(rounds.Depth, &uverbs.CQOptions{Channel: events}); err != nil {
		return err
	}
	if p.recvCQ, err = dev.CreateCQ(rounds.Depth, &uverbs.CQOptions{Channel: events}); err != nil {
		return err
	}
	if p.active, err = queues(pd, p.sendCQ, p.typ); err != nil {
		return err
	}
	p.passive, err = queues(pd, p.recvCQ, p.typ)
	return err
}

func queues(pd *uverbs.PD, cq *uverbs.CQ, typ verbs.QPType) (*uverbs.QP, error) {
	return pd.CreateQP(&uverbs.QPOptions{Type: typ, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: rounds.Depth,
		MaxRecvWR: rounds.Depth, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInline: rounds.Message}})
}

func (p *pair) listen(addr netip.Addr) (err error) {
	if p.channel, err = rdmacm.NewEventChannel(); err != nil {
		return err
	}
	if p.listener, err = p.channel.NewID(verbs.PortSpaceTCP, 0); err != nil {
		return err
	}
	if err := p.listener.Bind(netip.AddrPortFrom(addr, 0)); err != nil {
		return err
	}
	return p.listener.Listen(1)
}

func (p *pair) resolve(ctx context.Context) error {
	at, err := p.listener.QueryAddr()
	if err != nil {
		return err
	}
	if p.dialed, err = p.channel.NewID(verbs.PortSpaceTCP, 0); err != nil {
		return err
	}
	if err := p.dialed.ResolveAddr(netip.AddrPort{}, at.Local, patience); err != nil {
		return err
	}
	if _, err := p.expect(ctx, rdmacm.EventAddrResolved); err != nil {
		return err
	}
	if err := p.dialed.ResolveRoute(patience); err != nil {
		return err
	}
	_, err = p.expect(ctx, rdmacm.EventRouteResolved)
	return err
}

func (p *pair) call(ctx context.Context) error {
	if err := p.dialed.AttachQP(p.active); err != nil {
		return err
	}
	return p.dialed.Connect(ctx, nil)
}

func (p *pair) answer(ctx context.Context) (err error) {
	if p.called, err = p.expect(ctx, rdmacm.EventConnectRequest); err != nil {
		return err
	}
	if err := p.called.AttachQP(p.passive); err != nil {
		return err
	}
	if err := p.called.Accept(nil); err != nil {
		return err
	}
	for range 2 { // one from each end
		if _, err := p.expect(ctx, rdmacm.EventEstablished); err != nil {
			return err
		}
	}
	return nil
}

// expect waits for an event and returns its ID. The event must have the given type.
func (p *pair) expect(ctx context.Context, want rdmacm.EventType) (*rdmacm.ID, error) {
	ev, err := p.channel.Get(ctx)
	if err != nil {
		return nil, fmt.Errorf("wait for %v: %w", want, err)
	}
	defer ev.Ack()
	if ev.Type != want {
		return nil, fmt.Errorf("%v (%w) instead of %v", ev.Type, ev.Err, want)
	}
	return ev.ID, ev.Err
}

// mac is the destination address of frames.
var mac = [6]byte{2, 0, 0, 0, 0, 1}

// loop creates two raw packet queue pairs. The second one receives the frames of the first.
func loop(dev *uverbs.Device) (*pair, error) {
	p := &pair{typ: verbs.QPTypeRawPacket}
	if err := p.objects(dev); err != nil {
		return nil, err
	}
	for i := range rounds.Depth {
		copy(p.mr.Bytes()[i*rounds.Message:], mac[:])
		copy(p.mr.Bytes()[i*rounds.Message+12:], []byte{0x88, 0xb5})
	}
	err := errors.Join(p.active.Init(nil), p.active.Connect(nil), p.passive.Init(nil), p.passive.Connect(nil))
	if err != nil {
		return nil, err
	}
	_, err = p.passive.CreateFlow(&uverbs.FlowOptions{Specs: []flow.Spec{
		&flow.Eth{Val: flow.EthFields{DstMAC: mac}, Mask: flow.EthFields{DstMAC: [6]byte{255, 255, 255, 255, 255, 255}}}}})
	return p, err
}
