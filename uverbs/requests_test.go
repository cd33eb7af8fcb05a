package uverbs_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/internal/providertest"
	_ "github.com/goverbs/goverbs/provider/mlx5"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
	"github.com/goverbs/goverbs/verbs/flow"
	"github.com/goverbs/goverbs/verbs/rss"
)

// TestRequests makes the same requests of the kernel as test/sandbox/requests.c. Row sandbox compares
// libibverbs with the same golden recordings.
func TestRequests(t *testing.T) {
	for _, c := range []struct {
		golden string
		info   uverbs.DeviceInfo
	}{
		{"testdata/requests-rxe.rec", uverbs.DeviceInfo{Name: "rxe0", Driver: verbs.DriverRXE, ABI: 2, Ports: 1}},
		{"testdata/requests-mlx5.rec", uverbs.DeviceInfo{Name: "mlx5_0", Driver: verbs.DriverMLX5, ABI: 1, Ports: 1}},
		{"testdata/requests-siw.rec", uverbs.DeviceInfo{Name: "siw0", Driver: verbs.DriverSIW, ABI: 1, Ports: 1}},
	} {
		t.Run(c.info.Name, func(t *testing.T) {
			all := func(attach func(*fakeverbs.Kernel)) {
				k := fakeverbs.New(uint32(c.info.Driver))
				attach(k)
				c.info.Node = kernel.Node(k)
				a := newAsker(t, c.info)
				a.twin = func() (*uverbs.Device, error) { return uverbs.ImportOn(c.info, k.Dup()) }
				a.all()
			}
			providertest.Requests(t, c.golden, all)
			if c.info.Driver == verbs.DriverMLX5 {
				providertest.Private(t, "testdata/private-mlx5.rec", all)
			}
		})
	}
}

// asker makes requests of each kind.
type asker struct {
	t          *testing.T
	siw, rereg bool // what librxe, libsiw or libmlx5 has, or has not
	dev        *uverbs.Device
	pd         *uverbs.PD
	cq         *uverbs.CQ
	twin       func() (*uverbs.Device, error) // imports the device
}

func newAsker(t *testing.T, info uverbs.DeviceInfo) *asker {
	a := &asker{t: t, siw: info.Driver == verbs.DriverSIW, rereg: info.Driver == verbs.DriverMLX5}
	a.dev = asked(info.Open())(t)
	a.pd = asked(a.dev.AllocPD())(t)
	a.cq = asked(a.dev.CreateCQ(64, nil))(t)
	return a
}

