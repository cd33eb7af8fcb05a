package uverbs

import (
	"sync/atomic"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/uverbs/driver"
)

// QP is a queue pair: a send queue and, unless it uses an SRQ, a receive queue.
//
// C: struct ibv_qp
type QP struct {
	node
	dev            *Device
	pd             *PD
	sendCQ, recvCQ *CQ
	srq            *SRQ
	signalAll      bool
	typ            QPType
	handle, num    uint32
	cap            QPCap
	cookie         uint64
	state          atomic.Uint32 // as far as this process moved it
	failing        atomic.Bool   // the provider was told of the error state
	life           atomic.Uint32 // how often it was put into RESET
	ring           QPRing        // the same from the QP's first day to its last

	// sq and rq guard the two queues. Whoever takes both takes sq first.
	sq, rq driver.Lock
	memory queueMemory
	closed bool // written with both held
}

// QPType is the transport service of a QP.
//
// C: enum ibv_qp_type
type QPType = driver.QPType

// The services; which there are depends on the driver.
const (
	QPTypeRC     QPType = netlinkrdma.QPTypeRC
	QPTypeUC     QPType = netlinkrdma.QPTypeUC
	QPTypeUD     QPType = netlinkrdma.QPTypeUD
	QPTypeDriver QPType = netlinkrdma.QPTypeDriver // the driver's own, such as EFA's SRD
)

// QPOptions describe a new QP.
//
// C: struct ibv_qp_init_attr
type QPOptions struct {
	Type           QPType // 0 means RC
	SendCQ, RecvCQ *CQ    // both needed; they may be the same
	SRQ            *SRQ   // instead of a receive queue of its own; may be nil
	Cap            QPCap
	SignalAll      bool // every send makes a completion (C: sq_sig_all)
}

// CreateQP makes a queue pair.
//
// C: ibv_create_qp
func (pd *PD) CreateQP(opts *QPOptions) (*QP, error) {
	dev := pd.dev
	if dev.provider == nil {
		return nil, dev.noProvider("create", "QP")
	}
	if opts == nil || opts.SendCQ == nil || opts.RecvCQ == nil {
		return nil, &Error{Op: "create", Object: "QP", Device: dev.info.Name, Err: syscall.EINVAL, Hint: "QPOptions must name SendCQ and RecvCQ"}
	}
	qp := &QP{dev: dev, pd: pd, sendCQ: opts.SendCQ, recvCQ: opts.RecvCQ, srq: opts.SRQ,
		signalAll: opts.SignalAll, typ: opts.Type, cap: opts.Cap}
	if qp.typ == 0 {
		qp.typ = QPTypeRC
	}
	if err := qp.attach("QP", &pd.node, &opts.SendCQ.node, &opts.RecvCQ.node, opts.SRQ.asNode()); err != nil {
		return nil, err
	}
	if err := qp.create(opts); err != nil {
		qp.detach()
		return nil, qp.fail("create", err, qp.createHint(err, opts.Cap))
	}
	qp.setNumber(qp.num)
	return qp, nil
}

func (qp *QP) create(opts *QPOptions) error {
	cookie := qp.dev.cookie()
	r := &QPRequest{Type: qp.typ, HasSRQ: opts.SRQ != nil, Cap: opts.Cap, SignalAll: opts.SignalAll,
		SendFlush: Flusher{opts.SendCQ}, RecvFlush: Flusher{opts.RecvCQ}, qp: qp}
	r.creation = qp.dev.creation(func(u UHW) error { return qp.issueCreate(r, opts, cookie, u) })
	ring, err := qp.dev.provider.CreateQP(r)
	if err != nil {
		return r.abandon(err, func() error { return qp.issueDestroy(r.Handle) })
	}
	qp.ring, qp.memory, qp.cap, qp.cookie = ring, r.queueMemory, r.Cap, cookie
	qp.sendCQ.addQP(qp)
	qp.recvCQ.addQP(qp)
	qp.dev.events.add(cookie, AsyncEvent{QP: qp})
	return nil
}

func (qp *QP) issueCreate(r *QPRequest, opts *QPOptions, cookie uint64, u UHW) error {
	capIn := abi.IbUverbsQpCap{MaxSendWr: r.Cap.MaxSendWR, MaxRecvWr: r.Cap.MaxRecvWR,
		MaxSendSge: r.Cap.MaxSendSGE, MaxRecvSge: r.Cap.MaxRecvSGE, MaxInlineData: r.Cap.MaxInline}
	var capOut abi.IbUverbsQpCap
	q := qp.dev.request(abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_CREATE)
	defer q.Free()
	q.NewObject(abi.UVERBS_ATTR_CREATE_QP_HANDLE)
	q.Handle(abi.UVERBS_ATTR_CREATE_QP_PD_HANDLE, qp.pd.handle)
	q.Handle(abi.UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, opts.SendCQ.handle)
	q.Handle(abi.UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, opts.RecvCQ.handle)
	if opts.SRQ != nil {
		q.Handle(abi.UVERBS_ATTR_CREATE_QP_SRQ_HANDLE, opts.SRQ.handle)
	}
	q.U64(abi.UVERBS_ATTR_CREATE_QP_USER_HANDLE, cookie)
	ioctl.In(q, abi.UVERBS_ATTR_CREATE_QP_CAP, &capIn)
	q.Const(abi.UVERBS_ATTR_CREATE_QP_TYPE, uint64(qp.typ))
	if opts.SignalAll {
		q.Flags(abi.UVERBS_ATTR_CREATE_QP_FLAGS, abi.IB_UVERBS_QP_CREATE_SQ_SIG_ALL)
	}
	ioctl.Out(q, abi.UVERBS_ATTR_CREATE_QP_RESP_CAP, &capOut)
	ioctl.Out(q, abi.UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, &r.Num)
	q.Driver(u)
	if err := q.Do(qp.dev.file); err != nil {
		return err
	}
	r.Handle = q.Created(abi.UVERBS_ATTR_CREATE_QP_HANDLE)
	r.Cap = QPCap{MaxSendWR: capOut.MaxSendWr, MaxRecvWR: capOut.MaxRecvWr,
		MaxSendSGE: capOut.MaxSendSge, MaxRecvSGE: capOut.MaxRecvSge, MaxInline: capOut.MaxInlineData}
	qp.handle, qp.num = r.Handle, r.Num
	return nil
}

// Num is the QP's number, which the peer calls destination QP number.
func (qp *QP) Num() uint32 { return qp.num }

// Type is the QP's transport service.
func (qp *QP) Type() QPType { return qp.typ }

// Cap is what the QP can really hold, at least what was asked for.
func (qp *QP) Cap() QPCap { return qp.cap }

// PD returns the protection domain of the QP.
func (qp *QP) PD() *PD { return qp.pd }

// SendCQ returns the CQ that sends complete on.
func (qp *QP) SendCQ() *CQ { return qp.sendCQ }

// RecvCQ returns the CQ that receives complete on.
func (qp *QP) RecvCQ() *CQ { return qp.recvCQ }

// SRQ returns the shared receive queue, or nil when the QP has its own.
func (qp *QP) SRQ() *SRQ { return qp.srq }

// SignalAll tells whether every send makes a completion.
func (qp *QP) SignalAll() bool { return qp.signalAll }
