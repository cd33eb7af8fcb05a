package selftest

import (
	"bytes"
	"cmp"
	"fmt"
	"net/netip"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

const (
	depth   = 32             // work requests of each queue
	half    = longest + 4096 // bytes to send from, and as many to receive into
	inline  = 48             // bytes of a message, unless a test asks for more
	grh     = 40             // bytes in front of a datagram
	qkey    = 0x11111111
	longest = 256 << 10
	// efaInline is what all EFA devices can send inline, but in no write.
	efaInline = 32
)

// end is one of two queue pairs that are connected to each other.
type end struct {
	qp    *uverbs.QP
	recvs *uverbs.CQ // of its receives
	mr    *uverbs.MR
	mem   []byte
}

// source and target are the two halves of an end's memory.
func (e *end) source(n int) []byte { return e.mem[:n] }
func (e *end) target(n int) []byte { return e.mem[half:][:n] }

// pair sends from its first end to its second.
type pair struct {
	*environment
	pairOptions
	pd   *uverbs.PD
	sges uint32 // of a work request
	ends [2]end
	srq  *uverbs.SRQ // of the second
	ah   *uverbs.AH  // of datagrams, and of DC
	next uint64      // WRID
}

// pairOptions describe a pair.
type pairOptions struct {
	typ    verbs.QPType
	srq    bool                  // the second queue pair has one; that of an XRC target and a DCT always does
	inline uint32                // bytes of a message; 0 is the usual
	ext    verbs.WCExtMask       // of the completions of sends
	tune   func(a *verbs.QPAttr) // changes the attributes of both connected queue pairs
	init   func(a *verbs.QPAttr) // and those in INIT
}

// access returns the access rights that the device supports.
func (b *environment) access() verbs.Access {
	a := verbs.AccessLocalWrite
	if !b.hasSRD() || b.dev.Supports(verbs.QPTypeSRD, verbs.OpRDMAWrite) {
		a |= verbs.AccessRemoteWrite
	}
	if !b.hasSRD() || b.dev.Supports(verbs.QPTypeSRD, verbs.OpRDMARead) {
		a |= verbs.AccessRemoteRead
	}
	if b.attr.AtomicCap != verbs.AtomicNone {
		a |= verbs.AccessRemoteAtomic
	}
	if b.dev.Supports(verbs.QPTypeRC, verbs.OpBindMW) {
		a |= verbs.AccessMWBind
	}
	return a
}

// pair creates and connects two queue pairs.
func (b *environment) pair(typ verbs.QPType) (*pair, error) { return b.pairWith(pairOptions{typ: typ}) }

func (b *environment) pairWith(o pairOptions) (_ *pair, err error) {
	if !b.dev.Supports(o.typ, verbs.OpSend) {
		return nil, none("there are no %v queue pairs", o.typ)
	}
	p := &pair{environment: b, pairOptions: o, sges: min(b.attr.MaxSGE, 4)}
	all, err := b.endpoint(b.dev, nil)
	if err != nil {
		return nil, err
	}
	if p.pd = all.PD; o.srq {
		if p.srq, err = p.pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: depth, MaxSGE: 1}); err != nil {
			return nil, err
		}
	}
	if b.iwarp() {
		err = p.dial()
	} else {
		err = p.join()
	}
	if err != nil {
		return nil, err
	}
	for i := range p.ends {
		e := &p.ends[i]
		if e.mr, err = p.pd.AllocMR(2*half, b.access(), nil); err != nil {
			return nil, err
		}
		e.mem = e.mr.Bytes()
	}
	return p, nil
}

func (p *pair) options(second bool) uverbs.QPOptions {
	o := uverbs.QPOptions{Type: p.typ, Cap: verbs.QPCap{MaxSendWR: depth, MaxRecvWR: depth, MaxSendSGE: p.sges, MaxRecvSGE: p.sges,
		MaxInline: cmp.Or(p.inline, inline)}}
	if p.hasSRD() {
		o.Cap.MaxInline = efaInline
	}
	if second && p.srq != nil {
		o.SRQ = p.srq
	}
	if p.hasTarget() {
		o.Cap.MaxRecvWR, o.Cap.MaxRecvSGE = 0, 0
	}
	return o
}

// join connects by hand.
func (p *pair) join() (err error) {
	for i := range p.ends {
		if err := p.create(i); err != nil {
			return err
		}
	}
	if err = p.connect(); err != nil || !p.isAddressed() && p.typ != verbs.QPTypeDCI {
		return err
	}
	p.ah, err = p.pd.CreateAH(p.path())
	return err
}

// create creates a queue pair with its CQs.
func (p *pair) create(i int) (err error) {
	e := &p.ends[i]
	own, err := p.endpoint(p.dev, &uverbs.EndpointOptions{PD: p.pd, SendCQEntries: 2 * depth, RecvCQEntries: 2 * depth, CQ: uverbs.CQOptions{Ext: p.ext}})
	if err != nil {
		return err
	}
	e.recvs = own.RecvCQ
	switch o := p.options(i == 1); {
	case !p.hasTarget() || i == 0:
		e.qp, err = own.CreateQP(&o)
	case p.typ == verbs.QPTypeDCI:
		e.qp, err = p.dct(own)
	default:
		e.qp, err = p.target(e.recvs)
	}
	return err
}

