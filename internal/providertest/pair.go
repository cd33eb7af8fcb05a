package providertest

import (
	"errors"
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	_ "github.com/goverbs/goverbs/internal/fakeverbs/models"
	"github.com/goverbs/goverbs/internal/kernel"
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
	Ch   *uverbs.CompChannel
	AH   *verbs.AH // of UD QPs
	XRCD *uverbs.XRCD
	Side [2]Side
	Next uint64 // the last WRID
	// Ends are regions that were ended, to be closed.
	Ends []*uverbs.MR
	// Reach is how much memory messages use, from Source and from Target on.
	Reach int
}

// Side is a QP and what it needs.
type Side struct {
	CQ   *uverbs.CQ
	SRQ  *uverbs.SRQ
	QP   *uverbs.QP
	Hear *uverbs.QP // that receives: QP, or of XRC a target
	MR   *uverbs.MR
	Mem  []byte
	Want []verbs.WC // completions that are owed, oldest first

	Events int        // that were read
	Early  []verbs.WC // completions that were polled before Reap
}

// Options are what a pair is made of.
type Options struct {
	Info uverbs.DeviceInfo
	// Kernel is told of the kernel before it is used.
	Kernel func(*fakeverbs.Kernel)
	Type   verbs.QPType
	// SignalAll has every send complete.
	SignalAll bool
	// SRQ has a side receive from an SRQ.
	SRQ    [2]bool
	CQE    int
	Cap    verbs.QPCap
	Access verbs.Access // of the regions
	AH     *verbs.AHAttr
	// Pieces has long receives posted in up to three pieces.
	Pieces bool
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

// Access is what a region gives to the peer.
const Access = verbs.AccessLocalWrite | verbs.AccessRemoteRead | verbs.AccessRemoteWrite | verbs.AccessRemoteAtomic

// Must fails the test when there is an error.
func Must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// New makes the objects, in a fixed order.
func New(t testing.TB, o *Options) *Pair {
	t.Helper()
	k := fakeverbs.New(uint32(o.Info.Driver))
	if o.Kernel != nil {
		o.Kernel(k)
	}
	p := &Pair{Options: *o, T: t, K: k, Reach: Target, Wire: newWire(t, k)}
	info := o.Info
	info.Node = kernel.Node(k)
	p.Dev = Must[*uverbs.Device](t)(info.Open())
	t.Cleanup(p.Close)
	p.PD = Must[*uverbs.PD](t)(p.Dev.AllocPD())
	p.Ch = Must[*uverbs.CompChannel](t)(p.Dev.CreateCompChannel())
	if o.Type == verbs.QPTypeXRCInitiator {
		p.XRCD = Must[*uverbs.XRCD](t)(p.Dev.OpenXRCD(nil, 0))
	}
	for i := range p.Side {
		p.makeSide(i)
	}
	p.makeTargets()
	if qps := k.QueuePairs(); p.XRCD == nil {
		p.Wire.Join(qps[0], qps[1])
	} else {
		p.Wire.Peers[qps[0]], p.Wire.Peers[qps[1]] = qps[3], qps[2]
	}
	if o.AH != nil {
		p.AH = Must[*verbs.AH](t)(p.PD.CreateAH(o.AH))
	}
	return p
}

func (p *Pair) makeSide(i int) {
	t, s := p.T, &p.Side[i]
	s.CQ = Must[*uverbs.CQ](t)(p.Dev.CreateCQ(p.CQE, &uverbs.CQOptions{Channel: p.Ch}))
	s.MR = Must[*uverbs.MR](t)(p.PD.AllocMR(Memory, p.Access, nil))
	s.Mem = s.MR.Bytes()
	opts := &uverbs.QPOptions{Type: p.Type, SignalAll: p.SignalAll, SendCQ: s.CQ, RecvCQ: s.CQ, Cap: p.Cap}
	if p.XRCD != nil {
		p.makeXRC(s, opts)
		return
	}
	if p.SRQ[i] {
		s.SRQ = Must[*uverbs.SRQ](t)(p.PD.CreateSRQ(&uverbs.SRQOptions{MaxWR: Depth, MaxSGE: p.Cap.MaxRecvSGE}))
		opts.SRQ = s.SRQ
	}
	s.QP = Must[*uverbs.QP](t)(p.PD.CreateQP(opts))
	s.Hear = s.QP
	if !isIWARP(p.K) {
		Bring(t, s.QP)
	}
}

// makeXRC makes an SRQ, and a QP that sends to the other side's.
func (p *Pair) makeXRC(s *Side, opts *uverbs.QPOptions) {
	t := p.T
	s.SRQ = Must[*uverbs.SRQ](t)(p.PD.CreateSRQ(&uverbs.SRQOptions{MaxWR: Depth, MaxSGE: p.Cap.MaxRecvSGE, XRCD: p.XRCD, CQ: s.CQ}))
	opts.RecvCQ, opts.Cap.MaxRecvWR, opts.Cap.MaxRecvSGE = nil, 0, 0
	s.QP = Must[*uverbs.QP](t)(p.PD.CreateQP(opts))
	Bring(t, s.QP)
}

// makeTargets makes a QP of XRC for each side that hears of the other.
func (p *Pair) makeTargets() {
	for i := range p.Side {
		if p.XRCD != nil {
			p.Side[i].Hear = Must[*uverbs.QP](p.T)(p.XRCD.CreateQP())
			Bring(p.T, p.Side[i].Hear)
		}
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
	a, b := &p.Side[0], &p.Side[1]
	for _, s := range []*Side{a, b} {
		close(s.QP != nil, s.QP)
		close(s.Hear != nil && s.Hear != s.QP, s.Hear)
	}
	close(p.AH != nil, p.AH)
	for _, s := range []*Side{a, b} {
		close(s.SRQ != nil, s.SRQ)
	}
	for _, mr := range p.Ends {
		close(true, mr)
	}
	for _, s := range []*Side{a, b} {
		close(s.MR != nil, s.MR)
	}
	for _, s := range []*Side{a, b} {
		close(s.CQ != nil, s.CQ)
	}
	close(p.XRCD != nil, p.XRCD)
	close(p.Ch != nil, p.Ch)
	close(p.PD != nil, p.PD)
	close(true, p.Dev)
}

// NoViolations is what a test ends with.
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
