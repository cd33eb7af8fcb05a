package netlinkrdma_test

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
	"github.com/goverbs/goverbs/verbs"
)

func opt[T any](v T) netlinkrdma.Opt[T] { return netlinkrdma.Opt[T]{Value: v, Known: true} }

var (
	process = netlinkrdma.Owner{TID: 4711}
	module  = netlinkrdma.Owner{Kernel: "ib_core"}
	driver  = []netlinkrdma.DriverAttr{
		{Name: "state", Kind: netlinkrdma.DriverString, Text: "up"},
		{Name: "delta", Kind: netlinkrdma.DriverS32, Number: ^uint64(4)},
		{Name: "mask", Kind: netlinkrdma.DriverU32, Hex: true, Number: 0xffffffff},
		{Name: "offset", Kind: netlinkrdma.DriverS64, Number: 1 << 63},
		{Name: "address", Kind: netlinkrdma.DriverU64, Hex: true, Number: 0xffff800012345678},
	}
)

// objects are objects with all attributes, and objects without the optional ones.
var objects = nltest.Objects{
	QP: []netlinkrdma.QP{
		{
			Owner: process, Port: 2, LQPN: 17, Type: 2, State: 3, SQPSN: 5, RQPN: opt[uint32](0), RQPSN: opt[uint32](7),
			PathMigState: opt[verbs.PathMigState](1), PDN: opt[uint32](0), Driver: driver,
		},
		{Owner: module, Port: 1, LQPN: 1, Type: 1, State: 3},
		{LQPN: 18, Type: verbs.QPTypeDriver, Subtype: "REG_UMR"},
	},
	CMID: []netlinkrdma.CMID{
		{
			Owner: process, Port: 2, CMIDN: 3, LQPN: 17, QPType: opt[verbs.QPType](2), PS: abi.RDMA_PS_TCP, State: 5, Driver: driver,
			Src: netlinkrdma.CMAddr{Family: 2, AddrPort: netip.MustParseAddrPort("10.1.1.1:7174")},
			Dst: netlinkrdma.CMAddr{Family: 10, AddrPort: netip.MustParseAddrPort("[fd01::2]:65535")},
		},
		{Owner: module, CMIDN: 0, PS: abi.RDMA_PS_IB, State: 8, Src: netlinkrdma.CMAddr{Family: 27, AddrPort: netip.MustParseAddrPort("[fe80::1]:7")}},
	},
	CQ: []netlinkrdma.CQ{
		{Owner: process, CQN: 1, CQE: 127, Users: 1 << 40, AdaptiveModeration: opt(false), CTXN: opt[uint32](0), Driver: driver},
		{Owner: module, CQN: 0, CQE: 255, PollContext: opt[netlinkrdma.PollContext](3), AdaptiveModeration: opt(true)},
	},
	MR: []netlinkrdma.MR{
		{Owner: process, MRN: 1, RKey: opt[uint32](0x1a2b), LKey: opt[uint32](0xffffffff), IOVA: opt[uint64](1 << 47), Length: 1 << 40, PDN: opt[uint32](2), Driver: driver},
		{Owner: module, MRN: 2, Length: 4096},
	},
	PD: []netlinkrdma.PD{
		{Owner: process, PDN: 2, Users: 3, LocalDMALKey: opt[uint32](0), CTXN: opt[uint32](1), Driver: driver},
		{Owner: module, PDN: 0, UnsafeGlobalRKey: opt[uint32](9)},
	},
	Context: []netlinkrdma.Context{{Owner: process, CTXN: 0, Driver: driver}, {CTXN: 1}},
	SRQ: []netlinkrdma.SRQ{
		{Owner: process, SRQN: 4, Type: 2, PDN: opt[uint32](2), CQN: opt[uint32](1), LQPN: []netlinkrdma.QPRange{{First: 17, Last: 17}, {First: 19, Last: 30}}, Driver: driver},
		{Owner: module, SRQN: 5},
	},
	Raw: []byte{1, 0, 255},
}