// hasTarget reports whether the first queue pair only sends, and the second only receives.
func (p *pair) hasTarget() bool {
	return p.typ == verbs.QPTypeXRCInitiator || p.typ == verbs.QPTypeDCI
}

// dcKey is the key of DCTs.
const dcKey = 0x1122334455667788

// dct creates the target of a DCI, and its SRQ.
func (p *pair) dct(own *uverbs.Endpoint) (_ *uverbs.QP, err error) {
	if p.srq, err = p.pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: depth, MaxSGE: min(p.sges, p.attr.MaxSRQSGE)}); err != nil {
		return nil, err
	}
	return own.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeDCT, SRQ: p.srq, DCKey: dcKey})
}

// target creates the target of an XRC initiator, and an SRQ of their domain.
func (p *pair) target(cq *uverbs.CQ) (*uverbs.QP, error) {
	domain, err := p.dev.OpenXRCD(nil, 0)
	if err != nil {
		return nil, err
	}
	p.keep(domain.Close)
	if p.srq, err = p.pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: depth, MaxSGE: min(p.sges, p.attr.MaxSRQSGE), XRCD: domain, CQ: cq}); err != nil {
		return nil, err
	}
	p.keep(p.srq.Close)
	qp, err := domain.CreateQP()
	if err == nil {
		p.keep(qp.Close)
	}
	return qp, err
}

// firstPSN is the number of the first packet of a connection.
const firstPSN = 0x1234

// connect takes the queue pairs from RESET to RTS.
func (p *pair) connect() error {
	for i := range p.ends {
		a := &verbs.QPAttr{Port: p.port, Access: p.access() &^ verbs.AccessMWBind, QKey: qkey}
		if p.typ == verbs.QPTypeUC {
			a.Access = verbs.AccessLocalWrite | verbs.AccessRemoteWrite
		}
		if p.init != nil {
			p.init(a)
		}
		if err := p.ends[i].qp.Init(a); err != nil {
			return err
		}
	}
	for i := range p.ends {
		if err := p.ends[i].qp.Connect(p.connected(i)); err != nil {
			return err
		}
	}
	return nil
}

// connected returns the attributes that connect a queue pair to the other.
func (p *pair) connected(i int) *verbs.QPAttr {
	a := &verbs.QPAttr{Port: p.port, AH: *p.path(), DestQPN: p.ends[1-i].qp.QPN(), RQPSN: firstPSN, SQPSN: firstPSN,
		MaxRDAtomic: uint8(cmp.Or(min(p.attr.MaxQPInitRDAtom, 4), 1)), MaxDestRDAtomic: uint8(cmp.Or(min(p.attr.MaxQPRDAtom, 4), 1))}
	if p.tune != nil {
		p.tune(a)
	}
	return a
}

// path returns the address of the port itself.
func (p *pair) path() *verbs.AHAttr {
	a := &verbs.AHAttr{Port: p.port, DLID: p.link.LID}
	if p.gid != nil {
		a.Global, a.DGID, a.SGIDIndex, a.HopLimit = true, p.gid.GID, p.gid.Index, 64
	}
	return a
}

// dial connects by rdma_cm.
func (p *pair) dial() error {
	if p.typ != verbs.QPTypeRC {
		return none("iWARP has RC only")
	}
	lc := rdmacm.ListenConfig{Config: rdmacm.Config{PD: p.pd, QP: p.options(true)}}
	l, err := lc.Listen(p.ctx, netip.AddrPortFrom(p.addr, 0).String())
	if err != nil {
		return err
	}
	defer l.Close()
	type answer struct {
		*rdmacm.Conn
		error
	}
	came := make(chan answer, 1)
	go func() {
		c, err := l.Accept(p.ctx)
		came <- answer{c, err}
	}()
	d := rdmacm.Dialer{LocalAddr: netip.AddrPortFrom(p.addr, 0), Config: rdmacm.Config{PD: p.pd, QP: p.options(false)}}
	c, err := d.Dial(p.ctx, l.Addr().String())
	if err != nil {
		l.Close() // Accept ends
		if a := <-came; a.Conn != nil {
			p.keep(a.Close)
		}
		return err
	}
	p.keep(c.Close)
	a := <-came
	if a.error != nil {
		return a.error
	}
	p.keep(a.Close)
	p.ends[0].qp, p.ends[1].qp = c.QP(), a.QP()
	for i := range p.ends {
		p.ends[i].recvs = p.ends[i].qp.RecvCQ()
	}
	return nil
}

// id numbers a work request.
func (p *pair) id() uint64 {
	p.next++
	return p.next
}

