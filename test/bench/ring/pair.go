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
	size                     int         // of a message
	ah                       *uverbs.AH  // of the device itself, for datagrams and DC
	srq                      *uverbs.SRQ // of the target of DC
}

const memorySize = 2 * rounds.Depth * rounds.Message

// connect creates a pair on dev, whose interface has the address.
func connect(dev *uverbs.Device, addr netip.Addr) (*pair, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p := &pair{size: rounds.Message}
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

// objects creates a queue pair for each CQ.
func (p *pair) objects(dev *uverbs.Device) error {
	e, err := p.shared(dev)
	if err != nil {
		return err
	}
	opts := uverbs.QPOptions{Type: p.typ, SendCQ: p.sendCQ, RecvCQ: p.sendCQ, Cap: verbs.QPCap{MaxSendWR: rounds.Depth,
		MaxRecvWR: rounds.Depth, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInline: uint32(p.size)}}
	if p.active, err = e.CreateQP(&opts); err != nil {
		return err
	}
	opts.SendCQ, opts.RecvCQ = p.recvCQ, p.recvCQ
	p.passive, err = e.CreateQP(&opts)
	return err
}

// shared creates what both ends share.
func (p *pair) shared(dev *uverbs.Device) (*uverbs.Endpoint, error) {
	e, err := dev.CreateEndpoint(&uverbs.EndpointOptions{SendCQEntries: rounds.Depth, RecvCQEntries: rounds.Depth})
	if err != nil {
		return nil, err
	}
	p.sendCQ, p.recvCQ = e.SendCQ, e.RecvCQ
	p.mr, err = e.PD.AllocMR(memorySize, verbs.AccessLocalWrite|verbs.AccessRemoteWrite, nil)
	return e, err
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

// loopFrames creates two raw packet queue pairs. The second one receives the frames of the first.
func loopFrames(dev *uverbs.Device) (*pair, error) {
	p := &pair{typ: verbs.QPTypeRawPacket, size: rounds.Message}
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

const qkey = 0x11111111

// loopDatagrams creates two queue pairs for datagrams to the device itself. Receives have room for the header, too.
func loopDatagrams(dev *uverbs.Device) (*pair, error) {
	p := &pair{typ: verbs.QPTypeUD, size: rounds.Message - uverbs.GRHSize}
	if err := p.objects(dev); err != nil {
		return nil, err
	}
	gid, err := dev.QueryGID(1, 0)
	if err != nil {
		return nil, err
	}
	if p.ah, err = p.mr.PD().CreateAH(&verbs.AHAttr{Port: 1, Global: true, DGID: gid.GID}); err != nil {
		return nil, err
	}
	for _, qp := range []*uverbs.QP{p.active, p.passive} {
		if err := errors.Join(qp.Init(&verbs.QPAttr{QKey: qkey}), qp.Connect(nil)); err != nil {
			return nil, err
		}
	}
	return p, nil
}

const dcKey = 0x22222222

// loopDC creates an initiator and a target of DC.
func loopDC(dev *uverbs.Device) (*pair, error) {
	p := &pair{size: rounds.Message}
	e, err := p.shared(dev)
	if err != nil {
		return nil, err
	}
	gid, err := dev.QueryGID(1, 1)
	if err != nil {
		return nil, err
	}
	to := verbs.AHAttr{Port: 1, Global: true, DGID: gid.GID, SGIDIndex: 1, HopLimit: 64}
	if p.ah, err = e.PD.CreateAH(&to); err != nil {
		return nil, err
	}
	if p.srq, err = e.PD.CreateSRQ(&uverbs.SRQOptions{MaxWR: rounds.Depth, MaxSGE: 1}); err != nil {
		return nil, err
	}
	p.active, err = e.PD.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeDCI, SendCQ: p.sendCQ,
		Cap: verbs.QPCap{MaxSendWR: rounds.Depth, MaxSendSGE: 1, MaxInline: rounds.Message}})
	if err != nil {
		return nil, err
	}
	if p.passive, err = e.PD.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeDCT, RecvCQ: p.recvCQ, SRQ: p.srq, DCKey: dcKey}); err != nil {
		return nil, err
	}
	return p, errors.Join(p.active.Init(nil), p.active.Connect(nil),
		p.passive.Init(&verbs.QPAttr{Access: verbs.AccessRemoteWrite}), p.passive.Connect(&verbs.QPAttr{AH: to}))
}
