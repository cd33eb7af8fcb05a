package uverbs

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"runtime"
	"sync/atomic"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/verbs"
)

// QP is a queue pair: a send queue and, unless it uses an SRQ, a receive queue.
//
// C: struct ibv_qp
type QP struct {
	object
	dev            *Device
	pd             *PD
	sendCQ, recvCQ *CQ
	srq            *SRQ
	signalAll      bool
	typ            verbs.QPType
	handle         uint32
	num            atomic.Uint32 // 0 for a DCT before RTR
	cap            verbs.QPCap
	cookie         uint64
	state          atomic.Uint32 // the last state that this process set
	failedIn       atomic.Uint64 // the generation that failed, plus 1; 0 if none has
	generation     atomic.Uint32 // the number of moves to RESET
	errorOnce      errorOnce
	recvFailed     atomic.Bool // a receive completed with an error
	ranDry         atomic.Bool // findCause found the receive queue of an iWARP QP empty
	ring           driver.QP   // never changes
	flusher        driver.Flusher
	flushedByErr   bool // the answer of a driver.ErrFlusher
	survivor       driver.Survivor
	memory         *memory

	// sq and rq guard the two queues. A goroutine that takes both takes sq first.
	sq, rq   driver.Lock
	sends    Sends
	closed   bool // written with both held
	fastPath bool // posts go straight to the ring: see setFastPath; written with both held
}

// QPOptions describes a new QP.
//
// C: struct ibv_qp_init_attr
type QPOptions struct {
	Type           verbs.QPType // 0 means RC
	SendCQ, RecvCQ *CQ          // may be the same; an XRC initiator and a DCI have no RecvCQ, and a DCT no SendCQ
	SRQ            *SRQ         // replaces the QP's own receive queue; may be nil
	Cap            verbs.QPCap
	SignalAll      bool // every send generates a completion (C: sq_sig_all)
	Flags          verbs.QPFlags
	SourceQPN      uint32 // source QP number in packets, 0 for the QP's own; needs CAP_NET_RAW
	// MaxTSOHeader is the largest number of bytes of headers of an OpTSO. A QP without it
	// refuses OpTSO. A device that can't do OpTSO on such a QP returns an error that matches
	// ErrNotSupported: see [Device.Supports].
	MaxTSOHeader uint16
	DCKey        uint64 // DCT: the key that requests of its peers must have
	// DCStreams are the streams of a DCI, if it has any. DeviceAttr.DCStreams has the limits.
	DCStreams verbs.DCStreams
}

// CreateQP creates a queue pair.
//
// C: ibv_create_qp
func (pd *PD) CreateQP(opts *QPOptions) (*QP, error) {
	dev := pd.device()
	if dev.provider == nil {
		return nil, dev.noProvider("create", "QP")
	}
	if err := opts.check(); err != nil {
		return nil, &verbs.Error{Op: "create", Object: "QP", Device: dev.info.Name, Err: syscall.EINVAL, Hint: err.Error()}
	}
	qp := &QP{dev: dev, pd: pd, sendCQ: opts.SendCQ, recvCQ: opts.RecvCQ, srq: opts.SRQ,
		signalAll: opts.SignalAll, typ: opts.Type, cap: opts.Cap}
	if qp.typ == 0 {
		qp.typ = verbs.QPTypeRC
	}
	if err := qp.attach("QP", &pd.object, opts.SendCQ.asObject(), opts.RecvCQ.asObject(), opts.SRQ.asObject()); err != nil {
		return nil, err
	}
	if err := qp.create(opts); err != nil {
		qp.detach()
		return nil, qp.fail("create", err, qp.createHint(err, opts.Cap))
	}
	if num := qp.num.Load(); num != 0 {
		qp.created(qp, num)
	} else {
		qp.createdUnnamed(qp)
	}
	return qp, nil
}

