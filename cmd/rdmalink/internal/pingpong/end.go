package pingpong

import (
	"errors"
	"io"
	"slices"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// end is one end: the objects that it works with.
//
// C: struct pingpong_context
type end struct {
	dev  *uverbs.Device
	port *verbs.PortAttr
	pd   *uverbs.PD
	mr   *uverbs.MR // one message, preceded by the space that a receive needs in front of it
	cq   *uverbs.CQ
	srq  *uverbs.SRQ // nil, or in the QPs' place for receives
	ah   *verbs.AH   // the way to the peer, for datagrams
	qps  []*uverbs.QP
	rest []io.Closer // other objects to close, in order of creation
}

func (e *end) own(c io.Closer) { e.rest = append(e.rest, c) }

// Close closes the QPs first, which ends their outstanding work.
func (e *end) Close() error {
	var err error
	for _, qp := range e.qps {
		err = errors.Join(err, qp.Close())
	}
	for _, c := range slices.Backward(e.rest) {
		err = errors.Join(err, c.Close())
	}
	return err
}

// prepare creates all objects on a device. It closes the device on failure.
func (p *session) prepare(dev *uverbs.Device) (*end, error) {
	e := &end{dev: dev}
	e.own(dev)
	for _, step := range []func(*end) error{p.fits, p.makeMemory, p.makeCQ, p.makeSRQ, p.makePairs} {
		if err := step(e); err != nil {
			return nil, errors.Join(err, e.Close())
		}
	}
	return e, nil
}

func (p *session) makeMemory(e *end) (err error) {
	if e.pd, err = e.dev.AllocPD(); err != nil {
		return err
	}
	e.own(e.pd)
	access := verbs.AccessLocalWrite
	if p.odp {
		access |= verbs.AccessOnDemand
	}
	if e.mr, err = e.pd.AllocMR(p.kind.front+p.size, access, nil); err != nil {
		return err
	}
	e.own(e.mr)
	fill(e.mr.Bytes())
	if p.prefetch {
		return e.pd.AdviseMR(verbs.MRPrefetchWrite, true, []verbs.SGE{e.mr.SGE(0, e.mr.Len())})
	}
	return nil
}

func (p *session) makeCQ(e *end) (err error) {
	var opts uverbs.CQOptions
	if p.events {
		if opts.Channel, err = e.dev.CreateCompChannel(); err != nil {
			return err
		}
		e.own(opts.Channel)
	}
	if e.cq, err = e.dev.CreateCQ(p.rxDepth+p.qpCount, &opts); err != nil {
		return err
	}
	e.own(e.cq)
	return nil
}

func (p *session) makeSRQ(e *end) (err error) {
	if !p.kind.srq {
		return nil
	}
	if e.srq, err = e.pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: uint32(p.rxDepth), MaxSGE: 1}); err != nil {
		return err
	}
	e.own(e.srq)
	return nil
}

func (p *session) makePairs(e *end) error {
	opts := &uverbs.QPOptions{Type: p.kind.qpType, SendCQ: e.cq, RecvCQ: e.cq, SRQ: e.srq,
		Cap: verbs.QPCap{MaxSendWR: 1, MaxSendSGE: 1}}
	if e.srq == nil {
		opts.Cap.MaxRecvWR, opts.Cap.MaxRecvSGE = uint32(p.rxDepth), 1
	}
	for range p.qpCount {
		qp, err := e.pd.CreateQP(opts)
		if err != nil {
			return err
		}
		e.qps = append(e.qps, qp)
		if err := qp.Init(&verbs.QPAttr{Port: uint32(p.ibPort), QKey: qkey}); err != nil {
			return err
		}
	}
	return nil
}
