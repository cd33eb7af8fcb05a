package rdmacm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/qpstate"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// queuePair is the part of a *uverbs.QP that an ID uses.
type queuePair interface {
	Modify(*verbs.QPAttr, verbs.QPAttrMask) error
	AttachMcast(gid verbs.GID, lid uint16) error
	DetachMcast(gid verbs.GID, lid uint16) error
	QPN() uint32
	SRQ() *uverbs.SRQ
}

// unusedMask has the bits of the kernel's answer that must not be passed to modify. The kernel sets some
// for its own use, and refuses them in modify. The others are for alternate paths.
const unusedMask = verbs.QPAttrMask(0xe00000) | verbs.QPAttrAltPath | verbs.QPAttrPathMigState

// AttachQP lets the ID move the queue pair: to INIT now (a datagram queue pair to RTS, with [UDPQKey]), on
// to RTS as the connection progresses, and to the error state when it ends. The ID must be bound to the
// queue pair's device, so attach after EventAddrResolved, or to the ID of a connect request.
//
// C: rdma_create_qp, without the creation
func (id *ID) AttachQP(qp *uverbs.QP) error {
	dev, err := qp.Device().Attr()
	if err != nil {
		return err
	}
	return id.attach(qp, readLimits{clamp(dev.MaxQPRDAtom), clamp(dev.MaxQPInitRDAtom)})
}

func (id *ID) attach(qp queuePair, limits readLimits) error {
	if err := id.move(qp, verbs.QPStateInit, nil); err != nil {
		return err
	}
	if id.datagram {
		if err := datagramToRTS(qp); err != nil {
			return err
		}
	}
	id.qpMu.Lock()
	defer id.qpMu.Unlock()
	id.flushed = false
	id.mu.Lock()
	defer id.mu.Unlock()
	id.qp = qp
	id.limits.device = &limits
	return nil
}

func datagramToRTS(qp queuePair) error {
	rtr := &verbs.QPAttr{State: verbs.QPStateRTR}
	if err := qp.Modify(rtr, verbs.QPAttrState); err != nil {
		return err
	}
	return qp.Modify(&verbs.QPAttr{State: verbs.QPStateRTS}, verbs.QPAttrState|verbs.QPAttrSQPSN)
}

// InitQPAttr returns the attributes that move the connection's queue pair to state, which is INIT, RTR or
// RTS.
//
// C: rdma_init_qp_attr
func (id *ID) InitQPAttr(state verbs.QPState) (*verbs.QPAttr, verbs.QPAttrMask, error) {
	attr := new(verbs.QPAttr)
	mask, err := id.initQPAttr(state, attr)
	if err != nil {
		return nil, 0, err
	}
	return attr, mask, nil
}

func (id *ID) initQPAttr(state verbs.QPState, attr *verbs.QPAttr) (verbs.QPAttrMask, error) {
	r := newRequest[abi.RdmaUcmInitQpAttr, abi.IbUverbsQpAttr](abi.RDMA_USER_CM_CMD_INIT_QP_ATTR)
	defer r.free()
	r.body.Response, r.body.Id, r.body.QpState = r.respAddr(), id.handle, uint32(state)
	if err := id.channel().file.Command(r.in(), r.out()); err != nil {
		return 0, hinted("init QP attributes for "+state.String(), id, closedError(err),
			map[syscall.Errno]string{syscall.EINVAL: "the ID has no device yet, or the connection has not reached that state or is over"})
	}
	setQPAttr(attr, &r.resp)
	attr.State = state // the kernel does not set it for iWARP
	mask := verbs.QPAttrMask(r.resp.QpAttrMask) &^ unusedMask
	if state == verbs.QPStateInit {
		id.setTransport(mask)
	}
	return mask, nil
}

// setTransport recognizes iWARP by its lack of P_Keys.
func (id *ID) setTransport(initMask verbs.QPAttrMask) {
	id.mu.Lock()
	defer id.mu.Unlock()
	id.transport = transportIB
	if initMask&verbs.QPAttrPKeyIndex == 0 {
		id.transport = transportIWARP
	}
}

