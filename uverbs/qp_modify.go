package uverbs

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/qpstate"
	"github.com/goverbs/goverbs/verbs"
)

// Modify changes the attributes in mask and, with QPAttrState, the QP's state. If the
// kernel refuses a transition, the error says which attributes are missing or wrong. Posts
// wait until Modify is done.
//
// C: ibv_modify_qp
func (qp *QP) Modify(attr *verbs.QPAttr, mask verbs.QPAttrMask) error {
	if attr == nil {
		return qp.fail("modify", syscall.EINVAL, "no attributes")
	}
	if why := tooWide(attr, mask); why != "" {
		return qp.fail("modify", syscall.EINVAL, why)
	}
	if err := qp.checkPacing(attr, mask); err != nil {
		return qp.fail("modify", err, "")
	}
	modify := qp.modifyHeld
	if mask&verbs.QPAttrState != 0 && attr.State == verbs.QPStateReset {
		modify = qp.reset
	}
	return qp.using("modify", func() error {
		num := qp.num.Load()
		if err := modify(attr, mask); err != nil {
			return qp.fail("modify", err, qp.explain(err, attr, mask))
		}
		if now := qp.num.Load(); now != num {
			qp.renumbered(now)
		}
		return nil
	})
}

// renumbered is called after the kernel has given a DCT its number.
func (qp *QP) renumbered(num uint32) {
	qp.joinCQs()
	qp.graph.Lock()
	defer qp.graph.Unlock()
	qp.number, qp.named = num, true
}

// checkPacing returns an error for a burst or a packet size that the device can't take into account.
func (qp *QP) checkPacing(a *verbs.QPAttr, mask verbs.QPAttrMask) error {
	if mask&verbs.QPAttrRateLimit == 0 || a.MaxBurst == 0 && a.TypicalPacket == 0 {
		return nil
	}
	if a.RateLimit == 0 {
		return fmt.Errorf("%w: MaxBurst and TypicalPacket need a RateLimit", syscall.EINVAL)
	}
	if d, err := qp.dev.Attr(); err != nil || !d.PacketPacing.Burst {
		return errors.Join(err, fmt.Errorf("%w: the device does not support MaxBurst and TypicalPacket", verbs.ErrNotSupported))
	}
	return nil
}

// modifyHeld carries out a Modify that is not to RESET, with both queues held. So nothing
// is posted between a move to ERR and the flush.
func (qp *QP) modifyHeld(a *verbs.QPAttr, mask verbs.QPAttrMask) error {
	qp.sq.Lock()
	defer qp.sq.Unlock()
	qp.rq.Lock()
	defer qp.rq.Unlock()
	toErr := mask&verbs.QPAttrState != 0 && a.State == verbs.QPStateErr
	if err := qp.modify(a, mask, nil); err != nil {
		if toErr && errors.Is(err, syscall.EIO) { // the device is gone, and completes nothing any more
			qp.enteredErr()
		}
		return err
	}
	if toErr {
		qp.enteredErr()
	}
	return nil
}

// modify modifies the QP through its provider if that is a driver.QPModifier, or else
// directly. It calls then, which may be nil, after each call of the kernel that succeeds. The
// caller holds both queues.
func (qp *QP) modify(a *verbs.QPAttr, mask verbs.QPAttrMask, then func()) error {
	x := modifications.Get().(*modification)
	defer x.free()
	x.qp, x.attr, x.mask, x.then, x.memory, x.again = qp, a, mask, then, qp.memory, true
	x.request = driver.ModifyQP{Call: &x.call, From: verbs.QPState(qp.state.Load()), Attr: a, Mask: mask}
	if x.request.To = x.request.From; mask&verbs.QPAttrState != 0 {
		x.request.To = a.State
	}
	m, ok := qp.ring.(driver.QPModifier)
	if !ok {
		return x.Do(driver.UHW{})
	}
	err := m.Modify(&x.request)
	if x.request.Num != 0 {
		qp.num.Store(x.request.Num)
	}
	return err
}

// modification holds everything that one call of modify needs in one allocation. It is reused,
// because a QP is modified three or four times while it connects.
type modification struct {
	call
	request driver.ModifyQP
	in      abi.IbUverbsModifyQp
	qp      *QP
	attr    *verbs.QPAttr
	mask    verbs.QPAttrMask
	then    func()
}

