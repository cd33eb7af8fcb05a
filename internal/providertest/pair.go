package providertest

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Pair is two connected QPs of one opening, each with a CQ and a region of its own.
type Pair struct {
	Options
	T    testing.TB
	K    *fakeverbs.Kernel
	Wire *Wire
	Dev  *uverbs.Device
	PD   *uverbs.PD
	all  *uverbs.Endpoint // PD, and all that is in it
	Ch   *uverbs.CompChannel
	AH   *uverbs.AH // of UD QPs and DCIs
	XRCD *uverbs.XRCD
	Side [2]Side
	Next uint64 // the last WRID
	// Reach is how much memory messages use, from Source and from Target on.
	Reach int
}

// Side is a QP and the objects that it needs.
type Side struct {
	CQ   *uverbs.CQ
	SRQ  *uverbs.SRQ
	QP   *uverbs.QP
	Hear *uverbs.QP // that receives: QP, or of XRC and DC a target
	Idle *uverbs.QP // that is there only, see Options.Spare
	MR   *uverbs.MR
	Mem  []byte
	Want []verbs.WC // completions that are owed, oldest first

	Events int        // that were read
	Early  []verbs.WC // completions that were polled before Reap
}

// Options describe a pair.
type Options struct {
	Info uverbs.DeviceInfo
	// Kernel is called with the kernel before that is used.
	Kernel func(*fakeverbs.Kernel)
	Type   verbs.QPType
	Flags  verbs.QPFlags
	// SignalAll makes every send complete with a completion.
	SignalAll bool
	// NoFlags leaves out all flags of sends but SendSignaled.
	NoFlags bool
	// SRQ makes a side receive from an SRQ.
	SRQ [2]bool
	CQE int
	// CQInline is the MaxInline of the CQs.
	CQInline uint32
	Cap      verbs.QPCap
	Access   verbs.Access // of the regions
	AH       *verbs.AHAttr
	// Pieces has long receives posted in up to three pieces.
	Pieces bool
	// Spare makes another QP first, so that no index or number of a queue is 0.
	Spare bool
	// Exact compares each receive that is used with those that were posted.
	Exact bool
	// Ext are the fields of extended completions. Described is called with each that is polled.
	Ext       verbs.WCExtMask
	Described func(p *Pair, side int, wc *verbs.WC, ext *verbs.WCExt)
	// Expect says how the completion of a send, or with nil of a receive, differs from others.
	Expect func(p *Pair, wr *verbs.SendWR, want *verbs.WC)
	// Ended gives a key of a side's that SEND_WITH_INV ends. Nil is that of its region.
	Ended func(p *Pair, side, step int) uint32
}

// Depth is how many requests each queue takes, and memory how large the regions are.
const (
	Depth  = 8
	Memory = 1 << 16
)

// Access is the access that a region gives to the peer.
const Access = verbs.AccessLocalWrite | verbs.AccessRemoteRead | verbs.AccessRemoteWrite | verbs.AccessRemoteAtomic

// New makes the objects, in a fixed order.
func New(t testing.TB, o *Options) *Pair {
	t.Helper()
	k := fakeverbs.New(uint32(o.Info.Driver))
	if o.Kernel != nil {
		o.Kernel(k)
	}
	p := &Pair{Options: *o, T: t, K: k, Reach: Target, Wire: newWire(t, k)}
	p.Wire.exact = o.Exact
	p.Dev = Must[*uverbs.Device](t)(OpenOn(o.Info, k))
	t.Cleanup(p.Close)
	p.all = Must[*uverbs.Endpoint](t)(p.Dev.CreateEndpoint(nil))
	p.PD = p.all.PD
	p.Ch = Must[*uverbs.CompChannel](t)(p.Dev.CreateCompChannel())
	if o.Type == verbs.QPTypeXRCInitiator {
		p.XRCD = Must[*uverbs.XRCD](t)(p.Dev.OpenXRCD(nil, 0))
	}
	for i := range p.Side {
		p.makeSide(i)
	}
	p.makeTargets()
	qps := k.QueuePairs()
	if o.Spare {
		qps = qps[1:]
	}
	if !p.hasTargets() {
		p.Wire.Join(qps[0], qps[1])
	} else {
		p.Wire.Peers[qps[0]], p.Wire.Peers[qps[1]] = qps[3], qps[2]
	}
	if o.AH != nil {
		p.AH = Must[*uverbs.AH](t)(p.PD.CreateAH(o.AH))
	}
	return p
}