func asked[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func (a *asker) ok(errs ...error) {
	a.t.Helper()
	for _, err := range errs {
		if err != nil {
			a.t.Fatal(err)
		}
	}
}

func (a *asker) all() {
	a.queries()
	a.regions()
	a.completions()
	srq := a.shared()
	if !a.siw {
		a.connected(verbs.QPTypeRC, srq)
		a.connected(verbs.QPTypeRC, nil)
		a.connected(verbs.QPTypeUC, nil)
		a.datagrams()
	} else {
		a.ok(a.pair(verbs.QPTypeRC, srq, false).Close(), a.pair(verbs.QPTypeRC, nil, true).Close())
	}
	if a.rereg {
		a.domains()
		a.memoryOfDevice()
		a.dmaBuf()
		a.extended()
		a.spread()
	}
	a.ok(srq.Close(), a.cq.Close(), a.pd.Close())
	if a.rereg {
		a.ok(asked(a.twin())(a.t).Close())
	}
	a.ok(a.dev.Close())
}

func (a *asker) queries() {
	asked(a.dev.QueryDevice())(a.t)
	asked(a.dev.QueryPort(1))(a.t)
	asked(a.dev.QueryGID(1, 0))(a.t)
	asked(a.dev.GIDTable())(a.t)
}

const allAccess = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead

func (a *asker) regions() {
	other := asked(a.dev.AllocPD())(a.t)
	memory := make([]byte, 2*4096)
	mr, far := asked(a.pd.RegMR(memory, verbs.AccessLocalWrite))(a.t), asked(a.pd.RegMR(memory[:100], allAccess))(a.t)
	if a.rereg {
		access := allAccess
		a.ok(mr.Rereg(&uverbs.ReregOptions{Access: &access}), mr.Rereg(&uverbs.ReregOptions{PD: other}))
		a.hardware(far)
	}
	a.ok(far.Close(), mr.Close())
	if !a.siw {
		one, two := asked(a.pd.AllocMW(verbs.MWType1))(a.t), asked(a.pd.AllocMW(verbs.MWType2))(a.t)
		a.ok(two.Close(), one.Close())
	}
	a.ok(other.Close())
}

// hardware makes the requests that only libmlx5 supports.
func (a *asker) hardware(mr *uverbs.MR) {
	implicit := asked(a.pd.RegImplicitMR(verbs.AccessLocalWrite))(a.t)
	a.ok(a.pd.AdviseMR(verbs.MRPrefetchWrite, true, []verbs.SGE{{Addr: mr.Addr(), Length: 100, LKey: implicit.LKey()}}))
	a.ok(asked(a.pd.ImportMR(mr.Handle()))(a.t).Close(), implicit.Close())
}

func (a *asker) completions() {
	channel := asked(a.dev.CreateCompChannel())(a.t)
	few, many := asked(a.dev.CreateCQ(3, nil))(a.t), asked(a.dev.CreateCQ(100, &uverbs.CQOptions{Channel: channel}))(a.t)
	if !a.siw {
		a.ok(many.Resize(200))
	}
	a.ok(many.Close(), few.Close(), channel.Close())
}

func (a *asker) shared() *uverbs.SRQ {
	srq := asked(a.pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 8, MaxSGE: 1}))(a.t)
	a.ok(srq.SetLimit(3))
	if !a.siw {
		asked(srq.Query())(a.t)
	}
	return srq
}

func (a *asker) pair(typ verbs.QPType, srq *uverbs.SRQ, signalAll bool) *uverbs.QP {
	o := &uverbs.QPOptions{Type: typ, SendCQ: a.cq, RecvCQ: a.cq, SRQ: srq, SignalAll: signalAll,
		Cap: verbs.QPCap{MaxSendWR: 8, MaxRecvWR: 16, MaxSendSGE: 2, MaxRecvSGE: 1, MaxInline: 32}}
	if srq != nil {
		o.Cap.MaxRecvWR, o.Cap.MaxRecvSGE = 0, 0
	}
	return asked(a.pd.CreateQP(o))(a.t)
}

var way = verbs.AHAttr{Global: true, Port: 1, SL: 3, SGIDIndex: 1, HopLimit: 64, TrafficClass: 8, FlowLabel: 0x12345, DGID: fakeverbs.IPv4GID}

func (a *asker) connected(typ verbs.QPType, srq *uverbs.SRQ) {
	qp := a.pair(typ, srq, typ == verbs.QPTypeUC)
	rtr := verbs.QPAttr{State: verbs.QPStateRTR, PathMTU: verbs.MTU1024, DestQPN: qp.QPN(), RQPSN: 77, AH: way}
	rts := verbs.QPAttr{State: verbs.QPStateRTS, SQPSN: 99}
	rtrMask := verbs.QPAttrState | verbs.QPAttrAV | verbs.QPAttrPathMTU | verbs.QPAttrDestQPN | verbs.QPAttrRQPSN
	rtsMask := verbs.QPAttrState | verbs.QPAttrSQPSN
	if typ == verbs.QPTypeRC {
		rtr.MaxDestRDAtomic, rtr.RNRTimer = 1, 640*time.Microsecond
		rts.AckTimeout, rts.RetryCnt, rts.RNRRetry, rts.MaxRDAtomic = 67*time.Millisecond, 7, 6, 1
		rtrMask |= verbs.QPAttrMaxDestRDAtomic | verbs.QPAttrRNRTimer
		rtsMask |= verbs.QPAttrAckTimeout | verbs.QPAttrRetryCnt | verbs.QPAttrRNRRetry | verbs.QPAttrMaxQPRDAtomic
	}
	a.ok(qp.Modify(&verbs.QPAttr{State: verbs.QPStateInit, Port: 1, Access: verbs.AccessRemoteWrite},
		verbs.QPAttrState|verbs.QPAttrPKeyIndex|verbs.QPAttrPort|verbs.QPAttrAccess),
		qp.Modify(&rtr, rtrMask), qp.Modify(&rts, rtsMask))
	asked(qp.Query())(a.t)
	a.ok(qp.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.QPAttrState), qp.Close())
}