// check returns an error that names a missing or contradictory option.
func (o *QPOptions) check() error {
	switch {
	case o == nil:
		return errors.New("QPOptions must name SendCQ and RecvCQ")
	case o.Type == verbs.QPTypeXRCTarget:
		return errors.New("a target QP belongs to an XRC domain: create it with XRCD.CreateQP")
	case o.DCStreams != verbs.DCStreams{} && (o.Type != verbs.QPTypeDCI || !isPowerOf2(o.DCStreams.Concurrent) || !isPowerOf2(o.DCStreams.Errored)):
		return errors.New("only a DCI has DCStreams, whose numbers are powers of two")
	case o.Type == verbs.QPTypeDCT:
		return o.checkDCT()
	case o.DCKey != 0:
		return errors.New("only a DCT has a DCKey: the requests of a DCI have those of their peers (SendWR.DCKey)")
	case o.SendCQ == nil:
		return errors.New("QPOptions must name SendCQ and RecvCQ")
	case onlySends(o.Type) && (o.RecvCQ != nil || o.SRQ != nil || o.Cap.MaxRecvWR|o.Cap.MaxRecvSGE != 0):
		return fmt.Errorf("a QP of type %v does not receive: leave RecvCQ, SRQ and MaxRecvWR unset", o.Type)
	case !onlySends(o.Type) && o.RecvCQ == nil:
		return errors.New("QPOptions must name SendCQ and RecvCQ")
	}
	return nil
}

// checkDCT is check for a DCT, which has no queue of its own.
func (o *QPOptions) checkDCT() error {
	switch {
	case o.RecvCQ == nil || o.SRQ == nil || o.SRQ.xrcd != nil:
		return errors.New("a DCT needs RecvCQ, and an SRQ that belongs to no XRC domain")
	case o.SendCQ != nil || o.Cap != verbs.QPCap{}:
		return errors.New("a DCT has no queues: leave SendCQ and Cap unset")
	}
	return nil
}

func isPowerOf2(n uint32) bool { return bits.OnesCount32(n) == 1 }

// onlySends reports whether QPs of a type have no receives.
func onlySends(t verbs.QPType) bool { return t == verbs.QPTypeXRCInitiator || t == verbs.QPTypeDCI }

func (qp *QP) create(opts *QPOptions) error {
	if _, ok := qp.dev.provider.(driver.XRCCreator); !ok && qp.typ == verbs.QPTypeXRCInitiator {
		return verbs.ErrNotSupported
	}
	if (qp.typ == verbs.QPTypeDCI || qp.typ == verbs.QPTypeDCT) && !qp.dev.Supports(verbs.QPTypeDCI, verbs.OpRDMAWrite) {
		return fmt.Errorf("%w: only mlx5 has %v QPs", verbs.ErrNotSupported, qp.typ)
	}
	if opts.MaxTSOHeader > 0 && !qp.dev.Supports(qp.typ, verbs.OpTSO) {
		return fmt.Errorf("%w: %v QPs of this device don't support %v", verbs.ErrNotSupported, qp.typ, verbs.OpTSO)
	}
	cookie := qp.dev.cookie()
	c := qp.dev.creation(nil)
	r := &driver.CreateQP{Call: c, Type: qp.typ, Cap: opts.Cap, SignalAll: opts.SignalAll,
		Flags: opts.Flags, SourceQPN: opts.SourceQPN, MaxTSOHeader: uint32(opts.MaxTSOHeader), DCKey: opts.DCKey, DCStreams: opts.DCStreams, PD: qp.pd.data, PDHandle: qp.pd.handle,
		Bind: qp.bind}
	if opts.SendCQ != nil {
		r.SendCQ = opts.SendCQ.ring
	}
	if opts.RecvCQ != nil {
		r.RecvCQ = opts.RecvCQ.ring
	}
	if opts.SRQ != nil {
		r.SRQ = opts.SRQ.ring
	}
	c.issue = func(u driver.UHW, extra []driver.Attr) error { return qp.issueCreate(r, opts, cookie, u, extra) }
	ring, err := qp.dev.provider.CreateQP(r)
	if err == nil && r.Cap.MaxInline < opts.Cap.MaxInline { // not every kernel checks it
		err = fmt.Errorf("%w: MaxInline %d is more than the driver's limit of %d", syscall.EINVAL, opts.Cap.MaxInline, r.Cap.MaxInline)
	}
	if err = c.made(err, func() error { return destroy(ring, func() error { return qp.issueDestroy(r.Handle) }) }); err != nil {
		return err
	}
	qp.ring, qp.memory, qp.cap, qp.cookie = ring, c.memory, r.Cap, cookie
	qp.flusher, _ = ring.(driver.Flusher)
	qp.survivor, _ = ring.(driver.Survivor)
	qp.sends.init(qp)
	qp.setFastPath()
	if f, ok := ring.(driver.ErrFlusher); ok {
		qp.flushedByErr = f.FlushedByErr()
	}
	if qp.num.Load() != 0 {
		qp.joinCQs()
	}
	qp.dev.events.add(cookie, AsyncEvent{QP: qp})
	return nil
}