func (p *Pair) makeSide(i int) {
	t, s := p.T, &p.Side[i]
	s.CQ = Must[*uverbs.CQ](t)(p.Dev.CreateCQ(p.CQE, &uverbs.CQOptions{Channel: p.Ch, Ext: p.Ext, MaxInline: p.CQInline}))
	s.MR = Must[*uverbs.MR](t)(p.PD.AllocMR(Memory, p.Access, nil))
	s.Mem = s.MR.Bytes()
	opts := &uverbs.QPOptions{Type: p.Type, Flags: p.Flags, SignalAll: p.SignalAll, SendCQ: s.CQ, RecvCQ: s.CQ, Cap: p.Cap}
	if p.Spare && i == 0 {
		s.Idle = Must[*uverbs.QP](t)(p.PD.CreateQP(&uverbs.QPOptions{SendCQ: s.CQ, RecvCQ: s.CQ, Cap: verbs.QPCap{MaxSendWR: 1}}))
	}
	if p.hasTargets() {
		p.makeInitiator(s, opts)
		return
	}
	if p.SRQ[i] {
		s.SRQ = Must[*uverbs.SRQ](t)(p.PD.CreateSRQ(&uverbs.SRQOptions{MaxWR: max(Depth, p.Cap.MaxRecvWR), MaxSGE: p.Cap.MaxRecvSGE}))
		opts.SRQ = s.SRQ
	}
	s.QP = Must[*uverbs.QP](t)(p.PD.CreateQP(opts))
	s.Hear = s.QP
	if !isIWARP(p.K) {
		Bring(t, s.QP)
	}
}

// hasTargets reports whether each side sends on one QP and receives on another, as with XRC and DC.
func (p *Pair) hasTargets() bool { return p.XRCD != nil || p.Type == verbs.QPTypeDCI }

// makeInitiator makes an SRQ, and a QP that sends to the other side's.
func (p *Pair) makeInitiator(s *Side, opts *uverbs.QPOptions) {
	t := p.T
	srq := uverbs.SRQOptions{MaxWR: max(Depth, p.Cap.MaxRecvWR), MaxSGE: p.Cap.MaxRecvSGE, XRCD: p.XRCD}
	if p.XRCD != nil {
		srq.CQ = s.CQ
	}
	s.SRQ = Must[*uverbs.SRQ](t)(p.PD.CreateSRQ(&srq))
	opts.RecvCQ, opts.Cap.MaxRecvWR, opts.Cap.MaxRecvSGE = nil, 0, 0
	s.QP = Must[*uverbs.QP](t)(p.PD.CreateQP(opts))
	Bring(t, s.QP)
}

// dcKey is the key of DCTs.
const dcKey = 0x8182838485868788

// makeTargets makes a QP of XRC or a DCT for each side that hears of the other.
func (p *Pair) makeTargets() {
	for i := range p.Side {
		s := &p.Side[i]
		switch {
		case p.XRCD != nil:
			s.Hear = Must[*uverbs.QP](p.T)(p.XRCD.CreateQP())
		case p.Type == verbs.QPTypeDCI:
			s.Hear = Must[*uverbs.QP](p.T)(p.PD.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeDCT, RecvCQ: s.CQ, SRQ: s.SRQ, DCKey: dcKey}))
		default:
			continue
		}
		Bring(p.T, s.Hear)
	}
}

// Close closes what there is.
func (p *Pair) Close() {
	close := func(open bool, c interface{ Close() error }) {
		if !open {
			return
		}
		if err := c.Close(); err != nil && !errors.Is(err, verbs.ErrClosed) {
			p.T.Error(err)
		}
	}
	for i := range p.Side {
		close(p.XRCD != nil && p.Side[i].Hear != nil, p.Side[i].Hear)
	}
	close(p.all != nil, p.all)
	for i := range p.Side {
		close(p.Side[i].CQ != nil, p.Side[i].CQ)
	}
	close(p.XRCD != nil, p.XRCD)
	close(p.Ch != nil, p.Ch)
	close(true, p.Dev)
}

