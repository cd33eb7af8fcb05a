//go:build vm

package test

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestRxeClosedUnderUse closes a device and all it has while goroutines post,
// poll, arm, wait, query and modify. Too early is ErrInUse and does no harm;
// afterwards every call says ErrClosed. The target vmrace runs it under the race
// detector.
func TestRxeClosedUnderUse(t *testing.T) {
	for _, typ := range []verbs.QPType{verbs.QPTypeRC, verbs.QPTypeUD} {
		t.Run(fmt.Sprint(typ), func(t *testing.T) {
			rxeFabric(t)
			noLeak(t)
			for range 3 {
				closeUnderUse(t, typ)
			}
		})
	}
}

func closeUnderUse(t *testing.T, typ verbs.QPType) {
	d := must(uverbs.Open(rxeLink))(t)
	r := &rxeDevice{Device: d, t: t, pd: must(d.AllocPD())(t), attr: must(d.Query())(t), gid: *must(d.ChooseGID(1, nil))(t)}
	u := &usage{t: t, channel: must(d.CreateCompChannel())(t)}
	u.mr = must(r.pd.AllocMR(recvSize, verbs.AccessLocalWrite, nil))(t)
	u.cq = must(d.CreateCQ(1024, &uverbs.CQOptions{Channel: u.channel}))(t)
	u.qp = must(r.pd.CreateQP(&uverbs.QPOptions{Type: typ, SendCQ: u.cq, RecvCQ: u.cq,
		Cap: verbs.QPCap{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 1, MaxRecvSGE: 1}}))(t)
	to := verbs.AHAttr{Global: true, DGID: r.gid.GID, SGIDIndex: r.gid.Index, HopLimit: 64, Port: 1}
	if typ == verbs.QPTypeUD {
		u.ah = must(r.pd.CreateAH(&to))(t)
	}
	attr := &verbs.QPAttr{QKey: rxeQKey, DestQPN: u.qp.Num(), AH: to}
	if err := errors.Join(u.qp.Init(attr), u.qp.Connect(attr)); err != nil {
		t.Fatal(err)
	}

	u.use("PostSend", u.send)
	u.use("PostRecv", u.receive)
	u.use("Poll", func() error { _, err := u.cq.Poll(make([]verbs.WC, 4)); return err })
	u.use("Arm", func() error { return u.cq.Arm(false) })
	for range 3 {
		u.use("Wait", func() error { _, err := u.cq.Wait(t.Context(), make([]verbs.WC, 1)); return err })
	}
	u.use("QP.Query", func() error { _, err := u.qp.Query(); return err })
	u.use("Device.QueryPort", func() error { _, err := d.QueryPort(1); return err })
	u.use("AsyncEvent", func() error { _, err := d.AsyncEvent(t.Context()); return err })
	for range 200 {
		u.cq.Poll(make([]verbs.WC, 1))
		runtime.Gosched()
	}
	for _, c := range []interface{ Close() error }{d, r.pd, u.channel, u.cq} {
		if err := c.Close(); !errors.Is(err, verbs.ErrInUse) {
			t.Errorf("%T: %v", c, err)
		}
	}
	u.closed(u.qp)
	if u.ah != nil {
		u.closed(u.ah)
	}
	u.closed(u.cq)
	u.closed(u.channel)
	u.closed(u.mr)
	u.closed(r.pd)
	u.closed(d)
	u.all.Wait()
}

// usage is a QP that talks to itself, in many goroutines.
type usage struct {
	t       *testing.T
	mr      *uverbs.MR
	channel *uverbs.CompChannel
	cq      *uverbs.CQ
	qp      *uverbs.QP
	ah      *verbs.AH
	all     sync.WaitGroup
}

// use calls until something is closed.
func (u *usage) use(name string, call func() error) {
	u.all.Go(func() {
		var err error
		for err == nil {
			err = call()
			runtime.Gosched()
		}
		if !errors.Is(err, verbs.ErrClosed) {
			u.t.Errorf("%s: %v", name, err)
		}
	})
}

func (u *usage) send() error {
	_, err := u.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, AH: u.ah,
		RemoteQPN: u.qp.Num(), RemoteQKey: rxeQKey, SGL: []verbs.SGE{u.mr.SGE(0, 8)}}})
	return ignoreFull(err)
}

func (u *usage) receive() error {
	_, err := u.qp.PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{u.mr.SGE(0, recvSize)}}})
	return ignoreFull(err)
}

func ignoreFull(err error) error {
	if errors.Is(err, verbs.ErrQueueFull) {
		return nil
	}
	return err
}

func (u *usage) closed(c interface{ Close() error }) {
	u.t.Helper()
	if err := c.Close(); err != nil {
		u.t.Errorf("%T: %v", c, err)
	}
}