func (qp *QP) issueCreate(r *driver.CreateQP, opts *QPOptions, cookie uint64, u driver.UHW, extra []driver.Attr) error {
	capIn := abi.IbUverbsQpCap{MaxSendWr: r.Cap.MaxSendWR, MaxRecvWr: r.Cap.MaxRecvWR,
		MaxSendSge: r.Cap.MaxSendSGE, MaxRecvSge: r.Cap.MaxRecvSGE, MaxInlineData: r.Cap.MaxInline}
	var capOut abi.IbUverbsQpCap
	q := qp.newRequest(r, opts, cookie)
	defer q.Free()
	ioctl.In(q, abi.UVERBS_ATTR_CREATE_QP_CAP, &capIn)
	ioctl.Out(q, abi.UVERBS_ATTR_CREATE_QP_RESP_CAP, &capOut)
	ioctl.Out(q, abi.UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, &r.Num)
	if err := qp.dev.doWith(q, u, extra); err != nil {
		return err
	}
	r.Handle = q.Created(abi.UVERBS_ATTR_CREATE_QP_HANDLE)
	r.Cap = verbs.QPCap{MaxSendWR: capOut.MaxSendWr, MaxRecvWR: capOut.MaxRecvWr,
		MaxSendSGE: capOut.MaxSendSge, MaxRecvSGE: capOut.MaxRecvSge, MaxInline: capOut.MaxInlineData}
	qp.handle = r.Handle
	qp.num.Store(r.Num)
	return nil
}

// newRequest returns a request with the attributes that need no memory of the caller. The kernel
// wants two CQs also for a DCI and a DCT.
func (qp *QP) newRequest(r *driver.CreateQP, opts *QPOptions, cookie uint64) *ioctl.Request {
	q := qp.dev.request(abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_CREATE)
	q.NewObject(abi.UVERBS_ATTR_CREATE_QP_HANDLE)
	q.Handle(abi.UVERBS_ATTR_CREATE_QP_PD_HANDLE, qp.pd.handle)
	q.Handle(abi.UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, cmp.Or(opts.SendCQ, opts.RecvCQ).handle)
	if r.Type != verbs.QPTypeXRCInitiator {
		q.Handle(abi.UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, cmp.Or(opts.RecvCQ, opts.SendCQ).handle)
	}
	if opts.SRQ != nil {
		q.Handle(abi.UVERBS_ATTR_CREATE_QP_SRQ_HANDLE, opts.SRQ.handle)
	}
	q.U64(abi.UVERBS_ATTR_CREATE_QP_USER_HANDLE, cookie)
	q.Const(abi.UVERBS_ATTR_CREATE_QP_TYPE, uint64(kernelType(r.Type)))
	flags := uint32(r.Flags)
	if r.SignalAll {
		flags |= abi.IB_UVERBS_QP_CREATE_SQ_SIG_ALL
	}
	if flags != 0 {
		q.Flags(abi.UVERBS_ATTR_CREATE_QP_FLAGS, flags)
	}
	if r.SourceQPN != 0 {
		q.U32(abi.UVERBS_ATTR_CREATE_QP_SOURCE_QPN, r.SourceQPN)
	}
	return q
}