// learnTransport queries the kernel for the transport if it is not known yet. It ignores errors. Datagrams
// have only one transport.
func (id *ID) learnTransport() {
	id.mu.Lock()
	known := id.datagram || id.transport != transportUnknown
	id.mu.Unlock()
	if !known {
		_, _ = id.initQPAttr(verbs.QPStateInit, new(verbs.QPAttr))
	}
}

// move moves the queue pair to a state. adjust changes the attributes before, unless it is nil.
func (id *ID) move(qp queuePair, state verbs.QPState, adjust func(*verbs.QPAttr, *verbs.QPAttrMask)) error {
	attr := attrs.Get().(*verbs.QPAttr)
	defer attrs.Put(attr)
	mask, err := id.initQPAttr(state, attr)
	if err != nil || mask == 0 {
		return err
	}
	if adjust != nil {
		adjust(attr, &mask)
	}
	return qp.Modify(attr, mask)
}

// attrs holds attributes that move reuses.
var attrs = sync.Pool{New: func() any { return new(verbs.QPAttr) }}

// DetachQP detaches the queue pair from the ID. After it returns, events do not move the queue pair any
// more. Leave multicast groups before detaching, and detach before closing the queue pair. Conn.Close
// does both.
func (id *ID) DetachQP() {
	id.qpMu.Lock()
	defer id.qpMu.Unlock()
	id.mu.Lock()
	defer id.mu.Unlock()
	id.qp = nil
}

// lendQP calls use with the attached queue pair, if there is one. The queue pair cannot be detached
// meanwhile.
func (id *ID) lendQP(use func(queuePair) error) error {
	id.qpMu.Lock()
	defer id.qpMu.Unlock()
	id.mu.Lock()
	qp := id.qp
	id.mu.Unlock()
	if qp == nil {
		return nil
	}
	return use(qp)
}

// readyQP moves an InfiniBand or RoCE queue pair to RTS. resources and depth replace the kernel's numbers
// unless they are nil.
func (id *ID) readyQP(resources, depth *uint8) error {
	if id.datagram || id.isIWARP() {
		return nil
	}
	id.mu.Lock()
	rnr, dialled := id.rnr, id.limits.peer == nil
	id.mu.Unlock()
	return id.lendQP(func(qp queuePair) error {
		var answered verbs.QPAttr
		if dialled { // AttachQP did not know yet what the peer may access
			if _, err := id.initQPAttr(verbs.QPStateInit, &answered); err != nil {
				return err
			}
		}
		err := id.move(qp, verbs.QPStateRTR, func(a *verbs.QPAttr, mask *verbs.QPAttrMask) {
			if dialled {
				a.Access = answered.Access
				*mask |= verbs.QPAttrAccess
			}
			if resources != nil {
				a.MaxDestRDAtomic = *resources
			}
			if rnr.timer != 0 {
				a.RNRTimer = rnr.timer
			}
		})
		if err != nil {
			return err
		}
		return id.move(qp, verbs.QPStateRTS, func(a *verbs.QPAttr, _ *verbs.QPAttrMask) {
			if depth != nil {
				a.MaxRDAtomic = *depth
			}
			if rnr.retries != 0 {
				a.RNRRetry = rnr.retries
			}
		})
	})
}

// rnrSettings replaces the kernel's attributes for messages without a posted receive. Zero stands for the
// kernel's.
type rnrSettings struct {
	retries uint8
	timer   time.Duration
}

// setRNR sets the attributes that the queue pair gets when the connection is established.
func (id *ID) setRNR(cfg *Config) {
	id.mu.Lock()
	defer id.mu.Unlock()
	id.rnr = rnrSettings{uint8(cfg.RNRRetryCount), cfg.RNRTimer}
}

// failQP moves the attached queue pair to the error state, which flushes posted work. It ignores errors,
// because the queue pair may be in the error state already. A second call does nothing: package uverbs
// flushes work that is posted after the first.
func (id *ID) failQP() {
	_ = id.lendQP(func(qp queuePair) error {
		if id.flushed {
			return nil
		}
		err := qp.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.QPAttrState)
		id.flushed = err == nil
		return err
	})
}

func (id *ID) isIWARP() bool { return id.isOver(transportIWARP) }

