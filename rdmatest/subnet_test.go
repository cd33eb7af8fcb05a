package rdmatest_test

import (
	"testing"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/verbs"
)

// wires is a subnet of two ports.
type wires struct {
	ports [2]rdmatest.SubnetState
	cut   bool
}

// wireEnd is a port of wires.
type wireEnd struct {
	*wires
	n int
}

func (e wireEnd) State() rdmatest.SubnetState { return e.ports[e.n] }

func (e wireEnd) Route(lid uint16) rdmatest.SubnetPort {
	for n, p := range e.ports {
		if p.LID == lid && !e.cut {
			return wireEnd{e.wires, n}
		}
	}
	return nil
}

// A subnet sets the attributes of ports, and leads packets to LIDs.
func TestSubnet(t *testing.T) {
	var w wires
	var o rdmatest.Options
	for n := range w.ports {
		w.ports[n] = rdmatest.SubnetState{NodeGUID: verbs.GUID(0x10 + n), State: verbs.PortActive, Phys: verbs.PhysLinkUp, LID: uint16(7 + n), SMLID: 7, Width: 2, Speed: 32,
			GIDs: []verbs.GID{{0: 0xfe, 1: 0x80, 15: byte(n + 1)}}}
		o.Hosts = append(o.Hosts, rdmatest.HostOptions{Devices: []rdmatest.DeviceOptions{{Kind: rdmatest.MLX5, Subnet: wireEnd{&w, n}}}})
	}
	f := rdmatest.NewWith(t, &o)
	a, b := newNode(t, f.Host(0).Device(0), verbs.QPTypeRC, all), newNode(t, f.Host(1).Device(0), verbs.QPTypeRC, all)
	p := must(b.dev.QueryPort(1))(t)
	if p.LID != 8 || p.SMLID != 7 || p.State != verbs.PortActive || p.LinkLayer != verbs.LinkInfiniBand {
		t.Errorf("%+v", p)
	}
	if gid := must(b.dev.GIDTable())(t); len(gid) != 1 || gid[0].GID != w.ports[1].GIDs[0] {
		t.Error(gid)
	}
	by := func(lid uint16) func(*verbs.QPAttr) {
		return func(a *verbs.QPAttr) { a.AH, a.AckTimeout, a.RetryCnt = verbs.AHAttr{DLID: lid}, 4096, 1 }
	}
	a.connect(b, by(8))
	b.connect(a, by(7))
	a.post(a.to(b, verbs.OpRDMAWrite, 8))
	if got := outcome(a.next()); got != "1 RDMA_WRITE success" {
		t.Error(got)
	}
	w.cut = true
	a.post(a.to(b, verbs.OpRDMAWrite, 8))
	if got := outcome(a.next()); got != "1 transport retries exceeded" {
		t.Error(got)
	}
	w.ports[0].State = verbs.PortInit
	if p := must(a.dev.QueryPort(1))(t); p.State != verbs.PortInit {
		t.Errorf("%+v", p)
	}
	w.cut, w.ports[0].State = false, verbs.PortActive
	dialled, accepted := meet(t, f, nil) // by the connection manager
	mr := region(t, accepted, nil)
	must(dialled.QP().PostSend([]verbs.SendWR{{Opcode: verbs.OpRDMAWrite, Inline: []byte("hello"), RemoteAddr: mr.Addr(), RKey: mr.RKey(), Flags: verbs.SendSignaled}}))(t)
	if wc := poll(t, dialled.SendCQ()); wc.Err() != nil || string(mr.Bytes()[:5]) != "hello" {
		t.Errorf("%v, %q", wc, mr.Bytes()[:5])
	}
}