// kernelType returns the kernel's number of a type.
func kernelType(t verbs.QPType) verbs.QPType {
	switch t {
	case verbs.QPTypeSRD, verbs.QPTypeDCI, verbs.QPTypeDCT:
		return verbs.QPTypeDriver
	}
	return t
}

// QPN returns the QP's number. The peer uses it as the destination QP number. A DCT has none (0) before
// it is in RTR.
func (qp *QP) QPN() uint32 { return qp.num.Load() }

// Type returns the QP's transport type.
func (qp *QP) Type() verbs.QPType { return qp.typ }

// Cap returns the actual capacities of the QP, which are at least the requested ones.
func (qp *QP) Cap() verbs.QPCap { return qp.cap }

// Device returns the device that the QP belongs to.
func (qp *QP) Device() *Device { return qp.dev }

// PD returns the protection domain of the QP, or nil for an XRC target QP.
func (qp *QP) PD() *PD { return qp.pd }

// SendCQ returns the CQ that sends complete on, or nil for a QP that does not send.
func (qp *QP) SendCQ() *CQ { return qp.sendCQ }

// RecvCQ returns the CQ that receives complete on, or nil for a QP that does not receive, or only through
// the SRQs of an XRC domain.
func (qp *QP) RecvCQ() *CQ { return qp.recvCQ }

// SRQ returns the shared receive queue, or nil if the QP has a receive queue of its own.
func (qp *QP) SRQ() *SRQ { return qp.srq }

// SignalAll reports whether every send generates a completion.
func (qp *QP) SignalAll() bool { return qp.signalAll }

// DataOrder returns the order in which incoming data becomes visible in memory that was
// registered without AccessRelaxedOrdering. op is OpSend or OpRDMAWrite for data that the peer
// sends, or OpRDMARead for data that this QP reads. The result is 0 if the provider does not
// know, as with siw and rxe, and on processors other than x86.
//
// C: ibv_query_qp_data_in_order with IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS
func (qp *QP) DataOrder(op verbs.Opcode) verbs.DataOrder {
	ring, ok := qp.ring.(driver.DataOrderer)
	if !ok || runtime.GOARCH != "amd64" {
		return 0
	}
	order := ring.DataOrder(op)
	if order&verbs.DataOrderWholeMessage != 0 {
		order |= verbs.DataOrderAligned128
	}
	return order
}

// ECE returns the QP's options of enhanced connection establishment. After CreateQP they are the
// options that the device offers, and after Modify those that it agreed to. If the device or its
// kernel has none, the error matches ErrNotSupported.
//
// C: ibv_query_ece
func (qp *QP) ECE() (e verbs.ECE, err error) {
	err = qp.withECE("query the ECE of", func(s driver.ECESetter) (err error) {
		e, err = s.ECE()
		return err
	})
	return e, err
}

// SetECE requests options of enhanced connection establishment, usually those in the peer's
// answer. The next Modify passes them to the device, so call SetECE before the QP leaves INIT.
// After Modify, ECE returns the options that the device agreed to. If the device has none, the
// error matches ErrNotSupported.
//
// C: ibv_set_ece
func (qp *QP) SetECE(e verbs.ECE) error {
	return qp.withECE("set the ECE of", func(s driver.ECESetter) error { return s.SetECE(e) })
}

func (qp *QP) withECE(op string, f func(driver.ECESetter) error) error {
	return qp.using(op, func() error {
		s, ok := qp.ring.(driver.ECESetter)
		if !ok {
			return qp.fail(op, verbs.ErrNotSupported, "the device does not support enhanced connection establishment (ECE)")
		}
		qp.sq.Lock()
		defer qp.sq.Unlock()
		qp.rq.Lock()
		defer qp.rq.Unlock()
		if err := f(s); err != nil {
			return qp.fail(op, err, "")
		}
		return nil
	})
}

