package uverbs

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strings"
	"syscall"

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
		if err := modify(attr, mask); err != nil {
			return qp.fail("modify", err, qp.explain(err, attr, mask))
		}
		return nil
	})
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
	if err := qp.modify(a, mask, nil); err != nil {
		return err
	}
	if mask&verbs.QPAttrState != 0 && a.State == verbs.QPStateErr {
		qp.enteredErr()
	}
	return nil
}

// modify modifies the QP through its provider if that is a driver.QPModifier, or else
// directly. It calls then, which may be nil, after each call of the kernel that succeeds. The
// caller holds both queues.
func (qp *QP) modify(a *verbs.QPAttr, mask verbs.QPAttrMask, then func()) error {
	x := &modification{qp: qp, attr: a, mask: mask, then: then, call: call{memory: qp.memory, again: true}}
	x.issue = x.issueModify
	x.request = driver.ModifyQP{Call: &x.call, From: verbs.QPState(qp.state.Load()), Attr: a, Mask: mask}
	if x.request.To = x.request.From; mask&verbs.QPAttrState != 0 {
		x.request.To = a.State
	}
	if m, ok := qp.ring.(driver.QPModifier); ok {
		return m.Modify(&x.request)
	}
	return x.Do(driver.UHW{})
}

// modification holds everything that one call of modify needs in one allocation, because a
// QP is modified three or four times while it connects.
type modification struct {
	call
	request driver.ModifyQP
	in      abi.IbUverbsModifyQp
	qp      *QP
	attr    *verbs.QPAttr
	mask    verbs.QPAttrMask
	then    func()
}

// reset moves the QP to RESET and begins a new generation. Posts wait meanwhile: a work
// request that reached a queue while the kernel empties it would be left for the next
// generation. The CQs are cleaned of the old generation's completions, so that completions
// that arrive later belong to the new one. Once the kernel has moved the QP, the new
// generation has begun, even if the provider fails after that.
func (qp *QP) reset(a *verbs.QPAttr, mask verbs.QPAttrMask) error {
	c := cqCleanup{qp: qp}
	err := qp.resetHeld(a, mask, &c)
	handleFailures(c.failures)
	return err
}