// wait takes n completions, which must be successes.
func (p *pair) wait(cq *uverbs.CQ, n int) ([]verbs.WC, error) {
	wcs := make([]verbs.WC, n)
	for have := 0; have < n; {
		got, err := cq.Wait(p.ctx, wcs[have:])
		if err != nil {
			return nil, fmt.Errorf("%d of %d completions: %w", have, n, err)
		}
		for i := range wcs[have:][:got] {
			if err := wcs[have+i].Err(); err != nil {
				return nil, fmt.Errorf("completion %d: %w (vendor's code %#x)", have+i, err, wcs[have+i].VendorErr)
			}
		}
		have += got
	}
	return wcs, nil
}

// post posts to the first end's send queue.
func (p *pair) post(wrs ...verbs.SendWR) error {
	for i := range wrs {
		if p.ah != nil {
			wrs[i].AH, wrs[i].RemoteQPN, wrs[i].RemoteQKey = p.ah, p.ends[1].qp.QPN(), cmp.Or(wrs[i].RemoteQKey, qkey)
			wrs[i].DCKey = dcKey
		}
		if p.typ == verbs.QPTypeXRCInitiator {
			wrs[i].SRQN = p.srq.Num()
		}
	}
	_, err := p.ends[0].qp.PostSend(wrs)
	return err
}

// postRecv posts to the second end's receive queue, or its SRQ.
func (p *pair) postRecv(wrs ...verbs.RecvWR) (err error) {
	if p.srq != nil {
		_, err = p.srq.PostRecv(wrs)
		return err
	}
	_, err = p.ends[1].qp.PostRecv(wrs)
	return err
}

// send posts a request and waits until it is done.
func (p *pair) send(wr verbs.SendWR) error {
	wr.WRID, wr.Flags = p.id(), wr.Flags|verbs.SendSignaled
	if err := p.post(wr); err != nil {
		return err
	}
	wcs, err := p.wait(p.ends[0].qp.SendCQ(), 1)
	if err == nil && wcs[0].WRID != wr.WRID {
		err = fmt.Errorf("the completion is of request %d, not %d", wcs[0].WRID, wr.WRID)
	}
	return err
}

// fill writes data that differs from that of the previous step. The pattern repeats after a
// prime number of bytes, so that no two packets are equal.
func (p *pair) fill(b []byte) {
	const period = 251
	p.next++
	for i := range min(len(b), period) {
		b[i] = byte(uint64(i)*7 + p.next*31)
	}
	for have := period; have < len(b); have *= 2 {
		copy(b[have:], b[:have])
	}
}

// same waits until the data has arrived. Only the sender of a write gets a completion,
// possibly before the data has arrived.
func (p *pair) same(what string, got, want []byte) error {
	for !bytes.Equal(got, want) {
		if p.ctx.Err() != nil || p.isReliable() && !p.iwarp() {
			return differ(what, got, want)
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

// isReliable reports whether the completion of a write comes after its data.
func (p *pair) isReliable() bool {
	return p.typ == verbs.QPTypeRC || p.hasTarget() || p.typ == verbs.QPTypeSRD
}

func differ(what string, got, want []byte) error {
	for i := range want {
		if got[i] != want[i] {
			return fmt.Errorf("%s of %d bytes: byte %d is %#02x and should be %#02x", what, len(want), i, got[i], want[i])
		}
	}
	return nil
}

// attributes compares what the device says of a connected queue pair with what it was given.
func attributes(b *environment) (string, error) {
	if b.iwarp() {
		return "", none("iWARP's queue pairs are the connection manager's")
	}
	if b.dev.Info().Driver == verbs.DriverERDMA {
		return "", none("the kernel's driver for eRDMA keeps none but those of the connection")
	}
	p, err := b.pairWith(pairOptions{typ: verbs.QPTypeRC, tune: func(a *verbs.QPAttr) {
		a.AckTimeout, a.RetryCnt, a.RNRRetry, a.RNRTimer = 4096<<15, 5, 4, 960*time.Microsecond
	}})
	if err != nil {
		return "", err
	}
	for i := range p.ends {
		got, err := p.ends[i].qp.Query()
		if err != nil {
			return "", err
		}
		want := p.connected(i)
		for _, c := range []struct {
			name      string
			got, want any
		}{
			{"state", got.State, verbs.QPStateRTS},
			{"path MTU", got.PathMTU, cmp.Or(want.PathMTU, p.link.ActiveMTU)},
			{"peer's number", got.DestQPN, want.DestQPN},
			{"packet number of receives", got.RQPSN, want.RQPSN},
			{"packet number of sends", got.SQPSN, want.SQPSN},
			{"time-out", got.AckTimeout, want.AckTimeout},
			{"retry count", got.RetryCnt, want.RetryCnt},
			{"RNR retry count", got.RNRRetry, want.RNRRetry},
			{"RNR timer", got.RNRTimer, want.RNRTimer},
		} {
			if c.got != c.want {
				return "", fmt.Errorf("the %s of queue pair %d is %v, and was set to %v", c.name, p.ends[i].qp.QPN(), c.got, c.want)
			}
		}
	}
	return "9 attributes of 2 queue pairs", nil
}
