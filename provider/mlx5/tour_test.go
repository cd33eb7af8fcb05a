package mlx5

import (
	"bytes"
	"errors"
	"slices"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
	"github.com/goverbs/goverbs/verbs/flow"
	"github.com/goverbs/goverbs/verbs/rss"
)

// tour is short traffic that uses each form of request, each kind of completion and each
// doorbell, and goes around the CQ and both queues. Mutations have to disturb it.
func (p *pair) tour() {
	p.T.Helper()
	p.Reach = 2048
	step := 0
	message := func(op verbs.Opcode, l payload) {
		if step++; p.has(op) {
			p.OneMessage(0, step, op, l)
		}
	}
	p.Arm(1, false)
	message(verbs.OpSend, gathered(30, 70))
	p.Event(1)
	p.Arm(0, false)
	p.OneMessage(1, step, verbs.OpSend, gathered(30))
	p.Event(0)
	// Go twice around the send queue, so that words that are not written are not zero.
	for range 2 * pairDepth {
		message(verbs.OpSend, inline(pairInline))
	}
	for _, op := range []verbs.Opcode{verbs.OpSend, verbs.OpSendImm, verbs.OpSendWithInv, verbs.OpRDMAWrite, verbs.OpRDMAWriteImm} {
		message(op, inline(20))
		message(op, gathered(7, 100, 1000))
	}
	message(verbs.OpSend, gathered())
	if p.has(verbs.OpRDMARead) {
		p.OneRead(1, 3, 50, 50)
	}
	if p.has(verbs.OpFetchAdd) {
		p.Atomics()
	}
	if p.has(verbs.OpBindMW) {
		p.window2()
		p.window1()
	}
	for range 2 { // for solicited completions only, and none before
		p.Arm(1, true)
		p.Recv(1, target, 256, verbs.WC{Opcode: verbs.WCRecv, ByteLen: 4})
		p.Recv(1, target, 256, verbs.WC{Opcode: verbs.WCRecv, ByteLen: 4})
		wr := verbs.SendWR{Opcode: verbs.OpSend, SGL: []verbs.SGE{p.Side[0].SGE(0, 4)}}
		p.Send(0, wr)
		p.NoEvent(1)
		wr.Flags = verbs.SendSolicited | verbs.SendSignaled
		p.Send(0, wr)
		p.Event(1)
		p.Reap()
	}
	p.resizeTo(3, 63)
	p.failing()
}

// failing fails a send, and the QP with it.
func (p *pair) failing() {
	p.T.Helper()
	if p.Type != verbs.QPTypeRC {
		return
	}
	s, to := &p.Side[0], &p.Side[1]
	if to.SRQ == nil {
		p.Recv(1, target, 256, verbs.WC{Status: verbs.StatusWRFlushErr, VendorErr: 0x85})
	}
	p.Next++
	post(p.T, s.QP, verbs.SendWR{WRID: p.Next, Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{s.SGE(0, 8)}, RemoteAddr: to.MR.Addr() + pairMemory, RKey: to.MR.RKey()})
	s.Want = append(s.Want, verbs.WC{WRID: p.Next, QPN: s.QP.QPN(), Status: verbs.StatusRemAccessErr, VendorErr: 0x93})
	p.Reap()
}

const frameSize = 80

// frameOf is an Ethernet frame of IPv4 and UDP.
func frameOf(source byte) []byte {
	b := []byte{2, 2, 2, 2, 2, 2, 4, 4, 4, 4, 4, 4, 8, 0, 0x45, 0, 0, frameSize - 14, 0, 0, 0x40, 0, 64, 17, 0, 0, 1, 1, 1, source, 2, 2, 2, 2}
	for len(b) < frameSize {
		b = append(b, byte(len(b)))
	}
	return b
}

// steer has a QP receive frames of IPv4, until the rule is closed.
func (p *pair) steer(qp *uverbs.QP) *uverbs.Flow {
	p.T.Helper()
	return providertest.Must[*uverbs.Flow](p.T)(qp.CreateFlow(&uverbs.FlowOptions{Specs: []flow.Spec{
		&flow.Eth{Val: flow.EthFields{DstMAC: [6]byte{2, 2, 2, 2, 2, 2}}, Mask: flow.EthFields{DstMAC: [6]byte{255, 255, 255, 255, 255, 255}}},
		flow.Tag(0xabcdef),
	}}))
}