// NoViolations fails the test if the device noted violations. Tests end with it.
func (p *Pair) NoViolations() {
	p.T.Helper()
	for _, v := range p.K.Violations() {
		p.T.Error("violation:", v)
	}
	if leaks := p.K.Leaks(); p.K.Closed() && len(leaks) > 0 {
		p.T.Errorf("the kernel still has %q", leaks)
	}
}

// SGE names memory of a side.
func (s *Side) SGE(at, n int) verbs.SGE {
	return verbs.SGE{Addr: s.MR.Addr() + uint64(at), Length: uint32(n), LKey: s.MR.LKey()}
}

// Bring moves a QP to RTS.
func Bring(t testing.TB, qp *uverbs.QP) {
	t.Helper()
	gids := Must[[]verbs.GIDEntry](t)(qp.Device().GIDTable())
	own := gids[len(gids)-1] // the one of IPv4, if there is one
	err := errors.Join(qp.Init(&verbs.QPAttr{Access: verbs.AccessRemoteWrite}),
		qp.Connect(&verbs.QPAttr{PathMTU: verbs.MTU1024, AH: verbs.AHAttr{Global: true, DGID: own.GID, SGIDIndex: own.Index}}))
	if err != nil {
		t.Fatal(err)
	}
}

// grh is the length of the header in front of a datagram's data.
func (p *Pair) grh() int {
	if p.Type == verbs.QPTypeUD {
		return 40
	}
	return 0
}

// Recv posts a receive of n bytes at an offset of side i's memory, and notes the completion that it owes.
// The header of a datagram comes before.
func (p *Pair) Recv(i, at, n int, want verbs.WC) {
	p.T.Helper()
	p.Next++
	s := &p.Side[i]
	at, n = at-p.grh(), n+p.grh()
	wr := verbs.RecvWR{WRID: p.Next}
	switch {
	case n > 300 && p.Next%3 == 0 && p.Pieces:
		wr.SGL = []verbs.SGE{s.SGE(at, 100), s.SGE(at+100, 7), s.SGE(at+107, n-107)}
	case n > 300 && p.Next%3 == 1 && p.Pieces:
		wr.SGL = []verbs.SGE{s.SGE(at, 45), s.SGE(at+45, n-45)}
	case n > 0:
		wr.SGL = []verbs.SGE{s.SGE(at, n)}
	}
	post := s.QP.PostRecv
	if s.SRQ != nil {
		post = s.SRQ.PostRecv
	}
	if k, err := post([]verbs.RecvWR{wr}); k != 1 || err != nil {
		p.T.Fatal(k, err)
	}
	if p.Exact {
		p.Wire.Posted(wr.SGL)
	}
	want.WRID, want.QPN = p.Next, s.Hear.QPN()
	if p.Type == verbs.QPTypeUD && want.Status == verbs.StatusSuccess {
		want.ByteLen += uint32(p.grh())
		want.SrcQPN = p.Side[1-i].QP.QPN()
	}
	if p.Expect != nil {
		p.Expect(p, nil, &want)
	}
	s.Want = append(s.Want, want)
}

var completes = map[verbs.Opcode]verbs.WCOpcode{
	verbs.OpSend: verbs.WCSend, verbs.OpSendImm: verbs.WCSend, verbs.OpSendWithInv: verbs.WCSend,
	verbs.OpRDMAWrite: verbs.WCRDMAWrite, verbs.OpRDMAWriteImm: verbs.WCRDMAWrite,
	verbs.OpRDMARead: verbs.WCRDMARead, verbs.OpReadWithInv: verbs.WCRDMARead,
	verbs.OpCompareSwap: verbs.WCCompareSwap, verbs.OpFetchAdd: verbs.WCFetchAdd,
	verbs.OpLocalInv: verbs.WCLocalInv, verbs.OpBindMW: verbs.WCBindMW,
}