var modifications = sync.Pool{New: func() any {
	x := new(modification)
	x.issue = x.issueModify
	return x
}}

// free makes x available, without references to the QP.
func (x *modification) free() {
	*x = modification{call: call{issue: x.issue}}
	modifications.Put(x)
}

// reset moves the QP to RESET and begins a new generation. Posts wait meanwhile: a work
// request that reached a queue while the kernel empties it would be left for the next
// generation. The CQs are cleaned of the old generation's completions, so that completions
// that arrive later belong to the new one. Once the kernel has moved the QP, the new
// generation has begun, even if the provider fails after that.
func (qp *QP) reset(a *verbs.QPAttr, mask verbs.QPAttrMask) error {
	found, err := qp.resetHeld(a, mask)
	handleFailures(found)
	return err
}

func (qp *QP) resetHeld(a *verbs.QPAttr, mask verbs.QPAttrMask) (found []failure, err error) {
	qp.sq.Lock()
	defer qp.sq.Unlock()
	qp.rq.Lock()
	defer qp.rq.Unlock()
	var moved bool
	err = qp.modify(a, mask, func() {
		moved = true
		found = append(found, qp.cleanCQs()...)
	})
	if moved {
		qp.generation.Add(1)
		qp.setFastPath()
	}
	return found, err
}

// issueModify calls the kernel.
func (x *modification) issueModify(u driver.UHW, extra []driver.Attr) error {
	err := x.carryOut(u, extra)
	if err != nil {
		return err
	}
	x.qp.state.Store(uint32(x.request.To)) // even if the provider fails later
	if x.then != nil {
		x.then()
	}
	return nil
}

func (x *modification) carryOut(u driver.UHW, extra []driver.Attr) error {
	qp := x.qp
	x.in = qpToABI(x.attr, x.mask)
	x.in.QpHandle, x.in.AttrMask = qp.handle, uint32(x.mask)
	if x.mask&verbs.QPAttrRateLimit == 0 && u.Out == nil {
		r := writeCommand(qp.dev, abi.IB_USER_VERBS_CMD_MODIFY_QP, &x.in)
		defer r.Free()
		return qp.dev.doWith(r, u, extra)
	}
	ex := &abi.IbUverbsExModifyQp{Base: x.in, RateLimit: x.attr.RateLimit}
	r := writeCommand(qp.dev, ioctl.Extended(abi.IB_USER_VERBS_EX_CMD_MODIFY_QP), ex)
	defer r.Free()
	ioctl.Out(r, abi.UVERBS_ATTR_CORE_OUT, new(abi.IbUverbsExModifyQpResp))
	return qp.dev.doWith(r, u, extra)
}

// Query returns the QP's attributes, as the kernel reports them. siw has only State, PathMTU, Access, the two read
// depths and Cap: CurState is a copy of State, and the other fields are zero. Linux 6.1's siw
// doesn't set State either, which may then have any value. EFA has only State, PKeyIndex, Port, QKey,
// SQPSN, RNRRetry and Cap. A DCT has only State, Access, Port, RNRTimer, PathMTU, PKeyIndex and, without
// DGID, AH, and answers only in RTR.
//
// C: ibv_query_qp
func (qp *QP) Query() (attr *verbs.QPAttr, err error) {
	err = qp.using("query", func() error {
		if attr, err = qp.issueQuery(); err != nil {
			return qp.fail("query", err, qp.queryHint(err))
		}
		return nil
	})
	return attr, err
}

func (qp *QP) queryHint(err error) string {
	if qp.typ == verbs.QPTypeDCT && errors.Is(err, syscall.EINVAL) {
		return "a DCT answers queries only in RTR"
	}
	return ""
}

func (qp *QP) issueQuery() (*verbs.QPAttr, error) {
	var resp abi.IbUverbsQueryQpResp
	in := &abi.IbUverbsQueryQp{QpHandle: qp.handle, AttrMask: uint32(verbs.QPAttrDestQPN<<1 - 1)}
	if m, ok := qp.ring.(driver.QueryMasker); ok {
		in.AttrMask = uint32(m.QueryMask())
	}
	r := writeCommand(qp.dev, abi.IB_USER_VERBS_CMD_QUERY_QP, in)
	defer r.Free()
	ioctl.Out(r, abi.UVERBS_ATTR_CORE_OUT, &resp)
	if err := r.Do(qp.dev.file); err != nil {
		return nil, err
	}
	attr := newQPAttr(&resp)
	if c, ok := qp.ring.(driver.QueryCleaner); ok {
		c.CleanQuery(attr)
	}
	return attr, nil
}

