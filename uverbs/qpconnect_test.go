package uverbs_test

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// bare0 is a device whose kernel driver does what all have in common, and whose provider
// does nothing.
var bare0 = uverbs.DeviceInfo{Name: "bare0", Driver: verbs.DriverHNS, Ports: 1}

type bareProvider struct{ hardware }

func (bareProvider) ID() verbs.DriverID { return verbs.DriverHNS }

// openBare opens bare0 with a QP on it, all of which are closed at the test's end.
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

// modifications records every MODIFY_QP that k agrees to.
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

// TestConnect compares the three moves of each type with what C programs ask for.
func TestConnect(t *testing.T) {
	const init = verbs.QPAttrState | verbs.QPAttrPKeyIndex | verbs.QPAttrPort
	const rtr = verbs.QPAttrState | verbs.QPAttrAV | verbs.QPAttrPathMTU | verbs.QPAttrDestQPN | verbs.QPAttrRQPSN
	const rts = verbs.QPAttrState | verbs.QPAttrSQPSN
	masks := map[verbs.QPType][]verbs.QPAttrMask{
		verbs.QPTypeRC: {init | verbs.QPAttrAccess, rtr | verbs.QPAttrMaxDestRDAtomic | verbs.QPAttrMinRNRTimer,
			rts | verbs.QPAttrTimeout | verbs.QPAttrRetryCnt | verbs.QPAttrRNRRetry | verbs.QPAttrMaxQPRDAtomic},
		verbs.QPTypeUC: {init | verbs.QPAttrAccess, rtr, rts},
		verbs.QPTypeUD: {init | verbs.QPAttrQKey, verbs.QPAttrState, rts},
	}
	attr := &verbs.QPAttr{Access: verbs.AccessRemoteWrite, QKey: 7, DestQPN: 8, RQPSN: 9, SQPSN: 10,
		AH: verbs.AHAttr{DGID: verbs.GID{1}, Global: true, SGIDIndex: 2}, RetryCnt: 3}
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

// TestConnectRefused has the kernel refuse each move; the error tells which.
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