func objectsKernel() *nltest.Kernel {
	k := kernel()
	k.Objects = map[uint32]nltest.Objects{7: objects}
	return k
}

// all collects a dump.
func all[T any](dump iter.Seq2[T, error]) (any, error) {
	var list []T
	for v, err := range dump {
		if err != nil {
			return list, err
		}
		list = append(list, v)
	}
	return list, nil
}

// resCalls are all calls for objects of device 7, with their results.
func resCalls(c *netlinkrdma.Client) []resCall {
	o := &netlinkrdma.ListOptions{DriverDetails: true}
	raws := [][]byte{objects.Raw, objects.Raw}
	return []resCall{
		{"QPs (list)", abi.RDMA_NLDEV_CMD_RES_QP_GET, objects.QP, func(d uint32) (any, error) { return all(c.QPs(d, o)) }},
		{"CMIDs (list)", abi.RDMA_NLDEV_CMD_RES_CM_ID_GET, objects.CMID, func(d uint32) (any, error) { return all(c.CMIDs(d, o)) }},
		{"CQs (list)", abi.RDMA_NLDEV_CMD_RES_CQ_GET, objects.CQ, func(d uint32) (any, error) { return all(c.CQs(d, o)) }},
		{"MRs (list)", abi.RDMA_NLDEV_CMD_RES_MR_GET, objects.MR, func(d uint32) (any, error) { return all(c.MRs(d, o)) }},
		{"PDs (list)", abi.RDMA_NLDEV_CMD_RES_PD_GET, objects.PD, func(d uint32) (any, error) { return all(c.PDs(d, o)) }},
		{"Contexts (list)", abi.RDMA_NLDEV_CMD_RES_CTX_GET, objects.Context, func(d uint32) (any, error) { return all(c.Contexts(d, o)) }},
		{"SRQs (list)", abi.RDMA_NLDEV_CMD_RES_SRQ_GET, objects.SRQ, func(d uint32) (any, error) { return all(c.SRQs(d, o)) }},
		{"RawObjects CQ (list)", abi.RDMA_NLDEV_CMD_RES_CQ_GET_RAW, raws, func(d uint32) (any, error) { return all(c.RawObjects(d, netlinkrdma.RawCQ, nil)) }},
		{"RawObjects MR (list)", abi.RDMA_NLDEV_CMD_RES_MR_GET_RAW, raws, func(d uint32) (any, error) { return all(c.RawObjects(d, netlinkrdma.RawMR, nil)) }},
		{"RawObjects SRQ (list)", abi.RDMA_NLDEV_CMD_RES_SRQ_GET_RAW, raws, func(d uint32) (any, error) { return all(c.RawObjects(d, netlinkrdma.RawSRQ, nil)) }},
		{"RawObjects QP (list)", abi.RDMA_NLDEV_CMD_RES_QP_GET_RAW, raws[:1], func(d uint32) (any, error) {
			return all(c.RawObjects(d, netlinkrdma.RawQP, &netlinkrdma.ListOptions{Port: 2}))
		}},
		{"QP", abi.RDMA_NLDEV_CMD_RES_QP_GET, objects.QP[0], func(d uint32) (any, error) { return c.QP(d, 2, 17) }},
		{"QP of management", abi.RDMA_NLDEV_CMD_RES_QP_GET, objects.QP[1], func(d uint32) (any, error) { return c.QP(d, 1, 1) }},
		{"RawObject of management", abi.RDMA_NLDEV_CMD_RES_QP_GET_RAW, objects.Raw, func(d uint32) (any, error) { return c.RawObject(d, netlinkrdma.RawQP, 1, 1) }},
		{"CMID", abi.RDMA_NLDEV_CMD_RES_CM_ID_GET, objects.CMID[0], func(d uint32) (any, error) { return c.CMID(d, 2, 3) }},
		{"CQ", abi.RDMA_NLDEV_CMD_RES_CQ_GET, objects.CQ[1], func(d uint32) (any, error) { return c.CQ(d, 0) }},
		{"MR", abi.RDMA_NLDEV_CMD_RES_MR_GET, objects.MR[0], func(d uint32) (any, error) { return c.MR(d, 1) }},
		{"PD", abi.RDMA_NLDEV_CMD_RES_PD_GET, objects.PD[1], func(d uint32) (any, error) { return c.PD(d, 0) }},
		{"Context", abi.RDMA_NLDEV_CMD_RES_CTX_GET, objects.Context[1], func(d uint32) (any, error) { return c.Context(d, 1) }},
		{"SRQ", abi.RDMA_NLDEV_CMD_RES_SRQ_GET, objects.SRQ[0], func(d uint32) (any, error) { return c.SRQ(d, 4) }},
		{"RawObject QP", abi.RDMA_NLDEV_CMD_RES_QP_GET_RAW, objects.Raw, func(d uint32) (any, error) { return c.RawObject(d, netlinkrdma.RawQP, 2, 17) }},
		{"RawObject SRQ", abi.RDMA_NLDEV_CMD_RES_SRQ_GET_RAW, objects.Raw, func(d uint32) (any, error) { return c.RawObject(d, netlinkrdma.RawSRQ, 0, 5) }},
	}
}