// Init moves a QP from RESET to INIT, where receives can be posted. It uses Port (0 means 1),
// PKeyIndex and Access of attr. For a UD or SRD QP it uses QKey instead of Access, for a DCI no
// Access, and for a raw packet QP Port only. Init and then [QP.Connect] connect a QP without a connection
// manager. Package rdmacm does both itself.
func (qp *QP) Init(attr *verbs.QPAttr) error {
	a := withDefaults(attr)
	a.State = verbs.QPStateInit
	mask := verbs.QPAttrState | verbs.QPAttrPKeyIndex | verbs.QPAttrPort | verbs.QPAttrAccess
	switch qp.typ {
	case verbs.QPTypeUD, verbs.QPTypeSRD:
		mask = mask&^verbs.QPAttrAccess | verbs.QPAttrQKey
	case verbs.QPTypeDCI:
		mask &^= verbs.QPAttrAccess
	case verbs.QPTypeRawPacket:
		mask = verbs.QPAttrState | verbs.QPAttrPort
	}
	return qp.Modify(a, mask)
}

// Connect moves a QP from INIT to RTR and then to RTS. It needs the peer's QP number
// (DestQPN), the address of the peer's port (AH; its Port may be 0), the peer's initial packet
// sequence number (RQPSN), and the QP's own (SQPSN, which is the peer's RQPSN). A UD or SRD QP needs
// only SQPSN. SRD also uses RNRRetry, unless it is 0, on devices that can set it. A raw packet QP and a
// DCI need no attributes, and attr may be nil. Between Init and
// Connect, the peers exchange these values by other means, such as a TCP connection.
//
// A DCT moves to RTR only, where it gets its number. It has no peer, so AH says only how it answers:
// SGIDIndex, TrafficClass, FlowLabel and HopLimit, with Global set on Ethernet. It uses PathMTU and
// RNRTimer, too.
//
// Fields that are 0 get a default: PathMTU the port's active MTU (which must be the peer's as
// well), MaxRDAtomic and MaxDestRDAtomic 1, RNRTimer 640 µs, AckTimeout 67 ms,
// RetryCnt 7, RNRRetry 7 (without limit). Use Modify to set 0. If the second move fails, the
// QP stays in RTR.
//
// C: two calls of ibv_modify_qp
func (qp *QP) Connect(attr *verbs.QPAttr) error {
	if qp.isZero() {
		return qp.fail("connect", verbs.ErrClosed, "")
	}
	a := withDefaults(attr)
	rtr, rts := verbs.QPAttrState, verbs.QPAttrState|verbs.QPAttrSQPSN
	if qp.typ == verbs.QPTypeRC || qp.typ == verbs.QPTypeXRCTarget { // it answers requests
		rtr |= verbs.QPAttrMaxDestRDAtomic | verbs.QPAttrRNRTimer
		rts |= verbs.QPAttrAckTimeout
	}
	if qp.typ == verbs.QPTypeRC || onlySends(qp.typ) { // it repeats requests until they are answered
		rts |= verbs.QPAttrAckTimeout | verbs.QPAttrRetryCnt | verbs.QPAttrRNRRetry | verbs.QPAttrMaxQPRDAtomic
	}
	switch qp.typ {
	case verbs.QPTypeUD:
	case verbs.QPTypeSRD:
		if attr != nil && attr.RNRRetry != 0 {
			rts |= verbs.QPAttrRNRRetry
		}
	case verbs.QPTypeRawPacket:
		rts = verbs.QPAttrState
	case verbs.QPTypeDCI:
		rtr |= verbs.QPAttrPathMTU
	case verbs.QPTypeDCT:
		rtr |= verbs.QPAttrAV | verbs.QPAttrPathMTU | verbs.QPAttrRNRTimer
	default:
		rtr |= verbs.QPAttrAV | verbs.QPAttrPathMTU | verbs.QPAttrDestQPN | verbs.QPAttrRQPSN
	}
	if rtr&verbs.QPAttrPathMTU != 0 {
		if err := qp.defaultMTU(a); err != nil {
			return err
		}
	}
	a.State = verbs.QPStateRTR
	if err := qp.Modify(a, rtr); err != nil || qp.typ == verbs.QPTypeDCT {
		return err
	}
	a.State = verbs.QPStateRTS
	return qp.Modify(a, rts)
}