// AttachMcast makes a UD QP receive the messages sent to a multicast group. lid is the group's
// LID, 0 on RoCE.
//
// C: ibv_attach_mcast
func (qp *QP) AttachMcast(gid verbs.GID, lid uint16) error {
	return qp.using("attach to a multicast group", func() error {
		in := &abi.IbUverbsAttachMcast{Gid: gid, QpHandle: qp.handle, Mlid: lid}
		r := writeCommand(qp.dev, abi.IB_USER_VERBS_CMD_ATTACH_MCAST, in)
		defer r.Free()
		if err := r.Do(qp.dev.file); err != nil {
			return qp.fail("attach to multicast group "+gid.String(), err, qp.mcastHint(err, gid))
		}
		return nil
	})
}

// DetachMcast detaches the QP from a multicast group. A QP must be detached from all groups
// before it is closed.
//
// C: ibv_detach_mcast
func (qp *QP) DetachMcast(gid verbs.GID, lid uint16) error {
	return qp.using("detach from a multicast group", func() error {
		in := &abi.IbUverbsDetachMcast{Gid: gid, QpHandle: qp.handle, Mlid: lid}
		r := writeCommand(qp.dev, abi.IB_USER_VERBS_CMD_DETACH_MCAST, in)
		defer r.Free()
		if err := r.Do(qp.dev.file); err != nil {
			return qp.fail("detach from multicast group "+gid.String(), err, "")
		}
		return nil
	})
}

func (qp *QP) mcastHint(err error, gid verbs.GID) string {
	switch {
	case !errors.Is(err, syscall.EINVAL):
		return ""
	case qp.typ != verbs.QPTypeUD:
		return "only UD QPs take part in multicast"
	case !gid.IsMulticast():
		return "a multicast GID begins with ff, or stands for an IPv4 group (GIDFromAddr)"
	}
	return ""
}

// Close destroys the QP, which must have left its multicast groups. Its completions that are
// still on the CQs can be polled after Close, except where the provider removes them, as
// providers of hardware do.
//
// C: ibv_destroy_qp
func (qp *QP) Close() error {
	if qp == nil {
		return closeNil("QP")
	}
	err := qp.close(qp.destroy, qp.release)
	var e *verbs.Error
	if qp.typ == verbs.QPTypeUD && errors.Is(err, syscall.EBUSY) && errors.As(err, &e) {
		e.Hint = "it is attached to a multicast group: DetachMcast first"
	}
	return err
}

func (qp *QP) destroy() error {
	qp.setClosed(true)
	var found []failure
	err := destroy(qp.ring, func() error {
		err := qp.issueDestroy(qp.handle)
		if err == nil {
			found = qp.cleanCQs()
		}
		return err
	})
	if err != nil {
		qp.setClosed(false)
		return err
	}
	for _, cq := range qp.cqs() {
		cq.removeQP(qp)
	}
	handleFailures(found)
	return nil
}

func (qp *QP) release() error {
	qp.dev.events.remove(qp.cookie)
	return qp.memory.free()
}

// setClosed makes posts fail before the queues are unmapped, or lets them through again.
func (qp *QP) setClosed(closed bool) {
	qp.sq.Lock()
	defer qp.sq.Unlock()
	qp.rq.Lock()
	defer qp.rq.Unlock()
	qp.closed = closed
	qp.setFastPath()
}

func (qp *QP) issueDestroy(handle uint32) error {
	var resp abi.IbUverbsDestroyQpResp
	r := qp.dev.request(abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_DESTROY)
	defer r.Free()
	r.Handle(abi.UVERBS_ATTR_DESTROY_QP_HANDLE, handle)
	ioctl.Out(r, abi.UVERBS_ATTR_DESTROY_QP_RESP, &resp)
	return r.Do(qp.dev.file)
}
