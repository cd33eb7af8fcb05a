package rdmacm

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// queuePair is what an ID needs of a *uverbs.QP.
type queuePair interface {
	Modify(*verbs.QPAttr, verbs.QPAttrMask) error
	AttachMcast(gid verbs.GID, lid uint16) error
	DetachMcast(gid verbs.GID, lid uint16) error
	Num() uint32
	SRQ() *uverbs.SRQ
}

// unusedMask are bits of the kernel's answer that can't be passed on: some it
// sets for its own use and refuses in modify, and alternate paths.
const unusedMask = verbs.QPAttrMask(0xe00000) | verbs.QPAttrAltPath | verbs.QPAttrPathMigState

// AttachQP hands the queue pair's states to the ID: INIT now (datagram queue
// pairs go to RTS, with [UDPQKey]), the rest as the connection progresses,
// the error state when it ends. The ID must be bound to the queue pair's device,
// so attach after EventAddrResolved or to the ID of a connect request.
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

// InitQPAttr asks the kernel for the attributes that bring the connection's
// queue pair to state, which is INIT, RTR or RTS.
//
// C: rdma_init_qp_attr
func (id *ID) InitQPAttr(state verbs.QPState) (*verbs.QPAttr, verbs.QPAttrMask, error) {
	r := newRequest[abi.RdmaUcmInitQpAttr, abi.IbUverbsQpAttr](abi.RDMA_USER_CM_CMD_INIT_QP_ATTR)
	defer r.free()
	r.body.Response, r.body.Id, r.body.QpState = r.respAddr(), id.handle, uint32(state)
	if err := id.channel().file.Command(r.in(), r.out()); err != nil {
		return nil, 0, hinted("init QP attributes for "+state.String(), id, closedError(err),
			map[syscall.Errno]string{syscall.EINVAL: "the ID has no device yet, or the connection is not that far, or over"})
	}
	attr, mask := qpAttr(&r.resp), verbs.QPAttrMask(r.resp.QpAttrMask)&^unusedMask
	attr.State = state // the iWARP kernel code leaves it to us
	if state == verbs.QPStateInit {
		id.setTransport(mask)
	}
	return attr, mask, nil
}

// setTransport: only iWARP has no P_Keys.
func (id *ID) setTransport(initMask verbs.QPAttrMask) {
	id.mu.Lock()
	defer id.mu.Unlock()
	id.transport = transportIB
	if initMask&verbs.QPAttrPKeyIndex == 0 {
		id.transport = transportIWARP
	}
}

// learnTransport asks if nothing has asked yet; failing is no harm. Datagrams have
// one transport only.
func (id *ID) learnTransport() {
	id.mu.Lock()
	known := id.datagram || id.transport != transportUnknown
	id.mu.Unlock()
	if !known {
		_, _, _ = id.InitQPAttr(verbs.QPStateInit)
	}
}

func (id *ID) move(qp queuePair, state verbs.QPState, adjust func(*verbs.QPAttr)) error {
	attr, mask, err := id.InitQPAttr(state)
	if err != nil || mask == 0 {
		return err
	}
	if adjust != nil {
		adjust(attr)
	}
	return qp.Modify(attr, mask)
}

// DetachQP takes the queue pair back from the ID. When it returns no event can
// move the queue pair any more; so detach before closing it, and leave multicast
// groups before detaching. Close of a Conn does.
func (id *ID) DetachQP() {
	id.qpMu.Lock()
	defer id.qpMu.Unlock()
	id.mu.Lock()
	defer id.mu.Unlock()
	id.qp = nil
}

// lendQP calls use with the attached queue pair, if there is one, and lets
// nobody detach it meanwhile.
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

// readyQP takes an InfiniBand or RoCE queue pair to RTS. resources and depth,
// where not nil, replace what the kernel negotiated.
func (id *ID) readyQP(resources, depth *uint8) error {
	if id.datagram || id.isIWARP() {
		return nil
	}
	return id.lendQP(func(qp queuePair) error {
		// INIT once more: its access flags depend on what the peer asked for.
		if err := id.move(qp, verbs.QPStateInit, nil); err != nil {
			return err
		}
		err := id.move(qp, verbs.QPStateRTR, func(a *verbs.QPAttr) {
			if resources != nil {
				a.MaxDestRDAtomic = *resources
			}
		})
		if err != nil {
			return err
		}
		return id.move(qp, verbs.QPStateRTS, func(a *verbs.QPAttr) {
			if depth != nil {
				a.MaxRDAtomic = *depth
			}
		})
	})
}

// failQP flushes what is posted. It may come late, when the queue pair is in
// the error state already, so its failure says nothing. A second time does nothing: package
// uverbs flushes what is posted after the first.
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

func (id *ID) isIB() bool { return id.isOver(transportIB) }

func (id *ID) isOver(t transport) bool {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.transport == t
}

// react does an attached queue pair's share of ev, and may change what ev
// says. It reports whether the user is to see ev.
func (id *ID) react(ev *Event) bool {
	id.mu.Lock()
	qp, failed := id.qp, id.failed
	id.mu.Unlock()
	if qp == nil {
		return true
	}
	switch ev.Type {
	case EventConnectResponse:
		ev.Type = EventEstablished
		if ev.Err = id.finish(); ev.Err != nil {
			ev.Type = EventConnectError
		}
	case EventRejected, EventDisconnected:
		id.failQP()
		return !failed // the user was told of the failure
	case EventMulticastJoin:
		if ev.Err = ev.Multicast.attach(ev.UD); ev.Err != nil {
			ev.Type = EventMulticastError
		}
	}
	return true
}

// finish is the active side's last step on InfiniBand and RoCE.
func (id *ID) finish() error {
	err := id.readyQP(nil, nil)
	if err == nil {
		err = id.Establish()
	}
	if err != nil {
		id.failQP()
		id.mu.Lock()
		id.failed = true
		id.mu.Unlock()
		return fmt.Errorf("after the peer accepted: %w", err)
	}
	return nil
}

// qpAttr leaves out alternate paths, which uverbs doesn't have.
func qpAttr(w *abi.IbUverbsQpAttr) *verbs.QPAttr {
	return &verbs.QPAttr{
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
		MinRNRTimer:     w.MinRnrTimer,
		Port:            uint32(w.PortNum),
		Timeout:         w.Timeout,
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
		StaticRate:   w.StaticRate,
		Port:         uint32(w.PortNum),
	}
}

// nodeGUID makes a number of what the kernel passes as big endian bytes.
func nodeGUID(raw uint64) verbs.GUID {
	return verbs.GUID(binary.BigEndian.Uint64(binary.NativeEndian.AppendUint64(nil, raw)))
}
