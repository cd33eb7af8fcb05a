package main

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
	"github.com/goverbs/goverbs/verbs/flow"
)

const typ = 0x88b5

var mac = [6]byte{2, 0, 0, 0, 0, 2}

// TestSwap sends more frames than the swapper has buffers, each of which comes back with its
// addresses swapped. A frame for another address does not.
func TestSwap(t *testing.T) {
	fabric := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.MLX5})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ready, done := make(chan struct{}), make(chan error)
	var frames uint64
	go func() {
		n, err := serve(ctx, fabric.Host(1).Device(0).Name(), mac, func() { close(ready) })
		frames = n
		done <- err
	}()
	select {
	case <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	p := newPeer(t, fabric.Host(0).Device(0).Name())
	const total = 3*buffers + 1
	for i := range total {
		frame := append(append(mac[:6:6], []byte{2, 0, 0, 0, 0, 1, typ >> 8, typ & 0xff}...), bytes.Repeat([]byte{byte(i)}, 50+i)...)
		want := append(append(bytes.Clone(frame[6:12]), frame[:6]...), frame[12:]...)
		if i == 0 {
			frame[5]++ // and does not come back
			p.send(t, frame)
			continue
		}
		p.receive(t)
		p.send(t, frame)
		if got := p.next(t); !bytes.Equal(got, want) {
			t.Fatalf("%d: %x, want %x", i, got, want)
		}
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) || frames != total-1 {
		t.Errorf("%d frames, %v", frames, err)
	}
}

// peer is a raw packet queue pair that takes the frames that come back.
type peer struct {
	cq *uverbs.CQ
	qp *uverbs.QP
	mr *uverbs.MR
}

func newPeer(t *testing.T, name string) *peer {
	t.Helper()
	dev, err := uverbs.Open(name)
	fail(t, err)
	end, err := dev.CreateEndpoint(&uverbs.EndpointOptions{SendCQEntries: 8})
	fail(t, err)
	t.Cleanup(func() { fail(t, errors.Join(end.Close(), dev.Close())) })
	p := &peer{cq: end.SendCQ}
	p.mr, err = end.PD.AllocMR(2*room, verbs.AccessLocalWrite, nil)
	fail(t, err)
	p.qp, err = end.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeRawPacket,
		Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1}})
	fail(t, err)
	fail(t, errors.Join(p.qp.Init(nil), p.qp.Connect(nil)))
	own := flow.EthFields{DstMAC: [6]byte{2, 0, 0, 0, 0, 1}, EtherType: typ}
	_, err = p.qp.CreateFlow(&uverbs.FlowOptions{Specs: []flow.Spec{
		&flow.Eth{Val: own, Mask: flow.EthFields{DstMAC: [6]byte{255, 255, 255, 255, 255, 255}, EtherType: 0xffff}}}})
	fail(t, err)
	return p
}

func (p *peer) receive(t *testing.T) {
	t.Helper()
	_, err := p.qp.PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{p.mr.SGE(0, room)}}})
	fail(t, err)
}

func (p *peer) send(t *testing.T, frame []byte) {
	t.Helper()
	copy(p.mr.Bytes()[room:], frame)
	_, err := p.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{p.mr.SGE(room, len(frame))}}})
	fail(t, err)
}

// next returns the frame that comes back.
func (p *peer) next(t *testing.T) []byte {
	t.Helper()
	var wc [1]verbs.WC
	for wc[0].Opcode != verbs.WCRecv {
		_, err := p.cq.Wait(t.Context(), wc[:])
		fail(t, errors.Join(err, wc[0].Err()))
	}
	return p.mr.Bytes()[:wc[0].ByteLen]
}

func fail(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
