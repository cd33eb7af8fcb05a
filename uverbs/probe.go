package uverbs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/verbs"
	"github.com/goverbs/goverbs/verbs/flow"
	"github.com/goverbs/goverbs/verbs/rss"
)

// Verb names a call that not every device supports: a method as Go documentation writes it, such as
// "CQ.Resize", and after a space the variant of an object, such as "PD.CreateQP UD".
//
// Experimental: may change in any release; see docs/stability.md.
type Verb string

// Verbs returns all verbs that [Device.Probe] knows, in the order of the objects. Closing an object
// is not among them, because a device can destroy every object that it can create.
//
// Experimental: may change in any release; see docs/stability.md.
func Verbs() []Verb {
	all := make([]Verb, len(probes))
	for i, p := range probes {
		all[i] = p.verb
	}
	return all
}

// Probe finds out whether a verb works on this device with the provider that the program links. It
// returns nil if the verb works. If the device, its driver or its kernel lacks it, the error matches
// ErrNotSupported; without a provider that the verb needs, it matches ErrNoProvider. Any other
// error means that Probe could not find out. For example, a QP of type RawPacket needs CAP_NET_RAW,
// and an address handle needs a port with a GID.
//
// Linux does not report which verbs a device has, so Probe makes the call on temporary objects.
// These are at most three QPs or WQs, three CQs and a page of pinned memory. They count against
// limits such as rdma.max of the cgroup. Probe sends nothing and leaves nothing behind. Probe may
// be called while other goroutines use the device. For the opcodes of sends, use
// [Device.Supports], which asks only the provider.
//
// Experimental: may change in any release; see docs/stability.md.
func (d *Device) Probe(v Verb) error {
	for _, p := range probes {
		if p.verb == v {
			s := &scratch{Device: d}
			return s.finish(p.try(s))
		}
	}
	return d.fail("probe", syscall.EINVAL, fmt.Sprintf("no verb %q (see Verbs)", string(v)))
}

// scratch creates the objects of a probe and closes them in the opposite order.
type scratch struct {
	*Device
	made []io.Closer
}

// finish closes all objects.
func (s *scratch) finish(err error) error {
	for i := len(s.made) - 1; i >= 0; i-- {
		err = errors.Join(err, s.made[i].Close())
	}
	return err
}

// later returns its arguments. If c was created, finish will close it.
func later[T io.Closer](s *scratch, c T, err error) (T, error) {
	if err == nil {
		s.made = append(s.made, c)
	}
	return c, err
}

// only returns the error of a creation. If c was created, finish will close it.
func only[T io.Closer](s *scratch, c T, err error) error {
	_, err = later(s, c, err)
	return err
}

func (s *scratch) pd() (*PD, error) {
	pd, err := s.AllocPD()
	return later(s, pd, err)
}

func (s *scratch) mr(access verbs.Access) (*MR, error) {
	pd, err := s.pd()
	if err != nil {
		return nil, err
	}
	mr, err := pd.AllocMR(os.Getpagesize(), access, nil)
	return later(s, mr, err)
}

func (s *scratch) cq(opts *CQOptions) (*CQ, error) {
	cq, err := s.CreateCQ(4, opts)
	return later(s, cq, err)
}

// armable creates a CQ with a channel.
func (s *scratch) armable() (*CQ, error) {
	channel, err := s.CreateCompChannel()
	if err = only(s, channel, err); err != nil {
		return nil, err
	}
	return s.cq(&CQOptions{Channel: channel})
}

func (s *scratch) srq() (*SRQ, error) {
	pd, err := s.pd()
	if err != nil {
		return nil, err
	}
	srq, err := pd.CreateSRQ(&SRQOptions{MaxWR: 4, MaxSGE: 1})
	return later(s, srq, err)
}

