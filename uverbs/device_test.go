package uverbs_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

func TestQueries(t *testing.T) {
	w := newWorld(t)
	attr := must[*verbs.DeviceAttr](t)(w.dev.QueryDevice())
	if attr.NodeGUID != fakeverbs.NodeGUID || attr.MaxQP != 102400 || attr.CapFlags != 0x200000 || attr.MaxMRSize != 1<<64-1 || attr.PhysPortCnt != 1 {
		t.Errorf("%+v", attr)
	}
	port := must[*verbs.PortAttr](t)(w.dev.QueryPort(1))
	want := &verbs.PortAttr{State: verbs.PortState(4), PhysState: verbs.PhysState(5), LinkLayer: verbs.LinkEthernet,
		MaxMTU: verbs.MTU4096, ActiveMTU: verbs.MTU1024, MaxMsgSize: 1<<32 - 1, CapFlags: 0x90000, GIDTableLen: 1, ActiveWidth: 1, ActiveSpeed: 1}
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

// TestAttr checks that each caller gets a copy, for which the kernel is asked once.
func TestAttr(t *testing.T) {
	_, dev := openSIW(t)
	want := *must[*verbs.DeviceAttr](t)(dev.QueryDevice())
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

// TestModify checks that Query does not return what siw leaves in the kernel's memory. TestQPAttrRoundTrip is of a
// driver that sets all attributes.
func TestModify(t *testing.T) {
	w := newWorld(t)
	if err := w.qp.Modify(&verbs.QPAttr{State: verbs.QPStateInit}, verbs.QPAttrState); err != nil {
		t.Fatal(err)
	}
	want := &verbs.QPAttr{State: verbs.QPStateInit, CurState: verbs.QPStateInit, PathMTU: verbs.MTU1024,
		Access: verbs.AccessLocalWrite | verbs.AccessRemoteRead | verbs.AccessRemoteWrite,
		Cap:    verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 2, MaxRecvSGE: 2, MaxInline: 80}}
	if diff := cmp.Diff(want, must[*verbs.QPAttr](t)(w.qp.Query())); diff != "" {
		t.Error(diff)
	}
	w.k.Tamper = func(call string, r *ioctl.Request) {
		if call == "QUERY_QP" {
			ioctl.Answer(r, abi.UVERBS_ATTR_CORE_OUT, &abi.IbUverbsQueryQpResp{QpState: abi.IB_QPS_INIT, PathMtu: 3, QpAccessFlags: 7,
				MaxSendWr: 4, MaxRecvWr: 4, MaxSendSge: 2, MaxRecvSge: 2, MaxInlineData: 80,
				CurQpState: 210, Qkey: 1, RqPsn: 2, SqPsn: 3, DestQpNum: 4, PkeyIndex: 5, MinRnrTimer: 6, Timeout: 7, RetryCnt: 8, RnrRetry: 9,
				Dest: abi.IbUverbsQpDest{Dlid: 10}, AltDest: abi.IbUverbsQpDest{Dlid: 11}, PortNum: 12, AltPortNum: 13, SqDraining: 14})
		}
	}
	if diff := cmp.Diff(want, must[*verbs.QPAttr](t)(w.qp.Query())); diff != "" {
		t.Error(diff)
	}
	err := w.qp.Modify(&verbs.QPAttr{State: verbs.QPStateRTS}, verbs.QPAttrState)
	if !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "an iWARP QP enters RTS only when it is connected") {
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
	if _, err := dev.QueryDevice(); err != nil {
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
	if _, err := dev.QueryDevice(); err != nil {
		t.Error(err)
	}
	_, err := dev.CreateCQ(1, nil)
	if !errors.Is(err, verbs.ErrNoProvider) || !strings.Contains(err.Error(), "siw driver has ABI 2, the linked provider supports 1 to 1") {
		t.Error(err)
	}
}

// TestOpensWithoutProvider opens a device of every driver that Linux assigns a number, queries it, and
// creates a PD and an MR, without a provider.
func TestOpensWithoutProvider(t *testing.T) {
	for id := verbs.DriverMLX5; id <= verbs.DriverIonic; id++ {
		if strings.HasPrefix(id.String(), "DriverID(") {
			continue
		}
		t.Run(id.String(), func(t *testing.T) {
			k := fakeverbs.New(uint32(id))
			noLeaks(t, k)
			// An ABI that no provider of these tests knows.
			dev := must[*uverbs.Device](t)(openOn(uverbs.DeviceInfo{Name: fmt.Sprint(id, 0), Driver: id, ABI: 99}, k))
			if _, err := dev.QueryDevice(); err != nil {
				t.Error(err)
			}
			if _, err := dev.QueryPort(1); err != nil {
				t.Error(err)
			}
			if _, err := dev.GIDTable(); err != nil {
				t.Error(err)
			}
			pd := must[*uverbs.PD](t)(dev.AllocPD())
			mr := must[*uverbs.MR](t)(pd.AllocMR(1, 0, nil))
			for _, c := range []closer{mr, pd, dev} {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestUnknownDriverRefuses checks that a driver without a number requires unknown private bytes. The
// error says so and keeps the errno.
func TestUnknownDriverRefuses(t *testing.T) {
	for errno, want := range map[syscall.Errno]string{
		syscall.EINVAL: "may require private bytes", syscall.EFAULT: "may require private bytes", syscall.EAGAIN: "cgroup",
	} {
		k := fakeverbs.New(63)
		noLeaks(t, k)
		k.Fail("GET_CONTEXT", 0, errno)
		_, err := openOn(uverbs.DeviceInfo{Name: "new0", Driver: 63}, k)
		if !errors.Is(err, errno) || !strings.Contains(err.Error(), want) {
			t.Error(err)
		}
	}
}

// TestNoClock checks the errors of a driver without a clock, and of a closed device.
func TestNoClock(t *testing.T) {
	w := newWorld(t)
	if _, err := w.dev.QueryClock(); !errors.Is(err, verbs.ErrNotSupported) || !strings.Contains(err.Error(), "query the clock of") {
		t.Error(err)
	}
	_, dev := open(t, mlx50)
	closeAll(t, dev)
	if _, err := dev.QueryClock(); !errors.Is(err, verbs.ErrClosed) {
		t.Error(err)
	}
}

// TestSupports asks a provider that knows, one that does not know, and none.
func TestSupports(t *testing.T) {
	_, dev := openSIW(t)
	if !dev.Supports(verbs.QPTypeRC, verbs.OpSend) || dev.Supports(verbs.QPTypeRC, verbs.OpSendImm) || dev.Supports(verbs.QPTypeUD, verbs.OpSend) {
		t.Error("siw has SEND on RC, and no immediate data")
	}
	silent := openBare(t, fakeverbs.New(uint32(verbs.DriverHNS)), verbs.QPTypeRC).PD().Device()
	_, none := open(t, uverbs.DeviceInfo{Name: "ocrdma0", Driver: verbs.DriverOCRDMA})
	for name, dev := range map[string]*uverbs.Device{"silent": silent, "none": none} {
		for op := range verbs.Opcode(16) {
			if dev.Supports(verbs.QPTypeRC, op) {
				t.Errorf("%s: %v", name, op)
			}
		}
	}
}

func TestInfoProvider(t *testing.T) {
	for _, test := range []struct {
		info uverbs.DeviceInfo
		want string
	}{
		{siw0, ""},
		{rxe0, ""},
		{uverbs.DeviceInfo{Name: "qib0", Driver: verbs.DriverQIB, ABI: 1}, "use device on qib0: no provider: this program links no provider for driver qib"},
		{uverbs.DeviceInfo{Name: "rxe9", Driver: verbs.DriverRXE, ABI: 9}, "use device on rxe9: no provider: the kernel's rxe driver has ABI 9, the linked provider supports 2 to 2"},
	} {
		err := test.info.Provider()
		switch {
		case test.want == "" && err != nil:
			t.Error(err)
		case test.want != "" && (!errors.Is(err, verbs.ErrNoProvider) || err.Error() != test.want):
			t.Errorf("%v, want %s", err, test.want)
		}
	}
}

func TestModerate(t *testing.T) {
	everyErrno(t, "hollow0", newHard, []verb[*hard]{
		{"CQ.Moderate", []string{"MODIFY_CQ"}, "moderate CQ ", func(w *hard) error { return w.cq.Moderate(10, time.Millisecond) }},
	})
	w := newHard(t)
	if err := w.cq.Moderate(20, 300*time.Microsecond); err != nil {
		t.Error(err)
	}
	if got := w.k.CQs()[0].Moderation; got != (abi.IbUverbsCqModeration{CqCount: 20, CqPeriod: 300}) {
		t.Errorf("%+v", got)
	}
	for want, err := range map[string]error{
		"the period is at most 65535 µs": w.cq.Moderate(1, time.Second),
		"65535 µs":                       w.cq.Moderate(1, -1),
		"a count of at most 1000 and a period of at most 4000 µs": w.cq.Moderate(1001, 0),
	} {
		if !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := newWorld(t).cq.Moderate(1, 0); !errors.Is(err, verbs.ErrNotSupported) || !strings.Contains(err.Error(), " on siw0") {
		t.Error(err)
	}
	if err := w.cq.Close(); err != nil {
		t.Error(err)
	}
	if err := w.cq.Moderate(1, 0); !errors.Is(err, verbs.ErrClosed) {
		t.Error(err)
	}
}

// TestHandles lists more than fit into the first request.
func TestHandles(t *testing.T) {
	everyErrno(t, "hollow0", newHard, []verb[*hard]{
		{"Handles", []string{"INFO_HANDLES"}, "list the objects of device on hollow0", func(w *hard) error { return failed(w.dev.Handles(verbs.ObjectPD)) }},
	})
	w := newHard(t)
	if got, err := w.dev.Handles(verbs.ObjectMR); err != nil || len(got) != 0 {
		t.Error(got, err)
	}
	var want []uint32
	for i := range 300 {
		pd := must[*uverbs.PD](t)(w.dev.AllocPD())
		defer pd.Close()
		want = append(want, uint32(i+2)) // behind the world's PD and CQ
	}
	want = append([]uint32{0}, want...)
	if got, err := w.dev.Handles(verbs.ObjectPD); err != nil || !slices.Equal(got, want) {
		t.Errorf("%d, %v", got, err)
	}
	if got, err := w.dev.Handles(verbs.ObjectCQ); err != nil || !slices.Equal(got, []uint32{1}) {
		t.Errorf("%d, %v", got, err)
	}
}

// TestRegMRAt checks that work requests name the memory by another address.
func TestRegMRAt(t *testing.T) {
	w := newRoCE(t)
	b := make([]byte, 8192)
	own := must[*uverbs.MR](t)(w.pd.RegMR(b, 0))
	defer own.Close()
	const page = 4096
	iova := own.Addr()%page | 1<<40
	mr := must[*uverbs.MR](t)(w.pd.RegMRAt(b, iova, verbs.AccessLocalWrite))
	defer mr.Close()
	if mr.Addr() != iova || mr.SGE(8, 8).Addr != iova+8 || len(mr.Bytes()) != len(b) {
		t.Errorf("%#x", mr.Addr())
	}
	if got, err := mr.Query(); err != nil || got.IOVA != iova || got.Length != 8192 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := w.pd.RegMRAt(b, iova+8, 0); !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "different offsets within a page") {
		t.Error(err)
	}
}