func (a *asker) datagrams() {
	qp := a.pair(verbs.QPTypeUD, nil, false)
	a.ok(asked(a.pd.CreateAH(&way))(a.t).Close())
	a.ok(qp.Modify(&verbs.QPAttr{State: verbs.QPStateInit, Port: 1, QKey: 0x11111111},
		verbs.QPAttrState|verbs.QPAttrPKeyIndex|verbs.QPAttrPort|verbs.QPAttrQKey))
	group := verbs.GID{0: 0xff, 1: 0x0e, 15: 7}
	a.ok(qp.AttachMcast(group, 0xc001), qp.DetachMcast(group, 0xc001), qp.Close())
}

func (a *asker) domains() {
	xrcd := asked(a.dev.OpenXRCD(nil, os.O_CREATE))(a.t)
	srq := asked(a.pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 8, MaxSGE: 1, XRCD: xrcd, CQ: a.cq}))(a.t)
	target := asked(xrcd.CreateQP())(a.t)
	a.ok(asked(xrcd.OpenQP(target.QPN()))(a.t).Close())
	initiator := asked(a.pd.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeXRCInitiator, SendCQ: a.cq,
		Cap: verbs.QPCap{MaxSendWR: 8, MaxSendSGE: 2, MaxInline: 32}}))(a.t)
	a.ok(initiator.Close(), target.Close(), srq.Close(), xrcd.Close())
}

func (a *asker) memoryOfDevice() {
	dm := asked(a.dev.AllocDM(4096, 64))(a.t)
	a.ok(asked(a.pd.RegDM(dm, 64, 128, verbs.AccessZeroBased|verbs.AccessLocalWrite))(a.t).Close(), dm.Close())
	a.ok(asked(a.dev.CreateCounters())(a.t).Close())
}

// dmaBuf registers memory of an empty file, which is refused: the question is what is asked.
func (a *asker) dmaBuf() {
	file := asked(os.CreateTemp(a.t.TempDir(), ""))(a.t)
	if _, err := a.pd.RegDMABuf(file, 4096+64, 4096, 0x7000000040, verbs.AccessLocalWrite|verbs.AccessRemoteRead); err == nil {
		a.t.Fatal("an empty file is registered")
	}
	a.ok(file.Close())
}

func (a *asker) extended() {
	cq := asked(a.dev.CreateCQ(100, &uverbs.CQOptions{Ext: verbs.WCExtTimestamp}))(a.t)
	a.ok(cq.Moderate(16, 200*time.Microsecond), cq.Close())
}

func (a *asker) spread() {
	var wqs []*uverbs.WQ
	for range 2 {
		wq := asked(a.pd.CreateWQ(&uverbs.WQOptions{MaxWR: 8, MaxSGE: 2, CQ: a.cq}))(a.t)
		a.ok(wq.Modify(&rss.WQAttr{State: rss.WQStateReady}, rss.WQAttrState))
		wqs = append(wqs, wq)
	}
	table := asked(a.dev.CreateRWQIndTable(wqs))(a.t)
	key := make([]byte, 40)
	for i := range key {
		key[i] = byte(i + 1)
	}
	qp := asked(a.pd.CreateRSSQP(&uverbs.RSSOptions{Table: table, Hash: rss.Hash{Function: rss.Toeplitz, Key: key,
		Fields: rss.SrcIPv4 | rss.DstIPv4 | rss.SrcPortUDP | rss.DstPortUDP}}))(a.t)
	a.flows(qp)
	a.count(qp)
	a.ok(qp.Close(), table.Close(), wqs[1].Close(), wqs[0].Close())
}