// frame has a side send a frame to the other, inline or from pieces of memory.
func (p *pair) frame(from int, b []byte, flags verbs.SendFlags, pieces ...int) {
	p.T.Helper()
	s, to := &p.Side[from], &p.Side[1-from]
	clear(to.Mem[target:][:256])
	wr := verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled | flags, Inline: b}
	if flags&verbs.SendSolicited != 0 { // which means nothing to a frame
		wr.VLAN = 0x6123
	}
	if at := 0; len(pieces) > 0 {
		copy(s.Mem, b)
		wr.Inline = nil
		for _, n := range pieces {
			wr.SGL = append(wr.SGL, s.SGE(at, n))
			at += n
		}
	}
	p.Send(from, wr)
	p.Reap()
	p.Same("frame", to.Mem[target:][:len(b)], b)
}

// frames is the tour of raw packets.
func (p *pair) frames() {
	p.T.Helper()
	rule := p.steer(p.Side[1].QP)
	for range pairDepth {
		for _, flags := range []verbs.SendFlags{verbs.SendIPCsum, 0, verbs.SendIPCsum | verbs.SendSolicited} {
			want := verbs.WC{Opcode: verbs.WCRecv, ByteLen: frameSize}
			if flags&verbs.SendIPCsum != 0 {
				want.Flags = verbs.WCIPCsumOK
			}
			for _, pieces := range [][]int{{30, 50}, nil} {
				p.Recv(1, target, 2048, want)
				p.frame(0, frameOf(1), flags, pieces...)
			}
		}
	}
	if err := rule.Close(); err != nil {
		p.T.Fatal(err)
	}
	rule = p.steer(p.Side[0].QP)
	p.Recv(0, target, 2048, verbs.WC{Opcode: verbs.WCRecv, ByteLen: frameSize})
	p.frame(1, frameOf(1), 0)
	p.Recv(1, target, 2048, verbs.WC{Status: verbs.StatusWRFlushErr, VendorErr: 0x85})
	if err := errors.Join(p.Side[1].QP.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.QPAttrState), rule.Close()); err != nil {
		p.T.Fatal(err)
	}
	p.Reap()
}

// spread is the tour of RSS: frames are dealt out to two WQs.
func (p *pair) spread() {
	p.T.Helper()
	s := &p.Side[1]
	var wqs []*uverbs.WQ
	for range 2 {
		w := providertest.Must[*uverbs.WQ](p.T)(p.PD.CreateWQ(&uverbs.WQOptions{MaxWR: p.Cap.MaxRecvWR, MaxSGE: 2, CQ: s.CQ}))
		if err := w.Modify(&rss.WQAttr{State: rss.WQStateReady}, rss.WQAttrState); err != nil {
			p.T.Fatal(err)
		}
		wqs = append(wqs, w)
	}
	hash := rss.Hash{Function: rss.Toeplitz, Key: data(40), Fields: rss.SrcIPv4 | rss.DstIPv4}
	table := providertest.Must[*uverbs.RWQIndTable](p.T)(p.Dev.CreateRWQIndTable(wqs))
	qp := providertest.Must[*uverbs.QP](p.T)(p.PD.CreateRSSQP(&uverbs.RSSOptions{Table: table, Hash: hash}))
	rule := p.steer(qp)
	all := p.K.QueuePairs()
	to := all[slices.IndexFunc(all, func(q *fakeverbs.QP) bool { return q.Table != nil })]
	if to.Hash.Fields != uint64(hash.Fields) || !bytes.Equal(to.Hash.Key, hash.Key) {
		p.T.Errorf("the device's hash is %+v, want %+v", to.Hash, hash)
	}
	for round := range 2 * pairDepth {
		b := frameOf(byte(round))
		w := wqs[to.Place(fakeverbs.ReadFrame(b))]
		p.Next++
		wr := verbs.RecvWR{WRID: p.Next, SGL: []verbs.SGE{s.SGE(target, 100), s.SGE(target+100, 100)}}
		p.Wire.Posted(wr.SGL)
		if n, err := w.PostRecv([]verbs.RecvWR{wr}); n != 1 || err != nil {
			p.T.Fatal(n, err)
		}
		s.Want = append(s.Want, verbs.WC{WRID: p.Next, QPN: w.Num(), Opcode: verbs.WCRecv, ByteLen: frameSize})
		p.frame(0, b, 0)
	}
	for _, c := range []interface{ Close() error }{rule, qp, table, wqs[0], wqs[1]} {
		if err := c.Close(); err != nil {
			p.T.Error(err)
		}
	}
}

