package rdmatest_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestResources checks that netlink lists the objects of all programs, and changes nothing.
func TestResources(t *testing.T) {
	f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.RXE})
	all := kernel.Registered()
	c := netlinkrdma.Client{Kernel: all[len(all)-1].Netlink()}
	device := must(c.DeviceByName(f.Host(0).Device(0).Name()))(t).Index
	counts := func() string { return fmt.Sprint(must(c.Resources(device, nil))(t)) }
	if got, want := counts(), "[{pd 0 0} {cq 0 0} {qp 0 0} {cm_id 0 0} {mr 0 0} {ctx 0 0} {srq 0 0}]"; got != want {
		t.Errorf("%s, not %s", got, want)
	}
	a := newNode(t, f.Host(0).Device(0), verbs.QPTypeRC, verbs.AccessLocalWrite)
	b := newNode(t, f.Host(0).Device(0), verbs.QPTypeRC, verbs.AccessLocalWrite)
	srq := closed(t, must(a.pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 4, MaxSGE: 1}))(t))
	third := closed(t, must(a.pd.CreateQP(&uverbs.QPOptions{SendCQ: a.cq, RecvCQ: a.cq, SRQ: srq, Cap: verbs.QPCap{MaxSendWR: 1, MaxSendSGE: 1}}))(t))
	a.connect(b, nil)
	if got, want := counts(), "[{pd 2 0} {cq 2 0} {qp 3 0} {cm_id 0 0} {mr 2 0} {ctx 2 0} {srq 1 0}]"; got != want {
		t.Errorf("%s, not %s", got, want)
	}
	qp := must(c.QP(device, 1, a.qp.QPN()))(t)
	pd := must(c.PD(device, qp.PDN.Value))(t)
	if qp.TID != uint32(os.Getpid()) || qp.State != verbs.QPStateRTS || qp.RQPN.Value != b.qp.QPN() || pd.Users != 4 {
		t.Errorf("%+v in %+v", qp, pd)
	}
	if other := must(c.PD(device, must(c.QP(device, 1, b.qp.QPN()))(t).PDN.Value))(t); other.CTXN == pd.CTXN {
		t.Errorf("%+v and %+v", pd, other)
	}
	for s, err := range c.SRQs(device, nil) {
		if err != nil || s.PDN != qp.PDN || len(s.LQPN) != 1 || s.LQPN[0].First != third.QPN() {
			t.Errorf("%+v %v", s, err)
		}
	}
	if _, err := c.PortCounters(device, 1); err != nil {
		t.Error(err)
	}
	for _, err := range []error{c.RenameDevice(device, "other"), c.DeleteLink(device), c.AddLink("other", "siw", "lo"), c.SetNetnsMode(netlinkrdma.NetnsExclusive),
		c.SetAutoCounters(device, 1, netlinkrdma.CountByType, nil)} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Error(err)
		}
	}
	if d := must(c.Device(device))(t); d.Name != f.Host(0).Device(0).Name() {
		t.Errorf("%+v", d)
	}
}

// TestResourceCMIDs checks that netlink lists the connection manager's IDs, with their owners, states and addresses.
func TestResourceCMIDs(t *testing.T) {
	for _, kind := range []rdmatest.Kind{rdmatest.RXE, rdmatest.SIW} {
		f := rdmatest.NewWith(t, &rdmatest.Options{Kind: kind, Hosts: make([]rdmatest.HostOptions, 2)})
		all := kernel.Registered()
		c := netlinkrdma.Client{Kernel: all[len(all)-1].Netlink()}
		ids := func(host int) (list string) {
			device := must(c.DeviceByName(f.Host(host).Device(0).Name()))(t).Index
			for id, err := range c.CMIDs(device, nil) {
				if err != nil || id.TID != uint32(os.Getpid()) {
					t.Errorf("%+v %v", id, err)
				}
				list += fmt.Sprintln(id.State, id.PS, id.Src.AddrPort, id.Dst.AddrPort, id.LQPN != 0)
			}
			return list
		}
		l := must(rdmacm.Listen(t.Context(), f.Host(1).Addr()+":0"))(t)
		listening := fmt.Sprintln("LISTEN TCP", l.Addr(), "invalid AddrPort false")
		if got := ids(1); got != listening {
			t.Errorf("%s, not %s", got, listening)
		}
		accepted := make(chan *rdmacm.Conn)
		go func() {
			conn, err := l.Accept(t.Context())
			if err != nil {
				t.Error(err)
			}
			accepted <- conn
		}()
		conn := must(rdmacm.Dial(t.Context(), l.Addr().String()))(t)
		peer := <-accepted
		if got, want := ids(1), listening+fmt.Sprintln("CONNECT TCP", l.Addr(), conn.LocalAddr(), "true"); got != want {
			t.Errorf("%s, not %s", got, want)
		}
		if got, want := ids(0), fmt.Sprintln("CONNECT TCP", conn.LocalAddr(), l.Addr(), "true"); got != want {
			t.Errorf("%s, not %s", got, want)
		}
		for _, c := range []io.Closer{conn, peer, l} {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
		if got := ids(0) + ids(1); got != "" {
			t.Error(got)
		}
		killed := must(rdmacm.Listen(t.Context(), f.Host(1).Addr()+":0"))(t)
		f.Host(1).Kill()
		if got := ids(1); got != "" {
			t.Errorf("a killed program has %s", got)
		}
		_ = killed.Close()
	}
}
