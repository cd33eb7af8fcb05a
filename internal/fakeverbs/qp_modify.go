package fakeverbs

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

func (k *Kernel) modifyQP(r *ioctl.Request) error {
	in := request[abi.IbUverbsModifyQp](r)
	if in.AttrMask&^abi.IB_QP_ATTR_STANDARD_BITS != 0 {
		return syscall.EOPNOTSUPP
	}
	return k.modify(&in, 0, r)
}

func (k *Kernel) exModifyQP(r *ioctl.Request) error {
	in := request[abi.IbUverbsExModifyQp](r)
	if in.Base.AttrMask&^(abi.IB_QP_ATTR_STANDARD_BITS|abi.IB_QP_RATE_LIMIT) != 0 {
		return syscall.EOPNOTSUPP
	}
	if err := k.modify(&in.Base, in.RateLimit, r); err != nil {
		return err
	}
	return respond(r, abi.IbUverbsExModifyQpResp{ResponseLength: 8})
}

// privateModifier is a driver with private bytes for modifications. It reads them before the QP changes.
type privateModifier interface {
	ModifyPrivate(qp *QP, in *abi.IbUverbsModifyQp, rate uint32, r *ioctl.Request) error
}

func (k *Kernel) modify(in *abi.IbUverbsModifyQp, rate uint32, r *ioctl.Request) error {
	_, qp, err := find[*QP](k, "QP", in.QpHandle)
	if err != nil {
		return err
	}
	if in.AttrMask&abi.IB_QP_AV != 0 {
		if err := k.resolve(qp, &in.Dest); err != nil {
			return err
		}
	}
	if in.AttrMask&abi.IB_QP_ALT_PATH != 0 {
		if err := k.resolve(qp, &in.AltDest); err != nil {
			return err
		}
	}
	err = qp.Shared(func() error {
		if err := k.checkModify(qp, in); err != nil {
			return err
		}
		forced := qp.forcesMigration(in)
		if err := k.modifyModel(qp, in, rate, r); err != nil {
			return err
		}
		if in.AttrMask&abi.IB_QP_PORT != 0 {
			qp.Attrs.PortNum = in.PortNum // the core keeps it, whatever the driver does
		}
		if forced {
			qp.switchPath()
			k.Raise(qp.Cookie, abi.IB_EVENT_PATH_MIG)
		}
		return nil
	})
	if err != nil {
		return err
	}
	k.Ring(qp)
	return nil
}

func (k *Kernel) modifyModel(qp *QP, in *abi.IbUverbsModifyQp, rate uint32, r *ioctl.Request) error {
	if m, ok := k.Model.(privateModifier); ok {
		if err := m.ModifyPrivate(qp, in, rate, r); err != nil {
			return err
		}
	}
	if qp.target != nil {
		return Bare{}.ModifyQP(qp, in)
	}
	return k.Model.ModifyQP(qp, in)
}

// checkModify makes the checks of the core, which are the same for all drivers.
func (k *Kernel) checkModify(qp *QP, in *abi.IbUverbsModifyQp) error {
	has := func(bits uint32) bool { return in.AttrMask&bits != 0 }
	switch toRTR := has(abi.IB_QP_STATE) && in.QpState == abi.IB_QPS_RTR; {
	case has(abi.IB_QP_RATE_LIMIT) && !k.Device.driver.RateLimits:
		return syscall.EOPNOTSUPP
	case has(abi.IB_QP_PORT) && in.PortNum != 1,
		has(abi.IB_QP_AV) && in.Dest.PortNum != 1,
		has(abi.IB_QP_AV) && toRTR && in.Dest.PortNum != qp.Attrs.PortNum,
		has(abi.IB_QP_CUR_STATE) && in.CurQpState > abi.IB_QPS_ERR,
		has(abi.IB_QP_STATE) && in.QpState > abi.IB_QPS_ERR,
		has(abi.IB_QP_ALT_PATH) && (in.AltPortNum != 1 || in.AltDest.PortNum != in.AltPortNum || !k.Device.IsInfiniBand()):
		return syscall.EINVAL
	}
	return qp.checkMigration(in)
}