func (qp *QP) defaultMTU(a *verbs.QPAttr) error {
	if a.PathMTU != 0 {
		return nil
	}
	port, err := qp.dev.QueryPort(a.AH.Port)
	if err != nil {
		return err
	}
	a.PathMTU = port.ActiveMTU
	return nil
}

// withDefaults returns a copy of attr with defaults for the fields that are 0.
func withDefaults(attr *verbs.QPAttr) *verbs.QPAttr {
	var a verbs.QPAttr
	if attr != nil {
		a = *attr
	}
	for _, d := range []struct {
		field *uint8
		value uint8
	}{
		{&a.MaxRDAtomic, 1}, {&a.MaxDestRDAtomic, 1}, {&a.RetryCnt, 7}, {&a.RNRRetry, 7},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	a.AckTimeout = cmp.Or(a.AckTimeout, qpstate.AckTimeout(14))
	a.RNRTimer = cmp.Or(a.RNRTimer, qpstate.RNRTimer(12))
	a.Port = cmp.Or(a.Port, 1)
	a.AH.Port = cmp.Or(a.AH.Port, a.Port)
	return &a
}

// qpToABI converts attributes that tooWide accepts.
func qpToABI(a *verbs.QPAttr, mask verbs.QPAttrMask) abi.IbUverbsModifyQp {
	timeout, _ := qpstate.AckTimeoutCode(a.AckTimeout)
	altTimeout, _ := qpstate.AckTimeoutCode(a.AltAckTimeout)
	var rnr uint8
	if mask&verbs.QPAttrRNRTimer != 0 || a.RNRTimer != 0 {
		rnr, _ = qpstate.RNRTimerCode(a.RNRTimer)
	}
	return abi.IbUverbsModifyQp{
		Dest: pathToABI(&a.AH), AltDest: pathToABI(&a.AltAH), Qkey: a.QKey, RqPsn: a.RQPSN, SqPsn: a.SQPSN,
		DestQpNum: a.DestQPN, QpAccessFlags: uint32(a.Access), PkeyIndex: uint16(a.PKeyIndex), AltPkeyIndex: uint16(a.AltPKeyIndex),
		QpState: uint8(a.State), CurQpState: uint8(a.CurState), PathMtu: uint8(a.PathMTU),
		PathMigState: uint8(a.PathMigState), EnSqdAsyncNotify: boolByte(a.EnSQDAsyncNotify),
		MaxRdAtomic: a.MaxRDAtomic, MaxDestRdAtomic: a.MaxDestRDAtomic, MinRnrTimer: rnr,
		PortNum: uint8(a.Port), Timeout: timeout, RetryCnt: a.RetryCnt, RnrRetry: a.RNRRetry,
		AltPortNum: uint8(a.AltPort), AltTimeout: altTimeout,
	}
}

func newQPAttr(r *abi.IbUverbsQueryQpResp) *verbs.QPAttr {
	return &verbs.QPAttr{
		State: verbs.QPState(r.QpState), CurState: verbs.QPState(r.CurQpState), PathMTU: verbs.MTU(r.PathMtu),
		QKey: r.Qkey, RQPSN: r.RqPsn, SQPSN: r.SqPsn, DestQPN: r.DestQpNum, Access: verbs.Access(r.QpAccessFlags),
		AH: ahFromABI(&r.Dest), PKeyIndex: uint32(r.PkeyIndex), MaxRDAtomic: r.MaxRdAtomic, MaxDestRDAtomic: r.MaxDestRdAtomic,
		RNRTimer: qpstate.RNRTimer(r.MinRnrTimer), Port: int(r.PortNum), AckTimeout: qpstate.AckTimeout(r.Timeout), RetryCnt: r.RetryCnt, RNRRetry: r.RnrRetry,
		SQDraining: r.SqDraining != 0, AltAH: ahFromABI(&r.AltDest), AltPKeyIndex: uint32(r.AltPkeyIndex),
		AltPort: int(r.AltPortNum), AltAckTimeout: qpstate.AckTimeout(r.AltTimeout), PathMigState: verbs.PathMigState(r.PathMigState),
		Cap: verbs.QPCap{MaxSendWR: r.MaxSendWr, MaxRecvWR: r.MaxRecvWr, MaxSendSGE: r.MaxSendSge, MaxRecvSGE: r.MaxRecvSge,
			MaxInline: r.MaxInlineData},
	}
}

// Ports are int and table indexes uint32 in this API, but the kernel's structures hold some of
// them in 8 bits, and P_Key indexes in 16. A value that does not fit is refused, because its
// low bits would name another port or slot. So is a time that no QP has.

// tooWide describes the first attribute in mask that does not fit, or returns "".
func tooWide(a *verbs.QPAttr, mask verbs.QPAttrMask) string {
	for _, f := range []struct {
		bit         verbs.QPAttrMask
		name        string
		value, most int64
	}{
		{verbs.QPAttrPort, "Port", int64(a.Port), math.MaxUint8},
		{verbs.QPAttrPKeyIndex, "PKeyIndex", int64(a.PKeyIndex), math.MaxUint16},
		{verbs.QPAttrAltPath, "AltPort", int64(a.AltPort), math.MaxUint8},
		{verbs.QPAttrAltPath, "AltPKeyIndex", int64(a.AltPKeyIndex), math.MaxUint16},
	} {
		if mask&f.bit != 0 && (f.value < 0 || f.value > f.most) {
			return fmt.Sprintf("%s is %d, but the kernel takes at most %d", f.name, f.value, f.most)
		}
	}
	for _, f := range []struct {
		bit   verbs.QPAttrMask
		name  string
		value time.Duration
		most  time.Duration
	}{
		{verbs.QPAttrAckTimeout, "AckTimeout", a.AckTimeout, qpstate.MaxAckTimeout},
		{verbs.QPAttrAltPath, "AltAckTimeout", a.AltAckTimeout, qpstate.MaxAckTimeout},
		{verbs.QPAttrRNRTimer, "RNRTimer", a.RNRTimer, qpstate.MaxRNRTimer},
	} {
		if mask&f.bit != 0 && (f.value < 0 || f.value > f.most) {
			return fmt.Sprintf("%s is %v, which is not in the range from 0 to %v", f.name, f.value, f.most)
		}
	}
	if s := addressTooWide(&a.AH); mask&verbs.QPAttrAV != 0 && s != "" {
		return "AH." + s
	}
	if s := addressTooWide(&a.AltAH); mask&verbs.QPAttrAltPath != 0 && s != "" {
		return "AltAH." + s
	}
	return ""
}

// addressTooWide describes the first field of an address that does not fit, or returns "".
func addressTooWide(a *verbs.AHAttr) string {
	switch {
	case a.Port < 0 || a.Port > math.MaxUint8:
		return fmt.Sprintf("Port is %d, but the kernel takes at most %d", a.Port, math.MaxUint8)
	case a.SGIDIndex > math.MaxUint8:
		return fmt.Sprintf("SGIDIndex is %d, but the kernel takes at most %d", a.SGIDIndex, math.MaxUint8)
	}
	return ""
}

// explain returns a hint why the kernel refused a change.
func (qp *QP) explain(err error, attr *verbs.QPAttr, mask verbs.QPAttrMask) string {
	switch {
	case errors.Is(err, syscall.EPERM) && mask&verbs.QPAttrQKey != 0:
		return "a Q_Key with its top bit set needs CAP_NET_RAW"
	case mask&(verbs.QPAttrAV|verbs.QPAttrAltPath) != 0 && unreachable(err):
		return noRouteHint
	case mask&(verbs.QPAttrAV|verbs.QPAttrAltPath) != 0 && errors.Is(err, errNoData):
		return emptySlotHint
	case !errors.Is(err, syscall.EINVAL):
		return ""
	}
	from, draining := qp.stateNow()
	if mask&verbs.QPAttrCurState != 0 {
		from = attr.CurState
	}
	to := attr.State
	if mask&verbs.QPAttrState == 0 {
		to = from
	}
	if qp.dev.info.NodeType == verbs.NodeRNIC && (to == verbs.QPStateRTR || to == verbs.QPStateRTS) {
		return fmt.Sprintf("an iWARP QP enters %v only when it is connected: use package rdmacm", to)
	}
	if why := qpstate.Explain(qp.typ, from, to, mask); why != "" {
		return why
	}
	if draining && mask&verbs.QPAttrState != 0 {
		return "the send queue is still draining: wait for verbs.EventSQDrained (EnSQDAsyncNotify)"
	}
	return qp.explainValues(attr, mask)
}

// stateNow returns the kernel's state of the QP, because the kernel also moves QPs by
// itself. If the kernel does not report the state (siw before Linux 6.12), stateNow returns
// the state that this process set.
func (qp *QP) stateNow() (s verbs.QPState, draining bool) {
	attr, err := qp.issueQuery()
	if err != nil || attr.State == verbs.QPStateReset {
		return verbs.QPState(qp.state.Load()), false
	}
	return attr.State, attr.SQDraining
}

// explainValues names an attribute that is out of range, or those that may be, for a
// transition that allows all attributes in mask.
func (qp *QP) explainValues(a *verbs.QPAttr, mask verbs.QPAttrMask) string {
	for _, v := range []struct {
		bit  verbs.QPAttrMask
		bad  bool
		hint string
	}{
		{verbs.QPAttrPort, a.Port == 0, "Port is numbered from 1"},
		{verbs.QPAttrAV, a.AH.Port == 0, "AH.Port must be the QP's port"},
		{verbs.QPAttrAltPath, a.AltPort == 0 || a.AltPort != a.AltAH.Port, "AltPort is numbered from 1, and AltAH.Port must be the same"},
		{verbs.QPAttrAV, !a.AH.Global, "RoCE needs a Global AH, with DGID and SGIDIndex"},
		{verbs.QPAttrRetryCnt, a.RetryCnt > 7, "RetryCnt is at most 7"},
		{verbs.QPAttrRNRRetry, a.RNRRetry > 7, "RNRRetry is at most 7"},
		{verbs.QPAttrPathMTU, a.PathMTU.Bytes() == 0, "PathMTU is not one of MTU256 to MTU4096"},
	} {
		if mask&v.bit != 0 && v.bad {
			return v.hint
		}
	}
	for _, v := range []struct {
		bit   verbs.QPAttrMask
		field string
		ah    *verbs.AHAttr
	}{{verbs.QPAttrAV, "AH", &a.AH}, {verbs.QPAttrAltPath, "AltAH", &a.AltAH}} {
		if mask&v.bit == 0 {
			continue
		}
		if why := qp.dev.families(v.ah); why != "" {
			return v.field + "." + why
		}
	}
	var suspects []string
	for _, v := range []struct {
		bit  verbs.QPAttrMask
		must string
	}{
		{verbs.QPAttrPort, "Port (DeviceInfo.Ports)"},
		{verbs.QPAttrAV, "AH.Port (the QP's), AH.SGIDIndex (a used slot of the port's GID table, of the address family of DGID, see Device.ChooseGID)"},
		{verbs.QPAttrPathMTU, "PathMTU (up to PortAttr.MaxMTU)"},
		{verbs.QPAttrMaxQPRDAtomic, "MaxRDAtomic (up to DeviceAttr.MaxQPRDAtom)"},
		{verbs.QPAttrMaxDestRDAtomic, "MaxDestRDAtomic (up to DeviceAttr.MaxQPRDAtom)"},
	} {
		if mask&v.bit != 0 {
			suspects = append(suspects, v.must)
		}
	}
	if suspects == nil {
		return ""
	}
	return "check " + strings.Join(suspects, ", ")
}

// unreachable reports whether the kernel found no route to an IP address.
func unreachable(err error) bool {
	for _, errno := range []syscall.Errno{syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.ETIMEDOUT, syscall.EADDRNOTAVAIL} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

const noRouteHint = "no route to DGID from the network device of SGIDIndex: is the address right, and of the same family, and does the peer answer (`ip neigh`)?"
