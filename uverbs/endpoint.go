package uverbs

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/goverbs/goverbs/verbs"
)

// Endpoint is what queue pairs need: a protection domain, and completion queues with a completion
// channel. [Endpoint.CreateQP] creates queue pairs on it, and PD's methods create memory regions,
// SRQs and address handles. [Endpoint.Close] closes all of them, each before what it uses.
type Endpoint struct {
	PD             *PD
	SendCQ, RecvCQ *CQ // may be the same

	own []*object // those of the above, and the channel, that the endpoint has created, in this order
}

// EndpointOptions describes a new Endpoint.
type EndpointOptions struct {
	// PD is a protection domain that endpoints share. If it is nil, the endpoint has its own.
	PD *PD
	// SendCQEntries and RecvCQEntries are the sizes of the completion queues. If RecvCQEntries is
	// 0, sends and receives share one of SendCQEntries. If that is 0 as well, there is none, and
	// the endpoint is only a PD that closes all that was created in it.
	SendCQEntries, RecvCQEntries int
	// CQ describes the completion queues. If its Channel is nil, they share a new one.
	CQ CQOptions
}

// CreateEndpoint creates an endpoint; nil options are zero ones. If it fails, nothing is left open.
func (d *Device) CreateEndpoint(opts *EndpointOptions) (*Endpoint, error) {
	if opts == nil {
		opts = &EndpointOptions{}
	}
	e := &Endpoint{PD: opts.PD}
	if err := e.create(d, opts); err != nil {
		if len(e.own) > 0 {
			err = errors.Join(err, e.Close())
		}
		return nil, err
	}
	return e, nil
}

func (e *Endpoint) create(d *Device, opts *EndpointOptions) (err error) {
	if e.PD == nil {
		if e.PD, err = d.AllocPD(); err != nil {
			return err
		}
		e.own = append(e.own, &e.PD.object)
	}
	if opts.SendCQEntries|opts.RecvCQEntries == 0 {
		return nil
	}
	cq := opts.CQ
	if cq.Channel == nil {
		if cq.Channel, err = d.CreateCompChannel(); err != nil {
			return err
		}
		e.own = append(e.own, &cq.Channel.object)
	}
	if e.SendCQ, err = d.CreateCQ(opts.SendCQEntries, &cq); err != nil {
		return err
	}
	e.own = append(e.own, &e.SendCQ.object)
	if e.RecvCQ = e.SendCQ; opts.RecvCQEntries == 0 {
		return nil
	}
	if e.RecvCQ, err = d.CreateCQ(opts.RecvCQEntries, &cq); err != nil {
		return err
	}
	e.own = append(e.own, &e.RecvCQ.object)
	return nil
}

// CreateQP creates a queue pair in PD. CQs that opts does not name are the endpoint's.
//
// C: ibv_create_qp
func (e *Endpoint) CreateQP(opts *QPOptions) (*QP, error) {
	var o QPOptions
	if opts != nil {
		o = *opts
	}
	if o.SendCQ == nil && o.Type != verbs.QPTypeDCT {
		o.SendCQ = e.SendCQ
	}
	if o.RecvCQ == nil && !onlySends(o.Type) {
		o.RecvCQ = e.RecvCQ
	}
	return cmp.Or(e.PD, &PD{}).CreateQP(&o) // a zero Endpoint has none
}

// Close closes the endpoint and all objects that use it: queue pairs first, which ends their
// work, then what else was created in the endpoint's own PD. Objects in a shared PD stay open
// unless they use the endpoint's CQs. Connections of package rdmacm that use the endpoint have to
// be closed before.
//
// If an object can't be closed, Close stops there, and another Close goes on.
func (e *Endpoint) Close() error {
	if e == nil {
		return closeNil("Endpoint")
	}
	closed := true
	for _, o := range slices.Backward(e.own) {
		err := o.closeAll()
		if errors.Is(err, verbs.ErrClosed) {
			continue
		}
		if closed = false; err != nil {
			return err
		}
	}
	if closed {
		return &verbs.Error{Op: "close", Object: "endpoint", Err: verbs.ErrClosed}
	}
	return nil
}

// Format implements [fmt.Formatter]. It prints the names and states of PD and CQs.
func (e *Endpoint) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "endpoint: %v, %v, %v", e.PD, e.SendCQ, e.RecvCQ)
}
