package uverbs_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/verbs"
)

// TestExplainModify has the kernel refuse changes of a QP that is in a state of
// the kernel's choice.
func TestExplainModify(t *testing.T) {
	k := fakeverbs.New(uint32(verbs.DriverHNS))
	var answer abi.IbUverbsQueryQpResp
	k.Tamper = func(call string, r *ioctl.Request) {
		if call == "QUERY_QP" {
			ioctl.Answer(r, abi.UVERBS_ATTR_CORE_OUT, &answer)
		}
	}
	qp := openBare(t, k, verbs.QPTypeUC)
	good := verbs.AHAttr{Global: true, Port: 1}
	for _, c := range []struct {
		from     verbs.QPState
		draining uint8
		attr     verbs.QPAttr
		mask     verbs.QPAttrMask
		errno    syscall.Errno
		want     string
	}{
		{verbs.QPStateErr, 0, verbs.QPAttr{State: verbs.QPStateRTS}, verbs.QPAttrState, syscall.EINVAL, "no UC QP goes from ERR to RTS"},
		{verbs.QPStateSQE, 0, verbs.QPAttr{State: verbs.QPStateRTS}, verbs.QPAttrState | verbs.QPAttrAltPath, syscall.EINVAL, "SQE to RTS of a UC QP can't take AltPath"},
		{verbs.QPStateRTS, 0, verbs.QPAttr{State: verbs.QPStateRTS, CurState: verbs.QPStateInit}, verbs.QPAttrState | verbs.QPAttrCurState, syscall.EINVAL, "no UC QP goes from INIT to RTS; from INIT the next is RTR"},
		{verbs.QPStateSQD, 1, verbs.QPAttr{State: verbs.QPStateRTS}, verbs.QPAttrState, syscall.EINVAL, "still draining"},
		{verbs.QPStateSQD, 1, verbs.QPAttr{PKeyIndex: 9}, verbs.QPAttrPKeyIndex, syscall.EINVAL, "invalid argument"},
		{verbs.QPStateSQD, 0, verbs.QPAttr{}, verbs.QPAttrAV, syscall.EINVAL, "AH.Port must be"},
		{verbs.QPStateSQD, 0, verbs.QPAttr{AH: verbs.AHAttr{Port: 1}}, verbs.QPAttrAV, syscall.EINVAL, "needs a Global AH"},
		{verbs.QPStateSQD, 0, verbs.QPAttr{AH: good}, verbs.QPAttrAV, syscall.EINVAL, "check AH.Port"},
		{verbs.QPStateRTS, 0, verbs.QPAttr{AltPort: 1, AltAH: verbs.AHAttr{Port: 2}}, verbs.QPAttrAltPath, syscall.EINVAL, "AltAH.Port must be the same"},
		{verbs.QPStateInit, 0, verbs.QPAttr{State: verbs.QPStateRTR, AH: good, PathMTU: 6}, verbs.QPAttrState | verbs.QPAttrAV | verbs.QPAttrPathMTU | verbs.QPAttrDestQPN | verbs.QPAttrRQPSN, syscall.EINVAL, "none of MTU256 to MTU4096"},
		{verbs.QPStateInit, 0, verbs.QPAttr{}, verbs.QPAttrPort, syscall.EINVAL, "Port counts from 1"},
		{verbs.QPStateInit, 0, verbs.QPAttr{QKey: 1 << 31}, verbs.QPAttrQKey, syscall.EPERM, "CAP_NET_RAW"},
		{verbs.QPStateSQD, 0, verbs.QPAttr{AH: good}, verbs.QPAttrAV, syscall.EHOSTUNREACH, "no way to DGID"},
		{verbs.QPStateRTS, 0, verbs.QPAttr{}, verbs.QPAttrAccess, syscall.EIO, "input/output error"},
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
	want := verbs.QPAttr{
		State: verbs.QPStateSQD, CurState: verbs.QPStateRTS, PathMTU: 3, QKey: 4, RQPSN: 5, SQPSN: 6, DestQPN: 7, Access: 8,
		AH: verbs.AHAttr{DGID: verbs.GID{9}, Port: 10}, PKeyIndex: 11, MaxRDAtomic: 12, MaxDestRDAtomic: 13, MinRNRTimer: 14,
		Port: 15, Timeout: 16, RetryCnt: 17, RNRRetry: 18, EnSQDAsyncNotify: true, AltAH: verbs.AHAttr{DGID: verbs.GID{19}, Port: 20},
		AltPKeyIndex: 21, AltPort: 22, AltTimeout: 23, PathMigState: verbs.PathMigArmed,
	}
	k := fakeverbs.New(uint32(verbs.DriverHNS))
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
	qp := openBare(t, k, verbs.QPTypeDriver) // which no table of the kernel's holds
	if err := qp.Modify(&want, verbs.QPAttrState); err != nil {
		t.Fatal(err)
	}
	want.EnSQDAsyncNotify, want.SQDraining = false, true
	want.Cap = verbs.QPCap{MaxSendWR: 24, MaxRecvWR: 25, MaxSendSGE: 26, MaxRecvSGE: 27, MaxInline: 28}
	if got, err := qp.Query(); err != nil || *got != want {
		t.Errorf("%v\n got %+v\nwant %+v", err, got, want)
	}
}

// TestRateLimit goes by another command, which this kernel lacks.
func TestRateLimit(t *testing.T) {
	k := fakeverbs.New(uint32(verbs.DriverHNS))
	qp := openBare(t, k, verbs.QPTypeRC)
	err := qp.Modify(&verbs.QPAttr{RateLimit: 1}, verbs.QPAttrRateLimit)
	if !errors.Is(err, verbs.ErrNotSupported) || k.Calls("MODIFY_QP") != 0 {
		t.Error(err)
	}
}