// resolve is resolveAH for an address of a queue pair. It sets the hop limit. For a driver's own type, the address
// need not be that of a peer.
func (k *Kernel) resolve(qp *QP, a *abi.IbUverbsQpDest) error {
	if qp.Type == abi.IB_UVERBS_QPT_DRIVER {
		if a.IsGlobal == 0 {
			if k.Device.IsRoCE() {
				return syscall.EINVAL
			}
			return nil
		}
		_, err := k.GID(uint32(a.SgidIndex))
		return err
	}
	ah := abi.IbUverbsAhAttr{PortNum: a.PortNum, IsGlobal: a.IsGlobal,
		Grh: abi.IbUverbsGlobalRoute{Dgid: a.Dgid, SgidIndex: a.SgidIndex, HopLimit: a.HopLimit}}
	hops, err := k.resolveAH(&ah)
	a.HopLimit = hops
	return err
}

// queryChecker is a model whose driver does not know all attributes of a queue pair.
type queryChecker interface {
	CheckQuery(qp *QP, mask uint32) error
}

func (k *Kernel) queryQP(r *ioctl.Request) error {
	in := request[abi.IbUverbsQueryQp](r)
	_, qp, err := find[*QP](k, "QP", in.QpHandle)
	if err != nil {
		return err
	}
	if m, ok := k.Model.(queryChecker); ok {
		if err := m.CheckQuery(qp, in.AttrMask); err != nil {
			return err
		}
	}
	_ = qp.Shared(func() error { return nil })
	a := &qp.Attrs
	resp := abi.IbUverbsQueryQpResp{
		Dest: a.Dest, AltDest: a.AltDest, QpState: qp.CurState, CurQpState: qp.CurState, PathMtu: a.PathMtu, PathMigState: a.PathMigState,
		Qkey: a.Qkey, RqPsn: a.RqPsn, SqPsn: a.SqPsn, DestQpNum: a.DestQpNum, QpAccessFlags: a.QpAccessFlags,
		PkeyIndex: a.PkeyIndex, AltPkeyIndex: a.AltPkeyIndex, MaxRdAtomic: a.MaxRdAtomic, MaxDestRdAtomic: a.MaxDestRdAtomic,
		MinRnrTimer: a.MinRnrTimer, PortNum: a.PortNum, Timeout: a.Timeout, RetryCnt: a.RetryCnt, RnrRetry: a.RnrRetry,
		AltPortNum: a.AltPortNum, AltTimeout: a.AltTimeout,
		MaxSendWr: qp.Cap.MaxSendWr, MaxSendSge: qp.Cap.MaxSendSge, MaxInlineData: qp.Cap.MaxInlineData,
	}
	if qp.SRQ == nil {
		resp.MaxRecvWr, resp.MaxRecvSge = qp.Cap.MaxRecvWr, qp.Cap.MaxRecvSge
	}
	if q, ok := qp.Made.(interface{ RecvEntries() uint32 }); ok {
		resp.MaxRecvWr = q.RecvEntries() // the number that the provider has room for
	}
	if qp.Flags&abi.IB_UVERBS_QP_CREATE_SQ_SIG_ALL != 0 {
		resp.SqSigAll = 1
	}
	if q, ok := qp.Made.(interface {
		AdjustQuery(*abi.IbUverbsQueryQpResp)
	}); ok {
		q.AdjustQuery(&resp)
	}
	return respond(r, resp)
}

// State returns the QP's state, an IB_QPS_ number.
func (qp *QP) State() uint8 {
	qp.k.enter()
	defer qp.k.leave()
	_ = qp.Shared(func() error { return nil })
	return qp.CurState
}

// depthKeeper is a queue pair whose driver learns the depths of READs from the connection manager.
type depthKeeper interface{ SetDepths(issued, served uint8) }