// Send posts sends of side i, and notes what those that are signaled owe.
func (p *Pair) Send(i int, wrs ...verbs.SendWR) {
	p.T.Helper()
	s := &p.Side[i]
	for j := range wrs {
		p.Next++
		wr := &wrs[j]
		wr.WRID = p.Next
		if p.AH != nil {
			wr.AH, wr.RemoteQPN, wr.RemoteQKey, wr.DCKey = p.AH, p.Side[1-i].Hear.QPN(), qkey, dcKey
		}
		if p.XRCD != nil {
			wr.SRQN = p.Side[1-i].SRQ.Num()
		}
		if wr.Flags&verbs.SendSignaled != 0 || p.SignalAll {
			p.Owe(i, wr)
		}
	}
	if n, err := s.QP.PostSend(wrs); n != len(wrs) || err != nil {
		p.T.Fatal(n, err)
	}
}

// Owe notes the completion of a send.
func (p *Pair) Owe(i int, wr *verbs.SendWR) {
	s := &p.Side[i]
	want := verbs.WC{WRID: wr.WRID, QPN: s.QP.QPN(), Opcode: completes[wr.Opcode], ByteLen: uint32(len(wr.Inline))}
	for _, g := range wr.SGL {
		want.ByteLen += g.Length
	}
	if p.Expect != nil {
		p.Expect(p, wr, &want)
	}
	s.Want = append(s.Want, want)
}

// Reap polls both CQs for the completions that are owed, in order of each queue.
func (p *Pair) Reap() {
	p.T.Helper()
	for i := range p.Side {
		s := &p.Side[i]
		wcs := make([]verbs.WC, 4*p.CQE)
		n := copy(wcs, s.Early)
		s.Early = nil
		more, err := p.poll(i, wcs[n:])
		n += more
		if err != nil || n != len(s.Want) {
			p.T.Fatalf("side %d: %d completions of %d, %v\n%+v\nwant %+v", i, n, len(s.Want), err, wcs[:n], s.Want)
		}
		for _, wc := range wcs[:n] {
			if !owed(&s.Want, wc) {
				p.T.Fatalf("side %d: %+v, want %+v", i, wc, s.Want)
			}
		}
	}
}

func (p *Pair) poll(i int, wcs []verbs.WC) (n int, err error) {
	cq := p.Side[i].CQ
	if p.Ext == 0 {
		return cq.Poll(wcs)
	}
	ext := make([]verbs.WCExt, len(wcs))
	n, err = cq.PollExt(wcs, ext)
	for j := range n {
		p.Described(p, i, &wcs[j], &ext[j])
	}
	return n, err
}

// owed takes a completion off the list: the oldest of sends or of receives.
func owed(want *[]verbs.WC, wc verbs.WC) bool {
	for i, w := range *want {
		if w.Opcode&verbs.WCRecv == wc.Opcode&verbs.WCRecv {
			*want = append((*want)[:i:i], (*want)[i+1:]...)
			return w == wc
		}
	}
	return false
}

// Same compares memory of both sides.
func (p *Pair) Same(what string, got, want []byte) {
	p.T.Helper()
	if !bytes.Equal(got, want) {
		p.T.Fatalf("%s: %d bytes differ", what, len(want))
	}
}

// Event reads an event of side i's CQ, which must have been raised.
func (p *Pair) Event(i int) {
	p.T.Helper()
	p.Side[i].Events++
	p.NoEvent(i)
	if cq, err := p.Ch.Get(context.Background()); cq != p.Side[i].CQ || err != nil {
		p.T.Fatal(cq, err)
	}
}

// NoEvent fails the test if other events of side i were raised than those that were read.
func (p *Pair) NoEvent(i int) {
	p.T.Helper()
	if n := p.K.CQs()[i].Events(); n != p.Side[i].Events {
		p.T.Fatalf("%d events of side %d, want %d", n, i, p.Side[i].Events)
	}
}

// Arm asks for an event of side i.
func (p *Pair) Arm(i int, solicited bool) {
	p.T.Helper()
	if err := p.Side[i].CQ.Arm(solicited); err != nil {
		p.T.Fatal(err)
	}
}