func (a *asker) flows(qp *uverbs.QP) {
	ipv4 := &flow.IPv4{Val: flow.IPv4Fields{Src: [4]byte{1, 2, 3, 4}, Dst: [4]byte{5, 6, 7, 8}, Proto: 17, TOS: 8},
		Mask: flow.IPv4Fields{Src: [4]byte{255, 255, 255, 255}, Dst: [4]byte{255, 255}, Proto: 0xff, TOS: 0xfc}}
	val, mask := flow.Ports{Dst: 5678, Src: 1234}, flow.Ports{Dst: 0xffff, Src: 0xffff}
	udp, tcp := &flow.UDP{Val: val, Mask: mask}, &flow.TCP{Val: val, Mask: mask}
	ipv6 := &flow.IPv6{Val: flow.IPv6Fields{Src: [16]byte{0: 0xa1, 15: 1}, Dst: [16]byte{0: 0xb2, 15: 2}, FlowLabel: 0x12345, NextHeader: 6, TrafficClass: 8, HopLimit: 9},
		Mask: flow.IPv6Fields{Src: [16]byte{0xff}, Dst: [16]byte{0xff}, FlowLabel: 0xfffff, NextHeader: 0xff, TrafficClass: 0xff, HopLimit: 0xff}}
	for _, o := range []uverbs.FlowOptions{
		{Specs: []flow.Spec{eth(0x800), ipv4, udp}},
		{Specs: []flow.Spec{eth(0x800), ipv4, udp, flow.Tag(77)}},
		{Specs: []flow.Spec{eth(0x86dd), ipv6, tcp}},
		{Specs: []flow.Spec{eth(0x800), flow.Drop{}}, Priority: 1},
		{Specs: []flow.Spec{eth(0x800), ipv4, udp, &flow.VXLAN{Val: 0x1234, Mask: 0xffffff}}},
		{Specs: []flow.Spec{eth(0x800), ipv4, &flow.GRE{Val: flow.GREFields{Protocol: 0x6558, Key: 99}, Mask: flow.GREFields{Protocol: 0xffff, Key: 0xffffffff}}}},
		{Specs: []flow.Spec{eth(0x8847), &flow.MPLS{Val: 0x12345000, Mask: 0xfffff000}}},
	} {
		// The device may refuse: the question is what it is asked.
		if f, err := qp.CreateFlow(&o); err == nil {
			a.ok(f.Close())
		} else if !errors.Is(err, errors.ErrUnsupported) {
			a.t.Fatal(err)
		}
	}
}

func (a *asker) count(qp *uverbs.QP) {
	counters := asked(a.dev.CreateCounters())(a.t)
	a.ok(counters.Count(flow.CounterPackets, 0), counters.Count(flow.CounterBytes, 1))
	rule := asked(qp.CreateFlow(&uverbs.FlowOptions{Specs: []flow.Spec{eth(0x800), counters}}))(a.t)
	a.ok(counters.Read(make([]uint64, 2), false), rule.Close(), counters.Close())
}

func eth(typ uint16) flow.Spec {
	return &flow.Eth{Val: flow.EthFields{DstMAC: [6]byte{2, 0, 0, 0, 0, 1}, SrcMAC: [6]byte{2, 0, 0, 0, 0, 2}, EtherType: typ},
		Mask: flow.EthFields{DstMAC: [6]byte{255, 255, 255, 255, 255, 255}, SrcMAC: [6]byte{255}, EtherType: 0xffff}}
}