// Connect puts the QP into RTS, as the connection manager does. The depths say how many READs it issues and
// serves at a time.
func (qp *QP) Connect(issued, served uint8) {
	qp.k.enter()
	defer qp.k.leave()
	qp.CurState = abi.IB_QPS_RTS
	if q, ok := qp.queues.(depthKeeper); ok {
		q.SetDepths(issued, served)
	}
}

// Break puts the QP into the error state, as the loss of the peer does. All posted requests are flushed.
// Requests that are posted later are flushed after a doorbell.
func (qp *QP) Break() {
	qp.k.enter()
	defer qp.k.leave()
	qp.queues.EnterError()
}

// dropper is a queue pair that stays in its state when the driver drops its connection.
type dropper interface{ Drop() }

// Drop is Break for a connection that the queue pair's own driver drops because of an error.
func (qp *QP) Drop() {
	qp.k.enter()
	defer qp.k.leave()
	qp.drop()
}

func (qp *QP) drop() {
	if d, ok := qp.queues.(dropper); ok {
		d.Drop()
		return
	}
	qp.queues.EnterError()
}

// connCloser is a queue pair whose connection the program can close without an error.
type connCloser interface{ CloseConn() }

// CloseConn is Break for a connection that the program closes.
func (qp *QP) CloseConn() {
	qp.k.enter()
	defer qp.k.leave()
	if c, ok := qp.queues.(connCloser); ok {
		c.CloseConn()
		return
	}
	qp.queues.EnterError()
}

// Carry takes the oldest send and completes it with a status in the driver's numbers. A success completes
// only if the send was signaled. Carry reports whether there was a send. In the error state it takes none,
// because drivers only flush there.
func (qp *QP) Carry(status uint32) bool {
	qp.k.enter()
	defer qp.k.leave()
	return qp.CurState != abi.IB_QPS_ERR && qp.queues.(player).Carry(status)
}

// Receive completes the oldest receive with n bytes. If the queue is empty, it reports false, and over iWARP
// the connection ends. In the error state it completes no receive.
func (qp *QP) Receive(n uint32) bool {
	qp.k.enter()
	defer qp.k.leave()
	return qp.CurState != abi.IB_QPS_ERR && qp.queues.(player).Receive(n)
}

// player is a queue pair whose requests a test completes one at a time.
type player interface {
	Carry(status uint32) bool
	Receive(n uint32) bool
}

// TakeOver stores the attributes in the mask, as drivers in software do.
func (qp *QP) TakeOver(in *abi.IbUverbsModifyQp) {
	for _, c := range qpAttrs {
		if in.AttrMask&c.bit != 0 {
			c.copy(&qp.Attrs, in)
		}
	}
}