// qp creates a QP, in RESET.
func (s *scratch) qp(typ verbs.QPType) (*QP, error) {
	pd, err := s.pd()
	if err != nil {
		return nil, err
	}
	cq, err := s.cq(nil)
	if err != nil {
		return nil, err
	}
	opts := &QPOptions{Type: typ, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}}
	if typ == verbs.QPTypeXRCInitiator {
		opts.RecvCQ, opts.Cap.MaxRecvWR, opts.Cap.MaxRecvSGE = nil, 0, 0
	}
	qp, err := pd.CreateQP(opts)
	return later(s, qp, err)
}

// usable creates a QP of a type that the device supports.
func (s *scratch) usable() (qp *QP, err error) {
	for _, typ := range []verbs.QPType{verbs.QPTypeRC, verbs.QPTypeUD, verbs.QPTypeRawPacket} {
		if qp, err = s.qp(typ); !errors.Is(err, errors.ErrUnsupported) {
			break
		}
	}
	return qp, err
}

func (s *scratch) xrcd() (*XRCD, error) {
	x, err := s.OpenXRCD(nil, os.O_CREATE)
	return later(s, x, err)
}

func (s *scratch) target() (*XRCD, *QP, error) {
	x, err := s.xrcd()
	if err != nil {
		return nil, nil, err
	}
	qp, err := x.CreateQP()
	qp, err = later(s, qp, err)
	return x, qp, err
}

// wq creates a WQ.
func (s *scratch) wq() (*PD, *WQ, error) {
	pd, err := s.pd()
	if err != nil {
		return nil, nil, err
	}
	cq, err := s.cq(nil)
	if err != nil {
		return nil, nil, err
	}
	wq, err := pd.CreateWQ(&WQOptions{MaxWR: 1, MaxSGE: 1, CQ: cq})
	wq, err = later(s, wq, err)
	return pd, wq, err
}

func (s *scratch) table() (*PD, *RWQIndTable, error) {
	pd, wq, err := s.wq()
	if err != nil {
		return nil, nil, err
	}
	t, err := s.CreateRWQIndTable([]*WQ{wq})
	t, err = later(s, t, err)
	return pd, t, err
}

const scratchDM = 64 // bytes of device memory

func (s *scratch) dm() (*DM, error) {
	a, err := s.Attr()
	if err != nil {
		return nil, err
	}
	if _, ok := s.provider.(driver.DMAllocator); ok && a.MaxDMSize == 0 {
		return nil, s.fail("allocate memory of", verbs.ErrNotSupported, "it has none (DeviceAttr.MaxDMSize)")
	}
	dm, err := s.AllocDM(scratchDM, 0)
	return later(s, dm, err)
}

func (s *scratch) dmah() (*DMAH, error) {
	var user uint8
	h, err := s.AllocDMAH(&DMAHOptions{PH: &user})
	return later(s, h, err)
}

func (s *scratch) counters() (*Counters, error) {
	c, err := s.CreateCounters()
	return later(s, c, err)
}

func (s *scratch) compCounter() (*CompCounter, error) {
	c, err := s.CreateCompCounter()
	return later(s, c, err)
}

// self returns the address of the device's first port, which QPs of the device can send to.
func (s *scratch) self() (*verbs.AHAttr, error) {
	port, err := s.QueryPort(1)
	if err != nil {
		return nil, err
	}
	e, err := s.ChooseGID(1, nil)
	if err != nil {
		return nil, err
	}
	return &verbs.AHAttr{Global: true, DGID: e.GID, SGIDIndex: e.Index, HopLimit: 1, DLID: port.LID, Port: 1}, nil
}

// onPD, onMR and the others run a probe on one new object.
func onPD(f func(*scratch, *PD) error) func(*scratch) error {
	return func(s *scratch) error {
		pd, err := s.pd()
		if err != nil {
			return err
		}
		return f(s, pd)
	}
}

func onMR(f func(*scratch, *MR) error) func(*scratch) error {
	return func(s *scratch) error {
		mr, err := s.mr(verbs.AccessLocalWrite)
		if err != nil {
			return err
		}
		return f(s, mr)
	}
}

func onCQ(f func(*CQ) error) func(*scratch) error {
	return func(s *scratch) error {
		cq, err := s.armable()
		if err != nil {
			return err
		}
		return f(cq)
	}
}