type resCall struct {
	name string
	op   uint16
	want any
	call func(device uint32) (any, error)
}

var sameValue = cmpopts.EquateComparable(netip.AddrPort{})

func TestObjects(t *testing.T) {
	for _, test := range resCalls(&netlinkrdma.Client{Kernel: objectsKernel()}) {
		got, err := test.call(7)
		if diff := cmp.Diff(test.want, got, sameValue); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", test.name, err, diff)
		}
	}
}

func TestObjectsEveryErrno(t *testing.T) {
	k := objectsKernel()
	for _, test := range resCalls(&netlinkrdma.Client{Kernel: k}) {
		list, raw := strings.HasSuffix(test.name, "(list)"), strings.Contains(test.name, "Raw")
		for errno := syscall.Errno(1); errno < 134; errno++ {
			k.Fail = map[uint16]error{test.op: errno}
			got, err := test.call(7)
			if !errors.Is(err, errno) || !errors.As(err, new(*verbs.Error)) || !strings.Contains(err.Error(), "RDMA device 7") {
				t.Errorf("%s with %d: %v, %v", test.name, errno, got, err)
			}
			for sentinel, want := range map[error]bool{
				netlinkrdma.ErrPermission: errno == syscall.EPERM || errno == syscall.EACCES,
				netlinkrdma.ErrNoObject:   errno == syscall.ENOENT && !list,
				netlinkrdma.ErrNoRaw:      errno == syscall.EINVAL && raw,
				netlinkrdma.ErrNotFound:   errno == syscall.EINVAL && !raw,
			} {
				if errors.Is(err, sentinel) != want {
					t.Errorf("%s with %d: %v, is it %q?", test.name, errno, err, sentinel)
				}
			}
		}
	}
}