// qpAttrs holds the attributes that a modification may have.
var qpAttrs = []struct {
	bit  uint32
	copy func(to, from *abi.IbUverbsModifyQp)
}{
	{abi.IB_QP_EN_SQD_ASYNC_NOTIFY, func(to, from *abi.IbUverbsModifyQp) { to.EnSqdAsyncNotify = from.EnSqdAsyncNotify }},
	{abi.IB_QP_ALT_PATH, func(to, from *abi.IbUverbsModifyQp) {
		to.AltDest, to.AltPkeyIndex, to.AltPortNum, to.AltTimeout = from.AltDest, from.AltPkeyIndex, from.AltPortNum, from.AltTimeout
	}},
	{abi.IB_QP_ACCESS_FLAGS, func(to, from *abi.IbUverbsModifyQp) { to.QpAccessFlags = from.QpAccessFlags }},
	{abi.IB_QP_PKEY_INDEX, func(to, from *abi.IbUverbsModifyQp) { to.PkeyIndex = from.PkeyIndex }},
	{abi.IB_QP_PORT, func(to, from *abi.IbUverbsModifyQp) { to.PortNum = from.PortNum }},
	{abi.IB_QP_QKEY, func(to, from *abi.IbUverbsModifyQp) { to.Qkey = from.Qkey }},
	{abi.IB_QP_AV, func(to, from *abi.IbUverbsModifyQp) { to.Dest = from.Dest }},
	{abi.IB_QP_PATH_MTU, func(to, from *abi.IbUverbsModifyQp) { to.PathMtu = from.PathMtu }},
	{abi.IB_QP_TIMEOUT, func(to, from *abi.IbUverbsModifyQp) { to.Timeout = from.Timeout }},
	{abi.IB_QP_RETRY_CNT, func(to, from *abi.IbUverbsModifyQp) { to.RetryCnt = from.RetryCnt }},
	{abi.IB_QP_RNR_RETRY, func(to, from *abi.IbUverbsModifyQp) { to.RnrRetry = from.RnrRetry }},
	{abi.IB_QP_RQ_PSN, func(to, from *abi.IbUverbsModifyQp) { to.RqPsn = from.RqPsn & 0xffffff }},
	{abi.IB_QP_MAX_QP_RD_ATOMIC, func(to, from *abi.IbUverbsModifyQp) { to.MaxRdAtomic = atomics(from.MaxRdAtomic) }},
	{abi.IB_QP_MIN_RNR_TIMER, func(to, from *abi.IbUverbsModifyQp) { to.MinRnrTimer = from.MinRnrTimer }},
	{abi.IB_QP_SQ_PSN, func(to, from *abi.IbUverbsModifyQp) { to.SqPsn = from.SqPsn & 0xffffff }},
	{abi.IB_QP_MAX_DEST_RD_ATOMIC, func(to, from *abi.IbUverbsModifyQp) { to.MaxDestRdAtomic = atomics(from.MaxDestRdAtomic) }},
	{abi.IB_QP_PATH_MIG_STATE, func(to, from *abi.IbUverbsModifyQp) { to.PathMigState = from.PathMigState }},
	{abi.IB_QP_DEST_QPN, func(to, from *abi.IbUverbsModifyQp) { to.DestQpNum = from.DestQpNum }},
}

// atomics rounds up to a power of two or 0, as the kernel does.
func atomics(n uint8) uint8 {
	if n == 0 {
		return 0
	}
	return uint8(RoundPow2(uint32(n)))
}

type move struct{ from, to uint8 }

// need holds the attributes that a transition must and may have, for RC, UC, UD, XRC_INI, XRC_TGT and RAW_PACKET.
type need struct{ must, may [6]uint32 }

const (
	first   = abi.IB_QP_PKEY_INDEX | abi.IB_QP_PORT
	heard   = abi.IB_QP_MAX_DEST_RD_ATOMIC | abi.IB_QP_MIN_RNR_TIMER
	path    = abi.IB_QP_AV | abi.IB_QP_PATH_MTU | abi.IB_QP_DEST_QPN | abi.IB_QP_RQ_PSN
	retry   = abi.IB_QP_TIMEOUT | abi.IB_QP_RETRY_CNT | abi.IB_QP_RNR_RETRY | abi.IB_QP_MAX_QP_RD_ATOMIC
	later   = abi.IB_QP_ALT_PATH | abi.IB_QP_ACCESS_FLAGS | abi.IB_QP_PKEY_INDEX
	live    = abi.IB_QP_CUR_STATE | abi.IB_QP_ALT_PATH | abi.IB_QP_ACCESS_FLAGS | abi.IB_QP_PATH_MIG_STATE
	keyed   = abi.IB_QP_CUR_STATE | abi.IB_QP_QKEY
	drained = abi.IB_QP_EN_SQD_ASYNC_NOTIFY
	rights  = first | abi.IB_QP_ACCESS_FLAGS
	calm    = abi.IB_QP_AV | later | abi.IB_QP_PATH_MIG_STATE
)

