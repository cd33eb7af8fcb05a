package uverbs_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/uverbs"
)

// TestExplainModify has the kernel refuse changes of a QP that is in a state of
// the kernel's choice.
func TestExplainModify(t *testing.T) {
	k := fakeverbs.New(uint32(uverbs.DriverHNS))
	var answer abi.IbUverbsQueryQpResp
	k.Tamper = func(call string, r *ioctl.Request) {
		if call == "QUERY_QP" {
			ioctl.Answer(r, abi.UVERBS_ATTR_CORE_OUT, &answer)
		}
	}
	qp := openBare(t, k, uverbs.QPTypeUC)
	good := uverbs.AHAttr{Global: true, Port: 1}
	for _, c := range []struct {
		from     uverbs.QPState
		draining uint8
		attr     uverbs.QPAttr
		mask     uverbs.QPAttrMask
		errno    syscall.Errno
		want     string
	}{
		{uverbs.QPStateErr, 0, uverbs.QPAttr{State: uverbs.QPStateRTS}, uverbs.QPAttrState, syscall.EINVAL, "no UC QP goes from ERR to RTS"},
		{uverbs.QPStateSQE, 0, uverbs.QPAttr{State: uverbs.QPStateRTS}, uverbs.QPAttrState | uverbs.QPAttrAltPath, syscall.EINVAL, "SQE to RTS of a UC QP can't take AltPath"},
		{uverbs.QPStateRTS, 0, uverbs.QPAttr{State: uverbs.QPStateRTS, CurState: uverbs.QPStateInit}, uverbs.QPAttrState | uverbs.QPAttrCurState, syscall.EINVAL, "no UC QP goes from INIT to RTS; from INIT the next is RTR"},
		{uverbs.QPStateSQD, 1, uverbs.QPAttr{State: uverbs.QPStateRTS}, uverbs.QPAttrState, syscall.EINVAL, "still draining"},
		{uverbs.QPStateSQD, 1, uverbs.QPAttr{PKeyIndex: 9}, uverbs.QPAttrPKeyIndex, syscall.EINVAL, "invalid argument"},
		{uverbs.QPStateSQD, 0, uverbs.QPAttr{}, uverbs.QPAttrAV, syscall.EINVAL, "AH.Port must be"},
		{uverbs.QPStateSQD, 0, uverbs.QPAttr{AH: uverbs.AHAttr{Port: 1}}, uverbs.QPAttrAV, syscall.EINVAL, "needs a Global AH"},
		{uverbs.QPStateSQD, 0, uverbs.QPAttr{AH: good}, uverbs.QPAttrAV, syscall.EINVAL, "check AH.Port"},
		{uverbs.QPStateRTS, 0, uverbs.QPAttr{AltPort: 1, AltAH: uverbs.AHAttr{Port: 2}}, uverbs.QPAttrAltPath, syscall.EINVAL, "AltAH.Port must be the same"},
		{uverbs.QPStateInit, 0, uverbs.QPAttr{State: uverbs.QPStateRTR, AH: good, PathMTU: 6}, uverbs.QPAttrState | uverbs.QPAttrAV | uverbs.QPAttrPathMTU | uverbs.QPAttrDestQPN | uverbs.QPAttrRQPSN, syscall.EINVAL, "none of MTU256 to MTU4096"},
		{uverbs.QPStateInit, 0, uverbs.QPAttr{}, uverbs.QPAttrPort, syscall.EINVAL, "Port counts from 1"},
		{uverbs.QPStateInit, 0, uverbs.QPAttr{QKey: 1 << 31}, uverbs.QPAttrQKey, syscall.EPERM, "CAP_NET_RAW"},
		{uverbs.QPStateSQD, 0, uverbs.QPAttr{AH: good}, uverbs.QPAttrAV, syscall.EHOSTUNREACH, "no way to DGID"},
		{uverbs.QPStateRTS, 0, uverbs.QPAttr{}, uverbs.QPAttrAccess, syscall.EIO, "input/output error"},
	} {
		answer = abi.IbUverbsQueryQpResp{QpState: uint8(c.from), SqDraining: c.draining}
		k.Fail("MODIFY_QP", 0, c.errno)
		err := qp.Modify(&c.attr, c.mask)
		if !errors.Is(err, c.errno) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v with %v: %v, want %q", c.from, c.mask, err, c.want)
		}
	}
}