func onSRQ(f func(*SRQ) error) func(*scratch) error {
	return func(s *scratch) error {
		srq, err := s.srq()
		if err != nil {
			return err
		}
		return f(srq)
	}
}

func onQP(f func(*QP) error) func(*scratch) error {
	return func(s *scratch) error {
		qp, err := s.usable()
		if err != nil {
			return err
		}
		return f(qp)
	}
}

func ofType(typ verbs.QPType) func(*scratch) error {
	return func(s *scratch) error {
		_, err := s.qp(typ)
		return err
	}
}

func second[A, B any](_ A, _ B, err error) error { return err }

func first[T any](_ T, err error) error { return err }

// probes has a probe for each verb. It leaves out verbs that work on every object that can be
// created, such as Counters.Read.
var probes = []struct {
	verb Verb
	try  func(*scratch) error
}{
	{"Device.QueryDevice", func(s *scratch) error { return first(s.QueryDevice()) }},
	{"Device.QueryPort", func(s *scratch) error { return first(s.QueryPort(1)) }},
	{"Device.QueryPortSpeed", func(s *scratch) error { return first(s.QueryPortSpeed(1)) }},
	{"Device.QueryGID", func(s *scratch) error { return emptySlot(first(s.QueryGID(1, 0))) }},
	{"Device.GIDTable", func(s *scratch) error { return first(s.GIDTable()) }},
	{"Device.QueryClock", func(s *scratch) error { return first(s.QueryClock()) }},
	{"Device.Handles", func(s *scratch) error { return first(s.Handles(verbs.ObjectPD)) }},
	{"Device.ImportFile", (*scratch).importContext},
	{"Device.ImportPD", onPD(func(s *scratch, pd *PD) error {
		imported, err := s.ImportPD(pd.Handle())
		return only(s, imported, err)
	})},
	{"Device.AllocPD", func(s *scratch) error { return first(s.pd()) }},

	{"PD.RegMR", onPD(func(s *scratch, pd *PD) error {
		mr, err := pd.RegMR(make([]byte, 64), verbs.AccessLocalWrite)
		return only(s, mr, err)
	})},
	{"PD.RegMR OnDemand", func(s *scratch) error { return first(s.mr(verbs.AccessLocalWrite | verbs.AccessOnDemand)) }},
	{"PD.AllocMR", onMR(func(*scratch, *MR) error { return nil })},
	{"PD.RegMRAt", onPD(func(s *scratch, pd *PD) error {
		b := make([]byte, 64)
		mr, err := pd.RegMRAt(b, 1<<32+address(b)%uint64(os.Getpagesize()), verbs.AccessLocalWrite)
		return only(s, mr, err)
	})},
	{"PD.RegImplicitMR", onPD(func(s *scratch, pd *PD) error {
		mr, err := pd.RegImplicitMR(verbs.AccessLocalWrite)
		return only(s, mr, err)
	})},
	{"PD.RegDMABuf", onPD((*scratch).regDMABuf)},
	{"PD.RegDM", onPD(func(s *scratch, pd *PD) error {
		dm, err := s.dm()
		if err != nil {
			return err
		}
		mr, err := pd.RegDM(dm, 0, scratchDM, verbs.AccessLocalWrite)
		return only(s, mr, err)
	})},
	{"PD.RegMRFor", onPD(func(s *scratch, pd *PD) error {
		h, err := s.dmah()
		if err != nil {
			return err
		}
		mr, err := pd.RegMRFor(make([]byte, 64), h, verbs.AccessLocalWrite)
		return only(s, mr, err)
	})},
	{"PD.AllocNullMR", onPD(func(s *scratch, pd *PD) error {
		mr, err := pd.AllocNullMR()
		return only(s, mr, err)
	})},
	{"PD.ImportMR", onMR(func(s *scratch, mr *MR) error {
		imported, err := mr.pd.ImportMR(mr.Handle())
		return only(s, imported, err)
	})},
	{"PD.AdviseMR", (*scratch).adviseMR},
	{"MR.Query", onMR(func(_ *scratch, mr *MR) error { return first(mr.Query()) })},
	{"MR.Rereg", onMR(func(_ *scratch, mr *MR) error {
		access := verbs.AccessLocalWrite | verbs.AccessRemoteRead
		return mr.Rereg(&ReregOptions{Access: &access})
	})},
	{"PD.AllocMW 1", window(verbs.MWType1)},
	{"PD.AllocMW 2", window(verbs.MWType2)},
	{"MW.Bind", func(s *scratch) error {
		if !s.Supports(verbs.QPTypeRC, verbs.OpBindMW) {
			return s.noOpcode("bind memory windows on")
		}
		return window(verbs.MWType2)(s)
	}},
	{"Device.AllocDM", func(s *scratch) error { return first(s.dm()) }},
	{"Device.ImportDM", func(s *scratch) error {
		dm, err := s.dm()
		if err != nil {
			return err
		}
		imported, err := s.ImportDM(dm.Handle())
		return only(s, imported, err)
	}},
	{"Device.AllocDMAH", func(s *scratch) error { return first(s.dmah()) }},
	{"PD.CreateAH", onPD(func(s *scratch, pd *PD) error {
		// The refusal of a driver without address handles does not depend on the address.
		ah, err := pd.CreateAH(&verbs.AHAttr{Global: true, Port: 1})
		if only(s, ah, err); errors.Is(err, errors.ErrUnsupported) {
			return err
		}
		to, err := s.self()
		if err != nil {
			return err
		}
		ah, err = pd.CreateAH(to)
		return only(s, ah, err)
	})},

	{"Device.CreateCompChannel", func(s *scratch) error {
		channel, err := s.CreateCompChannel()
		if err == nil && channel.polled {
			err = errors.Join(verbs.ErrNotSupported, channel.Close())
		}
		return only(s, channel, err)
	}},
	{"Device.CreateCQ", func(s *scratch) error { return first(s.cq(nil)) }},
	{"CQ.Poll", onCQ(func(cq *CQ) error { return first(cq.Poll(make([]verbs.WC, 1))) })},
	{"CQ.PollExt", func(s *scratch) error {
		cq, err := s.cq(&CQOptions{Ext: verbs.WCExtTimestamp})
		if err != nil {
			return err
		}
		return first(cq.PollExt(make([]verbs.WC, 1), make([]verbs.WCExt, 1)))
	}},
	{"CQ.Arm", onCQ(func(cq *CQ) error { return cq.Arm(false) })},
	{"CQ.Resize", onCQ(func(cq *CQ) error { return cq.Resize(cq.Cap() + 1) })},
	{"CQ.Moderate", onCQ(func(cq *CQ) error { return cq.Moderate(0, 0) })},

	{"PD.CreateSRQ", func(s *scratch) error { return first(s.srq()) }},
	{"PD.CreateSRQ XRC", onPD(func(s *scratch, pd *PD) error {
		x, err := s.xrcd()
		if err != nil {
			return err
		}
		cq, err := s.cq(nil)
		if err != nil {
			return err
		}
		srq, err := pd.CreateSRQ(&SRQOptions{MaxWR: 1, MaxSGE: 1, XRCD: x, CQ: cq})
		return only(s, srq, err)
	})},
	{"SRQ.PostRecv", onSRQ(func(srq *SRQ) error { return first(srq.PostRecv([]verbs.RecvWR{{}})) })},
	{"SRQ.Query", onSRQ(func(srq *SRQ) error { return first(srq.Query()) })},
	{"SRQ.SetLimit", onSRQ(func(srq *SRQ) error { return srq.SetLimit(1) })},
	{"SRQ.Resize", onSRQ(func(srq *SRQ) error { return srq.Resize(int(srq.MaxWR()) + 1) })},

	{"PD.CreateQP RC", ofType(verbs.QPTypeRC)},
	{"PD.CreateQP UC", ofType(verbs.QPTypeUC)},
	{"PD.CreateQP UD", ofType(verbs.QPTypeUD)},
	{"PD.CreateQP RawPacket", ofType(verbs.QPTypeRawPacket)},
	{"PD.CreateQP XRCInitiator", ofType(verbs.QPTypeXRCInitiator)},
	{"QP.Modify", onQP(func(qp *QP) error {
		if err := qp.dev.initialize(qp); err != nil {
			return err
		}
		return qp.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.QPAttrState)
	})},
	{"QP.Connect", (*scratch).connect},
	{"QP.Query", onQP(func(qp *QP) error { return first(qp.Query()) })},
	{"QP.PostSend", onQP(func(qp *QP) error {
		if !qp.dev.Supports(qp.typ, verbs.OpSend) {
			return qp.dev.noOpcode("post sends on")
		}
		return nil
	})},
	{"QP.PostRecv", onQP(func(qp *QP) error {
		if err := qp.dev.initialize(qp); err != nil {
			return err
		}
		mr, err := qp.pd.AllocMR(os.Getpagesize(), verbs.AccessLocalWrite, nil)
		if err != nil {
			return err
		}
		// Some devices take no receive without memory.
		return errors.Join(first(qp.PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{mr.SGE(0, 1)}}})), mr.Close())
	})},
	{"QP.ECE", onQP(func(qp *QP) error { return first(qp.ECE()) })},
	{"QP.DataOrder", onQP(func(qp *QP) error {
		if _, ok := qp.ring.(driver.DataOrderer); !ok {
			return qp.fail("query the order of data of", verbs.ErrNotSupported, "the provider does not know it")
		}
		return nil
	})},
	{"QP.AttachMcast", func(s *scratch) error {
		qp, err := s.qp(verbs.QPTypeUD)
		if err != nil {
			return err
		}
		group := verbs.GID{0: 0xff, 1: 0x0e, 15: 1}
		if err := qp.AttachMcast(group, 0); err != nil {
			return err
		}
		return qp.DetachMcast(group, 0)
	}},
	{"QP.CreateFlow", func(s *scratch) error {
		qp, err := s.qp(verbs.QPTypeRawPacket)
		if err != nil {
			return err
		}
		if err = qp.Init(nil); err != nil {
			return err
		}
		local := [6]byte{2} // an address that no interface has
		f, err := qp.CreateFlow(&FlowOptions{Specs: []flow.Spec{&flow.Eth{Val: flow.EthFields{DstMAC: local}, Mask: flow.EthFields{DstMAC: [6]byte{255, 255, 255, 255, 255, 255}}}}})
		return only(s, f, err)
	}},
	{"Device.CreateCounters", func(s *scratch) error { return first(s.counters()) }},
	{"Device.QueryCompCounterCaps", func(s *scratch) error { return first(s.QueryCompCounterCaps()) }},
	{"Device.CreateCompCounter", func(s *scratch) error { return first(s.compCounter()) }},
	{"QP.AttachCompCounter", func(s *scratch) error {
		c, err := s.compCounter()
		if err != nil {
			return err
		}
		qp, err := s.usable()
		if err != nil {
			return err
		}
		return qp.AttachCompCounter(c, verbs.CompCounterSend)
	}},

	{"Device.OpenXRCD", func(s *scratch) error { return first(s.xrcd()) }},
	{"XRCD.CreateQP", func(s *scratch) error { return second(s.target()) }},
	{"XRCD.OpenQP", func(s *scratch) error {
		x, qp, err := s.target()
		if err != nil {
			return err
		}
		opened, err := x.OpenQP(qp.QPN())
		return only(s, opened, err)
	}},

	{"PD.CreateWQ", func(s *scratch) error { return second(s.wq()) }},
	{"WQ.Modify", func(s *scratch) error {
		_, wq, err := s.wq()
		if err != nil {
			return err
		}
		return wq.Modify(&rss.WQAttr{State: rss.WQStateReady}, rss.WQAttrState)
	}},
	{"Device.CreateRWQIndTable", func(s *scratch) error { return second(s.table()) }},
	{"PD.CreateRSSQP", func(s *scratch) error {
		pd, t, err := s.table()
		if err != nil {
			return err
		}
		qp, err := pd.CreateRSSQP(&RSSOptions{Table: t, Hash: rss.Hash{Function: rss.Toeplitz, Fields: rss.SrcIPv4, Key: make([]byte, 40)}})
		return only(s, qp, err)
	}},
}