func (id *ID) isOver(t transport) bool {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.transport == t
}

// react moves an attached queue pair as ev requires, and may change the type and error of ev. It reports
// whether the user should see ev.
func (id *ID) react(ev *Event) bool {
	id.mu.Lock()
	qp, failed, dropped := id.qp, id.failed, id.dropped
	id.mu.Unlock()
	if qp == nil {
		return true
	}
	switch ev.Type {
	case EventConnectResponse:
		ev.Type = EventEstablished
		if ev.Err = id.finish(); ev.Err != nil {
			ev.Type = EventConnectError
			return id.hasFailed()
		}
	case EventRejected, EventDisconnected:
		if r, ok := ev.Err.(*RejectedError); ok && dropped && r.isSilent() {
			r.Reason = RejectBusy // its Listener needed the place before it knew that this side had the answer
		}
		id.failQP()
		return !failed // the user has seen the failure
	case EventMulticastJoin:
		if ev.Err = ev.Multicast.attach(ev.UD); ev.Err != nil {
			ev.Type = EventMulticastError
		}
	}
	return true
}

// finish performs the active side's last step on InfiniBand and RoCE.
func (id *ID) finish() error {
	err := id.readyQP(nil, nil)
	if err == nil {
		err = id.Establish()
	}
	if err == nil {
		return nil
	}
	id.failQP()
	if e := (*verbs.Error)(nil); errors.As(err, &e) && !isVerb(e) && e.Err == syscall.EINVAL {
		// The connection manager has left the state for this step, because the peer has rejected the
		// connection after it had accepted it. The event that says so, and why, follows.
		id.mu.Lock()
		defer id.mu.Unlock()
		id.dropped = true
		return err
	}
	id.mu.Lock()
	defer id.mu.Unlock()
	id.failed = true
	return fmt.Errorf("after the peer accepted: %w", err)
}

// hasFailed reports whether the user is to see a failure of finish, and none of the events that follow.
func (id *ID) hasFailed() bool {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.failed
}

// setQPAttr converts attributes, except for alternate paths, which uverbs does not have.
func setQPAttr(a *verbs.QPAttr, w *abi.IbUverbsQpAttr) {
	*a = verbs.QPAttr{
		State:           verbs.QPState(w.QpState),
		CurState:        verbs.QPState(w.CurQpState),
		PathMTU:         verbs.MTU(w.PathMtu),
		QKey:            w.Qkey,
		RQPSN:           w.RqPsn,
		SQPSN:           w.SqPsn,
		DestQPN:         w.DestQpNum,
		Access:          verbs.Access(w.QpAccessFlags),
		AH:              ahAttr(&w.AhAttr),
		PKeyIndex:       uint32(w.PkeyIndex),
		MaxRDAtomic:     w.MaxRdAtomic,
		MaxDestRDAtomic: w.MaxDestRdAtomic,
		RNRTimer:        qpstate.RNRTimer(w.MinRnrTimer),
		Port:            int(w.PortNum),
		AckTimeout:      qpstate.AckTimeout(w.Timeout),
		RetryCnt:        w.RetryCnt,
		RNRRetry:        w.RnrRetry,
	}
}

func ahAttr(w *abi.IbUverbsAhAttr) verbs.AHAttr {
	return verbs.AHAttr{
		DGID:         w.Grh.Dgid,
		FlowLabel:    w.Grh.FlowLabel,
		SGIDIndex:    uint32(w.Grh.SgidIndex),
		HopLimit:     w.Grh.HopLimit,
		TrafficClass: w.Grh.TrafficClass,
		Global:       w.IsGlobal != 0,
		DLID:         w.Dlid,
		SL:           w.Sl,
		SrcPathBits:  w.SrcPathBits,
		StaticRate:   verbs.Rate(w.StaticRate),
		Port:         int(w.PortNum),
	}
}

// nodeGUID converts a GUID that the kernel passes as big-endian bytes.
func nodeGUID(raw uint64) verbs.GUID {
	return verbs.GUID(binary.BigEndian.Uint64(binary.NativeEndian.AppendUint64(nil, raw)))
}
