package uverbs_test

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/qpstate"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestExplainModify checks the errors of changes that the kernel refuses, for each state of the QP
// that it reports.
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
		{verbs.QPStateInit, 0, verbs.QPAttr{State: verbs.QPStateRTR, AH: good, PathMTU: 6}, verbs.QPAttrState | verbs.QPAttrAV | verbs.QPAttrPathMTU | verbs.QPAttrDestQPN | verbs.QPAttrRQPSN, syscall.EINVAL, "not one of MTU256 to MTU4096"},
		{verbs.QPStateInit, 0, verbs.QPAttr{}, verbs.QPAttrPort, syscall.EINVAL, "Port is numbered from 1"},
		{verbs.QPStateInit, 0, verbs.QPAttr{QKey: 1 << 31}, verbs.QPAttrQKey, syscall.EPERM, "CAP_NET_RAW"},
		{verbs.QPStateSQD, 0, verbs.QPAttr{AH: good}, verbs.QPAttrAV, syscall.EHOSTUNREACH, "no route to DGID"},
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
		AH: verbs.AHAttr{DGID: verbs.GID{9}, Port: 10}, PKeyIndex: 11, MaxRDAtomic: 12, MaxDestRDAtomic: 13, RNRTimer: qpstate.RNRTimer(14),
		Port: 15, AckTimeout: qpstate.AckTimeout(16), RetryCnt: 17, RNRRetry: 18, EnSQDAsyncNotify: true, AltAH: verbs.AHAttr{DGID: verbs.GID{19}, Port: 20},
		AltPKeyIndex: 21, AltPort: 22, AltAckTimeout: qpstate.AckTimeout(23), PathMigState: verbs.PathMigArmed,
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
	if err := qp.Modify(&want, verbs.QPAttrState|verbs.QPAttrRNRTimer); err != nil {
		t.Fatal(err)
	}
	want.EnSQDAsyncNotify, want.SQDraining = false, true
	want.Cap = verbs.QPCap{MaxSendWR: 24, MaxRecvWR: 25, MaxSendSGE: 26, MaxRecvSGE: 27, MaxInline: 28}
	if got, err := qp.Query(); err != nil || *got != want {
		t.Errorf("%v\n got %+v\nwant %+v", err, got, want)
	}
}

// TestRateLimit needs another command, which this kernel lacks.
func TestRateLimit(t *testing.T) {
	k := fakeverbs.New(uint32(verbs.DriverHNS))
	qp := openBare(t, k, verbs.QPTypeRC)
	err := qp.Modify(&verbs.QPAttr{RateLimit: 1}, verbs.QPAttrRateLimit)
	if !errors.Is(err, verbs.ErrNotSupported) || k.Calls("MODIFY_QP") != 0 {
		t.Error(err)
	}
}