// initialize moves a QP to INIT. It does nothing on iWARP, which has no INIT and whose QPs accept
// receives from the start.
func (d *Device) initialize(qp *QP) error {
	if d.info.NodeType == verbs.NodeRNIC {
		return nil
	}
	return qp.Init(nil)
}

func window(typ verbs.MWType) func(*scratch) error {
	return onPD(func(s *scratch, pd *PD) error {
		mw, err := pd.AllocMW(typ)
		return only(s, mw, err)
	})
}

// noOpcode returns the error of a verb whose work request the device does not support.
func (d *Device) noOpcode(op string) error {
	if d.provider == nil {
		return d.noProvider(op, "device")
	}
	return d.fail(op, verbs.ErrNotSupported, "its QPs don't support this work request (Device.Supports)")
}

// emptySlot returns nil if err means that the GID is not set. Only a kernel that has the method
// returns that error.
func emptySlot(err error) error {
	if errors.Is(err, syscall.ENODATA) || errors.Is(err, verbs.ErrNoGID) {
		return nil
	}
	return err
}

// importContext imports the context of the device's own descriptor once more.
func (s *scratch) importContext() error {
	p := driver.Lookup(s.info.Driver)
	if p == nil || s.provider == nil {
		return s.noProvider("import", "device")
	}
	i, ok := p.(driver.Importer)
	if !ok {
		return s.notShared()
	}
	other := &Device{info: s.info, file: s.file}
	other.root(s.info.Name, s.driver)
	m, err := other.provide(i.Import, other.issueQueryContext)
	if err != nil {
		return s.importFailed(err)
	}
	return errors.Join(other.closeProvider(), m.free())
}

