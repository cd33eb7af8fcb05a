//go:build linux

package main

import (
	"errors"
	"sync"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// lowPairs creates queue pairs as cmtime does. They have a depth of one work request, and all use the CQs
// that were created with the first one.
type lowPairs struct {
	mu       sync.Mutex
	dev      *uverbs.Device
	pd       *uverbs.PD
	channels [2]*uverbs.CompChannel
	cqs      [2]*uverbs.CQ
}

// attach creates a queue pair for an ID that has a device.
func (p *lowPairs) attach(id *rdmacm.ID) (*uverbs.QP, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dev == nil {
		if err := p.open(id); err != nil {
			return nil, err
		}
	}
	qp, err := p.pd.CreateQP(&uverbs.QPOptions{SendCQ: p.cqs[0], RecvCQ: p.cqs[1],
		Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}})
	if err != nil {
		return nil, err
	}
	return qp, id.AttachQP(qp)
}

func (p *lowPairs) open(id *rdmacm.ID) error {
	addr, err := id.QueryAddr()
	if err != nil {
		return err
	}
	if p.dev, err = uverbs.OpenIndex(addr.DeviceIndex, addr.NodeGUID); err != nil {
		return err
	}
	if p.pd, err = p.dev.AllocPD(); err != nil {
		return err
	}
	for i := range p.cqs {
		if p.channels[i], err = p.dev.CreateCompChannel(); err != nil {
			return err
		}
		if p.cqs[i], err = p.dev.CreateCQ(1, &uverbs.CQOptions{Channel: p.channels[i]}); err != nil {
			return err
		}
	}
	return nil
}

func (p *lowPairs) close() error {
	if p.dev == nil {
		return nil
	}
	return errors.Join(p.cqs[0].Close(), p.cqs[1].Close(), p.channels[0].Close(), p.channels[1].Close(), p.pd.Close(), p.dev.Close())
}

// release detaches a queue pair from its ID and destroys it, as rdma_destroy_qp does.
func release(id *rdmacm.ID, qp *uverbs.QP) error {
	id.DetachQP()
	return qp.Close()
}
