package uverbs_test

import (
	"errors"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

func TestQueries(t *testing.T) {
	w := newWorld(t)
	attr := must[*verbs.DeviceAttr](t)(w.dev.Query())
	if attr.NodeGUID != fakeverbs.NodeGUID || attr.MaxQP != fakeverbs.MaxQP || attr.CapFlags != 0x200000 || attr.MaxMRSize != 1<<64-1 || attr.PhysPortCnt != 1 {
		t.Errorf("%+v", attr)
	}
	port := must[*verbs.PortAttr](t)(w.dev.QueryPort(1))
	want := &verbs.PortAttr{State: verbs.PortState(4), PhysState: verbs.PhysState(5), LinkLayer: verbs.LinkEthernet,
		MaxMTU: verbs.MTU4096, ActiveMTU: verbs.MTU1024, MaxMsgSize: 1<<31 - 1, GIDTableLen: 1, ActiveWidth: 1, ActiveSpeed: 1}
	if diff := cmp.Diff(want, port); diff != "" {
		t.Error(diff)
	}
	gid := verbs.GIDEntry{GID: fakeverbs.GID, Port: 1, NetdevIndex: fakeverbs.Netdev}
	if diff := cmp.Diff([]verbs.GIDEntry{gid}, must[[]verbs.GIDEntry](t)(w.dev.GIDTable())); diff != "" {
		t.Error(diff)
	}
	if e := must[*verbs.GIDEntry](t)(w.dev.QueryGID(1, 0)); *e != gid {
		t.Errorf("%+v", e)
	}
	if w.dev.CompVectors() != fakeverbs.CompVectors {
		t.Error(w.dev.CompVectors())
	}
	for name, err := range map[string]error{
		"port 2": failed(w.dev.QueryPort(2)), "GID of port 2": failed(w.dev.QueryGID(2, 0)), "P_Key": failed(w.dev.QueryPKey(1, 0)),
		"vector": failed(w.dev.CreateCQ(1, &uverbs.CQOptions{CompVector: fakeverbs.CompVectors})),
		"no CQ":  failed(w.pd.CreateQP(&uverbs.QPOptions{})), "nil": failed(w.pd.CreateQP(nil)),
	} {
		if !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := w.dev.QueryGID(1, 1); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("beyond the table: %v", err)
	}
}

// TestAttr: each caller gets a copy, for which the kernel is asked once.
func TestAttr(t *testing.T) {
	_, dev := openSIW(t)
	want := *must[*verbs.DeviceAttr](t)(dev.Query())
	for range 3 {
		attr := must[*verbs.DeviceAttr](t)(dev.Attr())
		if *attr != want {
			t.Errorf("%+v, want %+v", attr, want)
		}
		*attr = verbs.DeviceAttr{} // ours
	}
	if hasReferences(reflect.TypeFor[verbs.DeviceAttr]()) {
		t.Error("a copy of DeviceAttr shares memory with the original")
	}
}

func hasReferences(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			if hasReferences(t.Field(i).Type) {
				return true
			}
		}
		return false
	case reflect.Array:
		return hasReferences(t.Elem())
	}
	return t.Kind() > reflect.Uint64 || t.Kind() == reflect.Invalid
}

// TestModify carries every attribute to the kernel and back.
func TestModify(t *testing.T) {
	w := newWorld(t)
	attr := &verbs.QPAttr{
		State: verbs.QPStateInit, CurState: verbs.QPStateInit, PathMTU: verbs.MTU2048, QKey: 1, RQPSN: 2, SQPSN: 3, DestQPN: 4,
		Access: verbs.AccessRemoteRead, PKeyIndex: 5, MaxRDAtomic: 6, MaxDestRDAtomic: 7, MinRNRTimer: 8, Port: 9, Timeout: 10,
		RetryCnt: 11, RNRRetry: 12,
		AH: verbs.AHAttr{DGID: fakeverbs.GID, FlowLabel: 13, SGIDIndex: 14, HopLimit: 15, TrafficClass: 16, Global: true,
			DLID: 17, SL: 18, SrcPathBits: 19, StaticRate: 20, Port: 21},
		AltAH: verbs.AHAttr{DLID: 22, Port: 23}, AltPKeyIndex: 24, AltPort: 25, AltTimeout: 26, PathMigState: 2,
		Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 2, MaxRecvSGE: 2},
	}
	if err := w.qp.Modify(attr, verbs.QPAttrState); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(attr, must[*verbs.QPAttr](t)(w.qp.Query())); diff != "" {
		t.Error(diff)
	}
	err := w.qp.Modify(&verbs.QPAttr{State: verbs.QPStateRTS}, verbs.QPAttrState)
	if !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "an iWARP QP goes to RTS only by connecting it") {
		t.Error(err)
	}
}

func TestSRQ(t *testing.T) {
	w := newWorld(t)
	if err := w.srq.SetLimit(3); err != nil {
		t.Fatal(err)
	}
	if got := must[*verbs.SRQAttr](t)(w.srq.Query()); *got != (verbs.SRQAttr{MaxWR: 4, MaxSGE: 1, Limit: 3}) {
		t.Errorf("%+v", got)
	}
	if err := w.srq.SetLimit(5); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
}

// TestNoProvider uses a device whose driver has no provider here, and says so
// where one is needed.
func TestNoProvider(t *testing.T) {
	k := fakeverbs.New(uint32(verbs.DriverOCRDMA))
	noLeaks(t, k)
	dev := must[*uverbs.Device](t)(openOn(uverbs.DeviceInfo{Name: "ocrdma0", Driver: verbs.DriverOCRDMA}, k))
	defer dev.Close()
	pd := must[*uverbs.PD](t)(dev.AllocPD())
	defer pd.Close()
	mr := must[*uverbs.MR](t)(pd.AllocMR(1, 0, nil))
	defer mr.Close()
	if _, err := dev.Query(); err != nil {
		t.Error(err)
	}
	for _, err := range []error{failed(dev.CreateCQ(1, nil)), failed(pd.CreateQP(nil)), failed(pd.CreateSRQ(nil))} {
		if !errors.Is(err, verbs.ErrNoProvider) || !strings.Contains(err.Error(), `import _ "github.com/goverbs/goverbs/provider/ocrdma"`) {
			t.Error(err)
		}
	}
}

func TestOtherABI(t *testing.T) {
	k := fakeverbs.New(uint32(verbs.DriverSIW))
	noLeaks(t, k)
	info := siw0
	info.ABI = 2
	dev := must[*uverbs.Device](t)(openOn(info, k))
	defer dev.Close()
	if _, err := dev.Query(); err != nil {
		t.Error(err)
	}
	_, err := dev.CreateCQ(1, nil)
	if !errors.Is(err, verbs.ErrNoProvider) || !strings.Contains(err.Error(), "siw driver speaks ABI 2, the provider linked in 1 to 1") {
		t.Error(err)
	}
}
