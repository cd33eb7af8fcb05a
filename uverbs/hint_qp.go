package uverbs

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/goverbs/goverbs/internal/qpstate"
	"github.com/goverbs/goverbs/verbs"
)

// explain tells why the kernel refused a change.
func (qp *QP) explain(err error, attr *verbs.QPAttr, mask verbs.QPAttrMask) string {
	switch {
	case errors.Is(err, syscall.EPERM) && mask&verbs.QPAttrQKey != 0:
		return "a Q_Key with its top bit set needs CAP_NET_RAW"
	case mask&(verbs.QPAttrAV|verbs.QPAttrAltPath) != 0 && unreachable(err):
		return noWayHint
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
		return fmt.Sprintf("an iWARP QP goes to %v only by connecting it: use package rdmacm", to)
	}
	if why := qpstate.Explain(qp.typ, from, to, mask); why != "" {
		return why
	}
	if draining && mask&verbs.QPAttrState != 0 {
		return "the send queue is still draining: wait for EventSQDrained (EnSQDAsyncNotify)"
	}
	return qp.explainValues(attr, mask)
}

// stateNow is the QP's state as the kernel sees it, because the kernel moves QPs too.
// Where the kernel can't tell, or tells nothing (siw before Linux 6.12), it is the
// state that this process set.
func (qp *QP) stateNow() (s verbs.QPState, draining bool) {
	attr, err := qp.issueQuery()
	if err != nil || attr.State == verbs.QPStateReset {
		return verbs.QPState(qp.state.Load()), false
	}
	return attr.State, attr.SQDraining
}

// explainValues finds what is out of range in attributes that the transition
// allows, or names what may be.
func (qp *QP) explainValues(a *verbs.QPAttr, mask verbs.QPAttrMask) string {
	for _, v := range []struct {
		bit  verbs.QPAttrMask
		bad  bool
		hint string
	}{
		{verbs.QPAttrPort, a.Port == 0, "Port counts from 1"},
		{verbs.QPAttrAV, a.AH.Port == 0, "AH.Port must be the QP's port"},
		{verbs.QPAttrAltPath, a.AltPort == 0 || a.AltPort != a.AltAH.Port, "AltPort counts from 1, and AltAH.Port must be the same"},
		{verbs.QPAttrAV, !a.AH.Global, "RoCE needs a Global AH: DGID and SGIDIndex"},
		{verbs.QPAttrTimeout, a.Timeout > 31, "Timeout is at most 31"},
		{verbs.QPAttrRetryCnt, a.RetryCnt > 7, "RetryCnt is at most 7"},
		{verbs.QPAttrRNRRetry, a.RNRRetry > 7, "RNRRetry is at most 7"},
		{verbs.QPAttrMinRNRTimer, a.MinRNRTimer > 31, "MinRNRTimer is at most 31"},
		{verbs.QPAttrPathMTU, a.PathMTU.Bytes() == 0, "PathMTU is none of MTU256 to MTU4096"},
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

// unreachable tells that the kernel looked for the way to an IP address and
// found none.
func unreachable(err error) bool {
	for _, errno := range []syscall.Errno{syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.ETIMEDOUT, syscall.EADDRNOTAVAIL} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

const noWayHint = "no way to DGID from the network device behind SGIDIndex: is the address right, and of the same family, and does the peer answer (`ip neigh`)?"