// TestQPAttrRoundTrip sends every attribute and reads it back.
func TestQPAttrRoundTrip(t *testing.T) {
	want := uverbs.QPAttr{
		State: uverbs.QPStateSQD, CurState: uverbs.QPStateRTS, PathMTU: 3, QKey: 4, RQPSN: 5, SQPSN: 6, DestQPN: 7, Access: 8,
		AH: uverbs.AHAttr{DGID: uverbs.GID{9}, Port: 10}, PKeyIndex: 11, MaxRDAtomic: 12, MaxDestRDAtomic: 13, MinRNRTimer: 14,
		Port: 15, Timeout: 16, RetryCnt: 17, RNRRetry: 18, EnSQDAsyncNotify: true, AltAH: uverbs.AHAttr{DGID: uverbs.GID{19}, Port: 20},
		AltPKeyIndex: 21, AltPort: 22, AltTimeout: 23, PathMigState: uverbs.PathMigArmed,
	}
	k := fakeverbs.New(uint32(uverbs.DriverHNS))
	var in abi.IbUverbsModifyQp
	k.Tamper = func(call string, r *ioctl.Request) {
		switch call {
		case "MODIFY_QP":
			ioctl.Argument(r, abi.UVERBS_ATTR_CORE_IN, &in)
		case "QUERY_QP":
			ioctl.Answer(r, abi.UVERBS_ATTR_CORE_OUT, &abi.IbUverbsQueryQpResp{
				Dest: in.Dest, AltDest: in.AltDest, QpState: in.QpState, CurQpState: in.CurQpState, PathMtu: in.PathMtu,
				Qkey: in.Qkey, RqPsn: in.RqPsn, SqPsn: in.SqPsn, DestQpNum: in.DestQpNum, QpAccessFlags: in.QpAccessFlags,
				PkeyIndex: in.PkeyIndex, AltPkeyIndex: in.AltPkeyIndex, MaxRdAtomic: in.MaxRdAtomic,
				MaxDestRdAtomic: in.MaxDestRdAtomic, MinRnrTimer: in.MinRnrTimer, PortNum: in.PortNum, Timeout: in.Timeout,
				RetryCnt: in.RetryCnt, RnrRetry: in.RnrRetry, AltPortNum: in.AltPortNum, AltTimeout: in.AltTimeout,
				PathMigState: in.PathMigState, SqDraining: in.EnSqdAsyncNotify,
				MaxSendWr: 24, MaxRecvWr: 25, MaxSendSge: 26, MaxRecvSge: 27, MaxInlineData: 28,
			})
		}
	}
	qp := openBare(t, k, uverbs.QPTypeDriver) // which no table of the kernel's holds
	if err := qp.Modify(&want, uverbs.QPAttrState); err != nil {
		t.Fatal(err)
	}
	want.EnSQDAsyncNotify, want.SQDraining = false, true
	want.Cap = uverbs.QPCap{MaxSendWR: 24, MaxRecvWR: 25, MaxSendSGE: 26, MaxRecvSGE: 27, MaxInline: 28}
	if got, err := qp.Query(); err != nil || *got != want {
		t.Errorf("%v\n got %+v\nwant %+v", err, got, want)
	}
}

// TestRateLimit goes by another command, which this kernel lacks.
func TestRateLimit(t *testing.T) {
	k := fakeverbs.New(uint32(uverbs.DriverHNS))
	qp := openBare(t, k, uverbs.QPTypeRC)
	err := qp.Modify(&uverbs.QPAttr{RateLimit: 1}, uverbs.QPAttrRateLimit)
	if !errors.Is(err, uverbs.ErrNotSupported) || k.Calls("MODIFY_QP") != 0 {
		t.Error(err)
	}
}