func (qp *QP) resetHeld(a *verbs.QPAttr, mask verbs.QPAttrMask, c *cqCleanup) error {
	qp.sq.Lock()
	defer qp.sq.Unlock()
	qp.rq.Lock()
	defer qp.rq.Unlock()
	defer c.end()
	err := qp.modify(a, mask, c.begin)
	if c.begun {
		qp.generation.Add(1)
		qp.setSlowPath()
	}
	return err
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
	x.in = qpToABI(x.attr)
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

// Query asks the kernel for the QP's attributes. Linux 6.1's siw always reports the state
// RESET.
//
// C: ibv_query_qp
func (qp *QP) Query() (attr *verbs.QPAttr, err error) {
	err = qp.using("query", func() error {
		if attr, err = qp.issueQuery(); err != nil {
			return qp.fail("query", err, "")
		}
		return nil
	})
	return attr, err
}

func (qp *QP) issueQuery() (*verbs.QPAttr, error) {
	var resp abi.IbUverbsQueryQpResp
	in := &abi.IbUverbsQueryQp{QpHandle: qp.handle, AttrMask: uint32(verbs.QPAttrDestQPN<<1 - 1)}
	r := writeCommand(qp.dev, abi.IB_USER_VERBS_CMD_QUERY_QP, in)
	defer r.Free()
	ioctl.Out(r, abi.UVERBS_ATTR_CORE_OUT, &resp)
	if err := r.Do(qp.dev.file); err != nil {
		return nil, err
	}
	return newQPAttr(&resp), nil
}

// Init moves a QP from RESET to INIT, where receives can be posted. It uses Port (0 means 1),
// PKeyIndex and Access of attr. For a UD QP it uses QKey instead of Access, and for a raw
// packet QP it uses Port only. Init and then [QP.Connect] connect a QP without a connection
// manager. Package rdmacm does both itself.
func (qp *QP) Init(attr *verbs.QPAttr) error {
	a := withDefaults(attr)
	a.State = verbs.QPStateInit
	mask := verbs.QPAttrState | verbs.QPAttrPKeyIndex | verbs.QPAttrPort | verbs.QPAttrAccess
	switch qp.typ {
	case verbs.QPTypeUD:
		mask = mask&^verbs.QPAttrAccess | verbs.QPAttrQKey
	case verbs.QPTypeRawPacket:
		mask = verbs.QPAttrState | verbs.QPAttrPort
	}
	return qp.Modify(a, mask)
}

// Connect moves a QP from INIT to RTR and then to RTS. It needs the peer's QP number
// (DestQPN), the address of the peer's port (AH; its Port may be 0), the peer's initial packet
// sequence number (RQPSN), and the QP's own (SQPSN, which is the peer's RQPSN). A UD QP needs
// only SQPSN. A raw packet QP needs no attributes, and attr may be nil. Between Init and
// Connect, the peers exchange these values by other means, such as a TCP connection.
//
// Fields that are 0 get a default: PathMTU the port's active MTU (which must be the peer's as
// well), MaxRDAtomic and MaxDestRDAtomic 1, MinRNRTimer 12 (0.64 ms), Timeout 14 (67 ms),
// RetryCnt 7, RNRRetry 7 (retry forever). Use Modify to set 0. If the second move fails, the
// QP stays in RTR.
//
// C: two calls of ibv_modify_qp
func (qp *QP) Connect(attr *verbs.QPAttr) error {
	a := withDefaults(attr)
	rtr, rts := verbs.QPAttrState, verbs.QPAttrState|verbs.QPAttrSQPSN
	if qp.typ == verbs.QPTypeRC || qp.typ == verbs.QPTypeXRCTarget { // it answers requests
		rtr |= verbs.QPAttrMaxDestRDAtomic | verbs.QPAttrMinRNRTimer
		rts |= verbs.QPAttrTimeout
	}
	if qp.typ == verbs.QPTypeRC || qp.typ == verbs.QPTypeXRCInitiator { // it repeats requests until they are answered
		rts |= verbs.QPAttrTimeout | verbs.QPAttrRetryCnt | verbs.QPAttrRNRRetry | verbs.QPAttrMaxQPRDAtomic
	}
	switch qp.typ {
	case verbs.QPTypeUD:
	case verbs.QPTypeRawPacket:
		rts = verbs.QPAttrState
	default:
		rtr |= verbs.QPAttrAV | verbs.QPAttrPathMTU | verbs.QPAttrDestQPN | verbs.QPAttrRQPSN
		if err := qp.defaultMTU(a); err != nil {
			return err
		}
	}
	a.State = verbs.QPStateRTR
	if err := qp.Modify(a, rtr); err != nil {
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
		{&a.MaxRDAtomic, 1}, {&a.MaxDestRDAtomic, 1}, {&a.MinRNRTimer, 12}, {&a.Timeout, 14},
		{&a.RetryCnt, 7}, {&a.RNRRetry, 7},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	a.Port = cmp.Or(a.Port, 1)
	a.AH.Port = cmp.Or(a.AH.Port, a.Port)
	return &a
}

func qpToABI(a *verbs.QPAttr) abi.IbUverbsModifyQp {
	return abi.IbUverbsModifyQp{
		Dest: pathToABI(&a.AH), AltDest: pathToABI(&a.AltAH), Qkey: a.QKey, RqPsn: a.RQPSN, SqPsn: a.SQPSN,
		DestQpNum: a.DestQPN, QpAccessFlags: uint32(a.Access), PkeyIndex: uint16(a.PKeyIndex), AltPkeyIndex: uint16(a.AltPKeyIndex),
		QpState: uint8(a.State), CurQpState: uint8(a.CurState), PathMtu: uint8(a.PathMTU),
		PathMigState: uint8(a.PathMigState), EnSqdAsyncNotify: boolByte(a.EnSQDAsyncNotify),
		MaxRdAtomic: a.MaxRDAtomic, MaxDestRdAtomic: a.MaxDestRDAtomic, MinRnrTimer: a.MinRNRTimer,
		PortNum: uint8(a.Port), Timeout: a.Timeout, RetryCnt: a.RetryCnt, RnrRetry: a.RNRRetry,
		AltPortNum: uint8(a.AltPort), AltTimeout: a.AltTimeout,
	}
}

func newQPAttr(r *abi.IbUverbsQueryQpResp) *verbs.QPAttr {
	return &verbs.QPAttr{
		State: verbs.QPState(r.QpState), CurState: verbs.QPState(r.CurQpState), PathMTU: verbs.MTU(r.PathMtu),
		QKey: r.Qkey, RQPSN: r.RqPsn, SQPSN: r.SqPsn, DestQPN: r.DestQpNum, Access: verbs.Access(r.QpAccessFlags),
		AH: ahFromABI(&r.Dest), PKeyIndex: uint32(r.PkeyIndex), MaxRDAtomic: r.MaxRdAtomic, MaxDestRDAtomic: r.MaxDestRdAtomic,
		MinRNRTimer: r.MinRnrTimer, Port: uint32(r.PortNum), Timeout: r.Timeout, RetryCnt: r.RetryCnt, RNRRetry: r.RnrRetry,
		SQDraining: r.SqDraining != 0, AltAH: ahFromABI(&r.AltDest), AltPKeyIndex: uint32(r.AltPkeyIndex),
		AltPort: uint32(r.AltPortNum), AltTimeout: r.AltTimeout, PathMigState: verbs.PathMigState(r.PathMigState),
		Cap: verbs.QPCap{MaxSendWR: r.MaxSendWr, MaxRecvWR: r.MaxRecvWr, MaxSendSGE: r.MaxSendSge, MaxRecvSGE: r.MaxRecvSge,
			MaxInline: r.MaxInlineData},
	}
}

// Ports and table indexes are uint32 in this API, but the kernel's structures hold some of
// them in 8 bits, and P_Key indexes in 16. A value that does not fit is refused, because its
// low bits would name another port or slot.

// tooWide describes the first attribute in mask that does not fit, or returns "".
func tooWide(a *verbs.QPAttr, mask verbs.QPAttrMask) string {
	for _, f := range []struct {
		bit         verbs.QPAttrMask
		name        string
		value, most uint32
	}{
		{verbs.QPAttrPort, "Port", a.Port, math.MaxUint8},
		{verbs.QPAttrPKeyIndex, "PKeyIndex", a.PKeyIndex, math.MaxUint16},
		{verbs.QPAttrAltPath, "AltPort", a.AltPort, math.MaxUint8},
		{verbs.QPAttrAltPath, "AltPKeyIndex", a.AltPKeyIndex, math.MaxUint16},
	} {
		if mask&f.bit != 0 && f.value > f.most {
			return fmt.Sprintf("%s is %d, but the kernel takes at most %d", f.name, f.value, f.most)
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
	case a.Port > math.MaxUint8:
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
		return "the send queue is still draining: wait for EventSQDrained (EnSQDAsyncNotify)"
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
		{verbs.QPAttrTimeout, a.Timeout > 31, "Timeout is at most 31"},
		{verbs.QPAttrRetryCnt, a.RetryCnt > 7, "RetryCnt is at most 7"},
		{verbs.QPAttrRNRRetry, a.RNRRetry > 7, "RNRRetry is at most 7"},
		{verbs.QPAttrMinRNRTimer, a.MinRNRTimer > 31, "MinRNRTimer is at most 31"},
		{verbs.QPAttrPathMTU, a.PathMTU.Bytes() == 0, "PathMTU is not one of MTU256 to MTU4096"},
	} {
		if mask&v.bit != 0 && v.bad {
			return v.hint
		}
	}
	var suspects []string
	for _, v := range []struct {
		bit  verbs.QPAttrMask
		must string
	}{
		{verbs.QPAttrPort, "Port (DeviceInfo.Ports)"},
		{verbs.QPAttrAV, "AH.Port (the QP's), AH.SGIDIndex (a used slot of the port's GID table, see Device.ChooseGID)"},
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