// regDMABuf registers a file that is no dma-buf. With a driver that supports dma-bufs, the kernel
// refuses the file as invalid. With other drivers, it refuses the call without examining the file.
func (s *scratch) regDMABuf(pd *PD) error {
	file, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	s.made = append(s.made, file)
	mr, err := pd.RegDMABuf(file, 0, os.Getpagesize(), 0, verbs.AccessLocalWrite)
	if err = only(s, mr, err); errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EBADF) {
		return nil
	}
	return err
}

// adviseMR prefetches a region, with on-demand paging if the device has it.
func (s *scratch) adviseMR() error {
	mr, err := s.mr(verbs.AccessLocalWrite | verbs.AccessOnDemand)
	paged := err == nil
	if errors.Is(err, errors.ErrUnsupported) {
		mr, err = s.mr(verbs.AccessLocalWrite)
	}
	if err != nil {
		return err
	}
	err = mr.pd.AdviseMR(verbs.MRPrefetch, true, []verbs.SGE{mr.SGE(0, mr.Len())})
	if !paged && !errors.Is(err, errors.ErrUnsupported) {
		return mr.fail("advise on", verbs.ErrNotSupported, "the device does not support on-demand paging (DeviceAttr.ODP)")
	}
	return err
}

// connect connects a QP with itself, or moves a UD QP to RTS.
func (s *scratch) connect() error {
	qp, err := s.usable()
	if err != nil {
		return err
	}
	if s.info.NodeType == verbs.NodeRNIC {
		return qp.fail("connect", verbs.ErrNotSupported, "package rdmacm connects iWARP QPs")
	}
	to, err := s.self()
	if err != nil {
		return err
	}
	if err = qp.Init(nil); err != nil {
		return err
	}
	return qp.Connect(&verbs.QPAttr{AH: *to, DestQPN: qp.QPN()})
}