// TestTooWide checks that values that do not fit into the kernel's fields are refused, not truncated.
func TestTooWide(t *testing.T) {
	w := newRoCE(t)
	for want, c := range map[string]struct {
		attr verbs.QPAttr
		mask verbs.QPAttrMask
	}{
		"Port is 257, but the kernel takes at most 255":             {verbs.QPAttr{Port: 257}, verbs.QPAttrPort},
		"PKeyIndex is 65536, but the kernel takes at most 65535":    {verbs.QPAttr{PKeyIndex: 1 << 16}, verbs.QPAttrPKeyIndex},
		"AltPort is 257, but the kernel takes at most 255":          {verbs.QPAttr{AltPort: 257}, verbs.QPAttrAltPath},
		"AltPKeyIndex is 65536, but the kernel takes at most 65535": {verbs.QPAttr{AltPKeyIndex: 1 << 16}, verbs.QPAttrAltPath},
		"AH.Port is 257, but the kernel takes at most 255":          {verbs.QPAttr{AH: verbs.AHAttr{Port: 257}}, verbs.QPAttrAV},
		"AH.SGIDIndex is 256, but the kernel takes at most 255":     {verbs.QPAttr{AH: verbs.AHAttr{SGIDIndex: 256}}, verbs.QPAttrAV},
		"AckTimeout is -1ns, which is not in the range":             {verbs.QPAttr{AckTimeout: -1}, verbs.QPAttrAckTimeout},
		"AltAckTimeout is 3h0m0s, which is not in the range":        {verbs.QPAttr{AltAckTimeout: 3 * time.Hour}, verbs.QPAttrAltPath},
		"RNRTimer is 1s, which is not in the range":                 {verbs.QPAttr{RNRTimer: time.Second}, verbs.QPAttrRNRTimer},
		"AH.Port is -1, but the kernel takes at most 255":           {verbs.QPAttr{AH: verbs.AHAttr{Port: -1}}, verbs.QPAttrAV},
		"Port is -255, but the kernel takes at most 255":            {verbs.QPAttr{Port: -255}, verbs.QPAttrPort},
		"AltAH.Port is 257, but the kernel takes at most 255":       {verbs.QPAttr{AltAH: verbs.AHAttr{Port: 257}}, verbs.QPAttrAltPath},
		"AltAH.SGIDIndex is 511, but the kernel takes at most 255":  {verbs.QPAttr{AltAH: verbs.AHAttr{SGIDIndex: 511}}, verbs.QPAttrAltPath},
	} {
		if err := w.qp.Modify(&c.attr, c.mask); !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if err := w.qp.Modify(&c.attr, 0); err != nil && strings.Contains(err.Error(), want) {
			t.Errorf("%s, which the mask does not name: %v", want, err)
		}
	}
	wide := *address
	wide.SGIDIndex += 256
	if _, err := w.pd.CreateAH(&wide); !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "SGIDIndex is 257") {
		t.Error(err)
	}
	wide = *address
	wide.Port += 256
	if _, err := w.pd.CreateAH(&wide); !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "Port is 257") {
		t.Error(err)
	}
}

// bare0 is a device of a generic kernel driver, with a provider that does nothing.
var bare0 = uverbs.DeviceInfo{Name: "bare0", Driver: verbs.DriverHNS, Ports: 1}

type bareProvider struct{ hardware }

func (bareProvider) ID() verbs.DriverID { return verbs.DriverHNS }

// openBare opens bare0 and creates a QP. The test's cleanup closes them.
func openBare(t *testing.T, k *fakeverbs.Kernel, typ verbs.QPType) *uverbs.QP {
	t.Helper()
	driver.Register(bareProvider{hardware{new(string)}})
	noLeaks(t, k)
	dev := must[*uverbs.Device](t)(openOn(bare0, k))
	pd := must[*uverbs.PD](t)(dev.AllocPD())
	cq := must[*uverbs.CQ](t)(dev.CreateCQ(1, nil))
	qp := must[*uverbs.QP](t)(pd.CreateQP(&uverbs.QPOptions{Type: typ, SendCQ: cq, RecvCQ: cq, SignalAll: true}))
	t.Cleanup(func() {
		for _, c := range []closer{qp, cq, pd, dev} {
			if err := c.Close(); err != nil && !errors.Is(err, verbs.ErrClosed) {
				t.Error(err)
			}
		}
	})
	return qp
}

// modifications records every MODIFY_QP that k accepts.
func modifications(k *fakeverbs.Kernel) *[]abi.IbUverbsModifyQp {
	var all []abi.IbUverbsModifyQp
	k.Tamper = func(call string, r *ioctl.Request) {
		if call == "MODIFY_QP" {
			var in abi.IbUverbsModifyQp
			ioctl.Argument(r, abi.UVERBS_ATTR_CORE_IN, &in)
			in.QpHandle = 0
			all = append(all, in)
		}
	}
	return &all
}