// moves is the kernel's qp_state_table without the transitions to RESET and ERR.
var moves = map[move]need{
	{abi.IB_QPS_RESET, abi.IB_QPS_INIT}: {must: [6]uint32{rights, rights, first | abi.IB_QP_QKEY, rights, rights, abi.IB_QP_PORT}},
	{abi.IB_QPS_INIT, abi.IB_QPS_INIT}:  {may: [6]uint32{rights, rights, first | abi.IB_QP_QKEY, rights, rights}},
	{abi.IB_QPS_INIT, abi.IB_QPS_RTR}: {must: [6]uint32{path | heard, path, 0, path, path | heard},
		may: [6]uint32{later, later, abi.IB_QP_PKEY_INDEX | abi.IB_QP_QKEY, later, later}},
	{abi.IB_QPS_RTR, abi.IB_QPS_RTS}: {
		must: [6]uint32{retry | abi.IB_QP_SQ_PSN, abi.IB_QP_SQ_PSN, abi.IB_QP_SQ_PSN, retry | abi.IB_QP_SQ_PSN, abi.IB_QP_TIMEOUT | abi.IB_QP_SQ_PSN},
		may:  sending},
	{abi.IB_QPS_RTS, abi.IB_QPS_RTS}: {may: sending},
	{abi.IB_QPS_RTS, abi.IB_QPS_SQD}: {may: [6]uint32{drained, drained, drained, drained, drained}},
	{abi.IB_QPS_SQD, abi.IB_QPS_RTS}: {may: sending},
	{abi.IB_QPS_SQD, abi.IB_QPS_SQD}: {may: [6]uint32{calm | abi.IB_QP_PORT | retry | heard, calm, abi.IB_QP_PKEY_INDEX | abi.IB_QP_QKEY,
		calm | abi.IB_QP_PORT | retry, calm | abi.IB_QP_PORT | abi.IB_QP_TIMEOUT | heard}},
	{abi.IB_QPS_SQE, abi.IB_QPS_RTS}: {may: [6]uint32{0, abi.IB_QP_CUR_STATE | abi.IB_QP_ACCESS_FLAGS, keyed}},
}

// sending holds the attributes that may change while sends are processed.
var sending = [6]uint32{live | abi.IB_QP_MIN_RNR_TIMER, live, keyed, live, live | abi.IB_QP_MIN_RNR_TIMER, abi.IB_QP_RATE_LIMIT}

// ignored holds the attributes that the core ignores when it modifies a QP.
var ignored = map[uint64]uint32{
	abi.IB_UVERBS_QPT_XRC_INI: heard,
	abi.IB_UVERBS_QPT_XRC_TGT: abi.IB_QP_MAX_QP_RD_ATOMIC | abi.IB_QP_RETRY_CNT | abi.IB_QP_RNR_RETRY,
}

// ModifyIsOK reports whether the kernel's ib_modify_qp_is_ok permits a transition. Unlike the
// specification, it permits the transition of an RC QP from SQE to RTS without attributes.
func ModifyIsOK(from, to uint8, typ uint64, mask uint32) bool {
	if mask&abi.IB_QP_CUR_STATE != 0 && (from < abi.IB_QPS_RTR || from > abi.IB_QPS_SQE) {
		return false
	}
	n, ok := moves[move{from, to}]
	if to == abi.IB_QPS_RESET || to == abi.IB_QPS_ERR && from != abi.IB_QPS_RESET {
		n, ok = need{}, true
	}
	mask &^= ignored[typ]
	i := map[uint64]int{abi.IB_UVERBS_QPT_RC: 0, abi.IB_UVERBS_QPT_UC: 1, abi.IB_UVERBS_QPT_UD: 2, abi.IB_UVERBS_QPT_XRC_INI: 3, abi.IB_UVERBS_QPT_XRC_TGT: 4, abi.IB_UVERBS_QPT_RAW_PACKET: 5}[typ]
	return ok && mask&n.must[i] == n.must[i] && mask&^(n.must[i]|n.may[i]|abi.IB_QP_STATE) == 0
}
