package uverbs_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

var endpointOptions = uverbs.EndpointOptions{SendCQEntries: 8, RecvCQEntries: 4}

// fullEndpoint creates an endpoint with an object of each kind that can be created on one.
func fullEndpoint(dev *uverbs.Device) (e *uverbs.Endpoint, err error) {
	if e, err = dev.CreateEndpoint(&endpointOptions); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Close())
		}
	}()
	srq, err := e.PD.CreateSRQ(&uverbs.SRQOptions{MaxWR: 4, MaxSGE: 1})
	if err != nil {
		return e, err
	}
	for _, srq := range []*uverbs.SRQ{nil, srq} {
		qp, err := e.CreateQP(&uverbs.QPOptions{SRQ: srq, Cap: verbs.QPCap{MaxSendWR: 1, MaxSendSGE: 1}})
		if err != nil {
			return e, err
		}
		if qp.SendCQ() != e.SendCQ || qp.RecvCQ() != e.RecvCQ {
			return e, errors.New("the queue pair is not on the endpoint's CQs")
		}
	}
	if _, err := e.PD.AllocMR(4096, verbs.AccessLocalWrite, nil); err != nil {
		return e, err
	}
	if _, err := e.PD.CreateAH(&verbs.AHAttr{Port: 1, Global: true, DGID: verbs.GID{0: 0xfe, 1: 0x80, 15: 1}}); err != nil {
		return e, err
	}
	_, err = e.PD.AllocMW(verbs.MWType1)
	return e, err
}

// TestEndpoint checks that an endpoint closes the objects created on it, in an order that the kernel
// accepts: queue pairs end their work before the memory goes that they may still use.
func TestEndpoint(t *testing.T) {
	k, dev := open(t, rxe0)
	e := must[*uverbs.Endpoint](t)(fullEndpoint(dev))
	var order []string
	k.Refuse = func(call string) error {
		order = append(order, call)
		return nil
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	k.Refuse = nil
	if alive := k.Alive(); len(alive) > 0 {
		t.Errorf("left open: %q", alive)
	}
	if want := "QP QP CQ CQ MW AH MR SRQ PD"; strings.ReplaceAll(strings.Join(order, " "), "_DESTROY", "") != want {
		t.Errorf("closed in this order: %q, want %s", order, want)
	}
	if err := e.Close(); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("closed twice: %v", err)
	}
}

// TestEndpointFails checks that when any call fails while an endpoint is set up, nothing is left
// open.
func TestEndpointFails(t *testing.T) {
	for n, done := 0, false; !done && n < 100; n++ {
		k, dev := open(t, rxe0)
		calls := 0
		k.Refuse = func(string) error {
			if calls++; calls == n+1 {
				return syscall.ENOMEM
			}
			return nil
		}
		e, err := fullEndpoint(dev)
		k.Refuse = nil
		if done = err == nil; done {
			err = e.Close()
		} else if errors.Is(err, syscall.ENOMEM) {
			err = nil
		}
		if err != nil {
			t.Errorf("call %d: %v", n+1, err)
		}
		if alive := k.Alive(); len(alive) > 0 {
			t.Errorf("call %d: left open: %q", n+1, alive)
		}
		if done && n < 10 {
			t.Errorf("only %d calls", n)
		}
	}
}

// TestEndpointCloseFails checks that what a failed Close leaves open, the next one closes.
func TestEndpointCloseFails(t *testing.T) {
	for _, call := range []string{"QP_DESTROY", "CQ_DESTROY", "PD_DESTROY"} {
		k, dev := open(t, rxe0)
		e := must[*uverbs.Endpoint](t)(fullEndpoint(dev))
		failed := false
		k.Refuse = func(c string) error {
			if !failed && strings.Contains(c, call) {
				failed = true
				return syscall.EBUSY
			}
			return nil
		}
		if err := e.Close(); !errors.Is(err, syscall.EBUSY) || errors.Is(err, verbs.ErrInUse) {
			t.Errorf("%s: %v", call, err)
		}
		if err := e.Close(); err != nil || len(k.Alive()) > 0 {
			t.Errorf("%s: %v, left open: %q", call, err, k.Alive())
		}
	}
}

// TestEndpointShares checks that an endpoint leaves a PD and a channel that are not its own alone.
func TestEndpointShares(t *testing.T) {
	w := worldOn(t, rxe0)
	before := len(w.k.Alive())
	e := must[*uverbs.Endpoint](t)(w.dev.CreateEndpoint(&uverbs.EndpointOptions{PD: w.pd, SendCQEntries: 1, CQ: uverbs.CQOptions{Channel: w.channel}}))
	if e.PD != w.pd || e.RecvCQ != e.SendCQ || e.SendCQ.Channel() != w.channel {
		t.Error("the endpoint does not share what it should")
	}
	must[*uverbs.QP](t)(e.CreateQP(&uverbs.QPOptions{Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1}}))
	if err := e.Close(); err != nil || len(w.k.Alive()) != before {
		t.Errorf("%v, there is %q", err, w.k.Alive())
	}
}

// TestEndpointWithoutCQs checks that an endpoint that is only a PD closes all in it, the queue pairs
// first.
func TestEndpointWithoutCQs(t *testing.T) {
	w := worldOn(t, rxe0)
	before := len(w.k.Alive())
	e := must[*uverbs.Endpoint](t)(w.dev.CreateEndpoint(nil))
	if _, err := e.CreateQP(&uverbs.QPOptions{}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("a queue pair without CQs: %v", err)
	}
	must[*uverbs.QP](t)(e.CreateQP(w.qpOptions()))
	must[*uverbs.MR](t)(e.PD.AllocMR(4096, 0, nil))
	var order []string
	w.k.Refuse = func(call string) error {
		order = append(order, call)
		return nil
	}
	err := e.Close()
	w.k.Refuse = nil
	if want := "QP_DESTROY MR_DESTROY PD_DESTROY"; err != nil || strings.Join(order, " ") != want || len(w.k.Alive()) != before {
		t.Errorf("%v, closed in this order: %q, want %s", err, order, want)
	}
	if err := new(uverbs.Endpoint).Close(); !errors.Is(err, verbs.ErrClosed) {
		t.Error(err)
	}
}