func TestObjectsOfNoDevice(t *testing.T) {
	k := objectsKernel()
	for _, test := range resCalls(&netlinkrdma.Client{Kernel: k}) {
		_, err := test.call(77)
		if !errors.Is(err, netlinkrdma.ErrNotFound) && !errors.Is(err, netlinkrdma.ErrNoRaw) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	k.Objects = nil
	for _, test := range resCalls(&netlinkrdma.Client{Kernel: k}) {
		_, err := test.call(7)
		want := error(nil)
		switch {
		case strings.Contains(test.name, "Raw"):
			want = netlinkrdma.ErrNoRaw
		case !strings.HasSuffix(test.name, "(list)"):
			want = netlinkrdma.ErrNoObject
		}
		if !errors.Is(err, want) {
			t.Errorf("%s of an empty device: %v, want %v", test.name, err, want)
		}
	}
}

func TestRawKindThatIsNone(t *testing.T) {
	c := &netlinkrdma.Client{Kernel: objectsKernel()}
	if _, err := c.RawObject(7, 27, 0, 1); !errors.Is(err, syscall.EINVAL) || !errors.Is(err, netlinkrdma.ErrNoRaw) {
		t.Error(err)
	}
	if _, err := all(c.RawObjects(7, 27, nil)); !errors.Is(err, syscall.EINVAL) || !errors.Is(err, netlinkrdma.ErrNoRaw) {
		t.Error(err)
	}
}

func TestDumpRequest(t *testing.T) {
	k := objectsKernel()
	c := &netlinkrdma.Client{Kernel: k}
	got, err := all(c.QPs(7, &netlinkrdma.ListOptions{Port: 1, DriverDetails: true}))
	if diff := cmp.Diff(objects.QP[1:2], got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	want := []netlinkrdma.Request{{Op: abi.RDMA_NLDEV_CMD_RES_QP_GET, Dump: true, Attrs: []netlinkrdma.Attr{
		{Type: abi.RDMA_NLDEV_ATTR_DEV_INDEX, Value: []byte{7, 0, 0, 0}},
		{Type: abi.RDMA_NLDEV_ATTR_PORT_INDEX, Value: []byte{1, 0, 0, 0}},
		{Type: abi.RDMA_NLDEV_ATTR_DRIVER_DETAILS, Value: []byte{1}},
	}}}
	if diff := cmp.Diff(want, k.Requests); diff != "" {
		t.Error(diff)
	}
}

// many returns enough QPs for several replies.
func many(n int) *nltest.Kernel {
	k := kernel()
	list := make([]netlinkrdma.QP, n)
	for i := range list {
		list[i] = netlinkrdma.QP{Owner: process, Port: 1, LQPN: uint32(i), Type: 2, RQPN: opt(uint32(i)), PDN: opt[uint32](1)}
	}
	for i := range 2 { // QP 1 of each port
		list[i] = netlinkrdma.QP{Owner: module, Port: i + 1, LQPN: 1, Type: 1}
	}
	k.Objects = map[uint32]nltest.Objects{7: {QP: list}}
	return k
}

func TestDumpEndsWhereWanted(t *testing.T) {
	for _, stop := range []int{1, 19, 20, 21, 45, 60} {
		n := 0
		for _, err := range (&netlinkrdma.Client{Kernel: many(60)}).QPs(7, nil) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n == stop {
				break
			}
		}
		if n != stop {
			t.Errorf("%d QPs, want %d", n, stop)
		}
	}
}

// halfway sends the first replies of the first n dumps and then EINTR.
type halfway struct {
	*nltest.Kernel
	n, asked, replies int
}

func (h *halfway) Stream(req netlinkrdma.Request, f func([]byte) bool) error {
	h.asked++
	replies, err := h.Execute(req)
	if err != nil {
		return err
	}
	disturbed := h.asked <= h.n
	if disturbed {
		replies = replies[:h.replies]
	}
	for _, r := range replies {
		if !f(r) {
			return nil
		}
	}
	if disturbed {
		return fmt.Errorf("dump: %w", syscall.EINTR)
	}
	return nil
}

// TestDisturbedAtManagement checks that QP 1 of port 1 is not taken for that of port 2.
func TestDisturbedAtManagement(t *testing.T) {
	k := many(60)
	o := k.Objects[7]
	o.QP = append([]netlinkrdma.QP{o.QP[0]}, append(o.QP[2:22], o.QP[1])...)
	k.Objects[7] = o
	h := &halfway{Kernel: k, n: 1, replies: 1}
	list, err := all((&netlinkrdma.Client{Kernel: h}).QPs(7, nil))
	if diff := cmp.Diff(o.QP, list); err != nil || diff != "" || h.asked != 2 {
		t.Errorf("%v after %d dumps\n%s", err, h.asked, diff)
	}
}

func TestDisturbedDumpGivesEachOnce(t *testing.T) {
	h := &halfway{Kernel: many(60), n: 3, replies: 2}
	list, err := all((&netlinkrdma.Client{Kernel: h}).QPs(7, nil))
	if diff := cmp.Diff(h.Objects[7].QP, list); err != nil || diff != "" || h.asked != 4 {
		t.Errorf("%v after %d dumps\n%s", err, h.asked, diff)
	}
	h = &halfway{Kernel: many(60), n: 1000, replies: 2}
	list, err = all((&netlinkrdma.Client{Kernel: h}).QPs(7, nil))
	if n := len(list.([]netlinkrdma.QP)); !errors.Is(err, syscall.EINTR) || n != 40 || h.asked != 10 {
		t.Errorf("%d QPs and %v after %d dumps", n, err, h.asked)
	}
}

// TestDisturbedRawDump checks that a dump of raw data, which has no numbers, is not repeated.
func TestDisturbedRawDump(t *testing.T) {
	for _, test := range []struct{ replies, asked, got int }{{0, 2, 60}, {1, 1, 20}} {
		h := &halfway{Kernel: many(60), n: 1, replies: test.replies}
		o := h.Objects[7]
		o.Raw = []byte{1}
		h.Objects[7] = o
		list, err := all((&netlinkrdma.Client{Kernel: h}).RawObjects(7, netlinkrdma.RawQP, nil))
		if n := len(list.([][]byte)); h.asked != test.asked || n != test.got || errors.Is(err, syscall.EINTR) != (test.asked == 1) {
			t.Errorf("%d objects and %v after %d dumps, want %+v", n, err, h.asked, test)
		}
	}
}

// TestDumpAllocates checks that a dump allocates nothing per QP but the list of numbers.
func TestDumpAllocates(t *testing.T) {
	k := many(5000)
	replies, err := k.Execute(netlinkrdma.Request{Op: abi.RDMA_NLDEV_CMD_RES_QP_GET, Dump: true, Attrs: []netlinkrdma.Attr{
		{Type: abi.RDMA_NLDEV_ATTR_DEV_INDEX, Value: []byte{7, 0, 0, 0}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	c := &netlinkrdma.Client{Kernel: fixed(replies)}
	sum := uint32(0)
	n := testing.AllocsPerRun(5, func() {
		for q, err := range c.QPs(7, nil) {
			if err != nil {
				t.Fatal(err)
			}
			sum += q.LQPN
		}
	})
	if n > 50 || sum == 0 {
		t.Errorf("%v allocations for 5000 QPs", n)
	}
}

// fixed answers every request with the same bytes.
type fixed [][]byte

func (f fixed) Execute(netlinkrdma.Request) ([][]byte, error) { return f, nil }

func (f fixed) Stream(_ netlinkrdma.Request, yield func([]byte) bool) error {
	for _, r := range f {
		if !yield(r) {
			return nil
		}
	}
	return nil
}

func TestOwnerPIDIn(t *testing.T) {
	proc := fstest.MapFS{
		"25/status": {Data: []byte("Name:\treader\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t7\nNgid:\t0\nPid:\t25\n")},
		"26/status": {Data: []byte("Name:\tTgid: 9\n")},
		"27":        {Mode: fs.ModeDir},
	}
	for name, c := range map[string]struct {
		owner     netlinkrdma.Owner
		pid       int
		fails     bool
		noProcess bool
	}{
		"a thread":        {netlinkrdma.Owner{TID: 25}, 7, false, false},
		"no Tgid":         {netlinkrdma.Owner{TID: 26}, 0, true, false},
		"ended meanwhile": {netlinkrdma.Owner{TID: 27}, 0, true, true},
		"not known":       {netlinkrdma.Owner{}, 0, true, true},
		"a module":        {netlinkrdma.Owner{Kernel: "ib_core"}, 0, true, true},
	} {
		pid, err := c.owner.PIDIn(proc)
		if pid != c.pid || (err != nil) != c.fails || errors.Is(err, netlinkrdma.ErrNoProcess) != c.noProcess {
			t.Errorf("%s: %d, %v", name, pid, err)
		}
	}
}