// device is the tour of what a device says about itself: limits that are reached and not exceeded,
// its clock, its memory, and a key of no memory.
func (p *pair) device() {
	p.T.Helper()
	p.OneMessage(0, 1, verbs.OpSend, gathered(8))
	p.limits()
	cq := providertest.Must[*uverbs.CQ](p.T)(p.Dev.CreateCQ(1, &uverbs.CQOptions{Ext: verbs.WCExtWallClock}))
	if err := cq.Close(); err != nil {
		p.T.Error(err)
	}
	if providertest.Must[uint64](p.T)(p.Dev.QueryClock()) == 0 {
		p.T.Error("the device's clock does not run")
	}
	null := providertest.Must[*uverbs.MR](p.T)(p.PD.AllocNullMR())
	if null.LKey() != p.K.NullKey {
		p.T.Errorf("the key of no memory is %#x, want %#x", null.LKey(), p.K.NullKey)
	}
	dm := providertest.Must[*uverbs.DM](p.T)(p.Dev.AllocDM(4000, 0))
	if n, err := dm.WriteAt(data(200), 8); n != 200 || err != nil {
		p.T.Error(n, err)
	}
	got := make([]byte, 200)
	if err := p.K.DMs()[0].Read(8, got); err != nil || !bytes.Equal(got, data(200)) {
		p.T.Errorf("the device's memory holds %x, %v", got, err)
	}
	for _, c := range []interface{ Close() error }{null, dm} {
		if err := c.Close(); err != nil {
			p.T.Error(err)
		}
	}
}

// limits creates queues that are as large as the device has them. The provider refuses larger
// ones itself.
func (p *pair) limits() {
	p.T.Helper()
	s := &p.Side[0]
	qp := func(c verbs.QPCap) error {
		q, err := p.PD.CreateQP(&uverbs.QPOptions{SendCQ: s.CQ, RecvCQ: s.CQ, Cap: c})
		if err != nil {
			return err
		}
		return q.Close()
	}
	srq := func(wrs, sges int) error {
		q, err := p.PD.CreateSRQ(&uverbs.SRQOptions{MaxWR: uint32(wrs), MaxSGE: uint32(sges)})
		if err != nil {
			return err
		}
		return q.Close()
	}
	const blocks, descriptor = 1 << 15, 1024
	for i, most := range []error{
		qp(verbs.QPCap{MaxSendWR: 1, MaxInline: descriptor - bindOverhead - inlineHeader}),
		qp(verbs.QPCap{MaxSendWR: blocks / 4, MaxSendSGE: 1}),
		qp(verbs.QPCap{MaxRecvWR: 1, MaxRecvSGE: 32}),
		qp(verbs.QPCap{MaxRecvWR: blocks, MaxRecvSGE: 1}),
		srq(1, 31), srq(blocks-1, 1),
	} {
		if most != nil {
			p.T.Errorf("limit %d: %v", i, most)
		}
	}
	calls := p.K.Calls("QP_CREATE") + p.K.Calls("SRQ_CREATE")
	for i, more := range []error{
		qp(verbs.QPCap{MaxSendWR: 1, MaxInline: descriptor - bindOverhead - inlineHeader + 1}),
		qp(verbs.QPCap{MaxSendWR: blocks/4 + 1, MaxSendSGE: 1}),
		qp(verbs.QPCap{MaxRecvWR: 1, MaxRecvSGE: 33}),
		qp(verbs.QPCap{MaxRecvWR: blocks + 1, MaxRecvSGE: 1}),
		srq(1, 32), srq(blocks, 1),
	} {
		if !errors.Is(more, verbs.ErrNotSupported) {
			p.T.Errorf("beyond limit %d: %v", i, more)
		}
	}
	if more := p.K.Calls("QP_CREATE") + p.K.Calls("SRQ_CREATE") - calls; more != 0 {
		p.T.Errorf("%d requests that exceed a limit reach the kernel", more)
	}
}