// TestConnect compares the three moves of each QP type with those of C programs.
func TestConnect(t *testing.T) {
	const init = verbs.QPAttrState | verbs.QPAttrPKeyIndex | verbs.QPAttrPort
	const rtr = verbs.QPAttrState | verbs.QPAttrAV | verbs.QPAttrPathMTU | verbs.QPAttrDestQPN | verbs.QPAttrRQPSN
	const rts = verbs.QPAttrState | verbs.QPAttrSQPSN
	masks := map[verbs.QPType][]verbs.QPAttrMask{
		verbs.QPTypeRC: {init | verbs.QPAttrAccess, rtr | verbs.QPAttrMaxDestRDAtomic | verbs.QPAttrRNRTimer,
			rts | verbs.QPAttrAckTimeout | verbs.QPAttrRetryCnt | verbs.QPAttrRNRRetry | verbs.QPAttrMaxQPRDAtomic},
		verbs.QPTypeUC: {init | verbs.QPAttrAccess, rtr, rts},
		verbs.QPTypeUD: {init | verbs.QPAttrQKey, verbs.QPAttrState, rts},
	}
	attr := &verbs.QPAttr{Access: verbs.AccessRemoteWrite, QKey: 7, DestQPN: 8, RQPSN: 9, SQPSN: 10,
		AH: verbs.AHAttr{DGID: verbs.GID{1}, Global: true}, RetryCnt: 3}
	before := *attr
	for typ, want := range masks {
		k := fakeverbs.New(uint32(verbs.DriverHNS))
		got := modifications(k)
		qp := openBare(t, k, typ)
		if err := qp.Init(attr); err != nil {
			t.Fatal(err)
		}
		if err := qp.Connect(attr); err != nil {
			t.Fatal(err)
		}
		var moves []verbs.QPAttrMask
		for i, m := range *got {
			moves = append(moves, verbs.QPAttrMask(m.AttrMask))
			if m.QpState != uint8(i+1) {
				t.Errorf("%v: move %d goes to %v", typ, i, verbs.QPState(m.QpState))
			}
		}
		if !slices.Equal(moves, want) {
			t.Errorf("%v: moves with %v, want %v", typ, moves, want)
		}
		last := (*got)[2]
		if last.PortNum != 1 || last.Dest.PortNum != 1 || last.RetryCnt != 3 || last.RnrRetry != 7 || last.Timeout != 14 ||
			last.MinRnrTimer != 12 || last.MaxRdAtomic != 1 || last.MaxDestRdAtomic != 1 || last.DestQpNum != 8 || last.Qkey != 7 {
			t.Errorf("%v: %+v", typ, last)
		}
		if typ != verbs.QPTypeUD && last.PathMtu != uint8(verbs.MTU1024) {
			t.Errorf("%v: MTU %d", typ, last.PathMtu)
		}
		if qp.SRQ() != nil || !qp.SignalAll() {
			t.Error("SRQ or SignalAll")
		}
	}
	if *attr != before {
		t.Error("the caller's attributes changed")
	}
}

// TestConnectRefused checks that the error names the move that the kernel refuses.
func TestConnectRefused(t *testing.T) {
	for skip, want := range []string{"", "check AH.Port", "check MaxRDAtomic"} {
		k := fakeverbs.New(uint32(verbs.DriverHNS))
		qp := openBare(t, k, verbs.QPTypeRC)
		k.Fail("MODIFY_QP", skip, syscall.EINVAL)
		attr := &verbs.QPAttr{AH: verbs.AHAttr{Global: true}}
		err := qp.Init(attr)
		if skip > 0 && err == nil {
			err = qp.Connect(attr)
		}
		if !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), want) {
			t.Errorf("move %d: %v", skip, err)
		}
	}
	k := fakeverbs.New(uint32(verbs.DriverHNS))
	qp := openBare(t, k, verbs.QPTypeRC)
	k.Fail("QUERY_PORT", 0, syscall.EIO)
	if err := qp.Init(nil); err != nil {
		t.Fatal(err)
	}
	if err := qp.Connect(nil); !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
	k.Fail("MODIFY_QP", 0, syscall.ENETUNREACH)
	if err := qp.Connect(nil); !errors.Is(err, syscall.ENETUNREACH) || !strings.Contains(err.Error(), "ip neigh") {
		t.Error(err)
	}
}
