package uverbs_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/regions"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

var errnos = []syscall.Errno{
	syscall.EINVAL, syscall.ENOMEM, syscall.EPERM, syscall.EACCES, syscall.EAGAIN, syscall.EBUSY, syscall.ENOENT, syscall.EIO,
	syscall.ENODEV, syscall.EPROTONOSUPPORT, syscall.EOPNOTSUPP, syscall.ENOSYS, syscall.EINTR,
}

func notSupported(errno syscall.Errno) bool {
	return errno == syscall.EPROTONOSUPPORT || errno == syscall.EOPNOTSUPP || errno == syscall.ENOSYS
}

type closer interface{ Close() error }

// closing closes the object that a call created.
func closing[T closer](v T, err error) error {
	if err != nil {
		return err
	}
	return v.Close()
}

func failed[T any](_ T, err error) error { return err }

// verb is a function and the kernel's calls that it makes.
type verb[W any] struct {
	name  string
	calls []string // each of which is made to fail; "MMAP+1" is the second one
	text  string   // what the error must say
	do    func(W) error
}

// words has the calls that all devices support.
var words = []verb[*world]{
	{"AllocPD", []string{"ALLOC_PD"}, "create PD on siw0", func(w *world) error { return closing(w.dev.AllocPD()) }},
	{"AllocMR", []string{"REG_MR"}, "create MR on siw0", func(w *world) error { return closing(w.pd.AllocMR(100, 0, nil)) }},
	{"RegMR", []string{"REG_MR"}, "create MR on siw0", func(w *world) error { return closing(w.pd.RegMR(make([]byte, 100), 0)) }},
	{"CreateCompChannel", []string{"CREATE_COMP_CHANNEL", "EVENTS"}, "create completion channel on siw0", func(w *world) error {
		return closing(w.dev.CreateCompChannel())
	}},
	{"CreateCQ", []string{"CQ_CREATE", "MMAP"}, "create CQ on siw0", func(w *world) error {
		return closing(w.dev.CreateCQ(1, &uverbs.CQOptions{Channel: w.channel}))
	}},
	{"CreateSRQ", []string{"SRQ_CREATE", "MMAP"}, "create SRQ on siw0", func(w *world) error {
		return closing(w.pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 1, MaxSGE: 1}))
	}},
	{"CreateQP", []string{"QP_CREATE", "MMAP", "MMAP+1"}, "create QP on siw0", func(w *world) error {
		return closing(w.pd.CreateQP(w.qpOptions()))
	}},
	{"QP.Close", []string{"QP_DESTROY"}, "close QP 1 on siw0", func(w *world) error { return w.qp.Close() }},
	{"SRQ.Close", []string{"SRQ_DESTROY"}, "close SRQ ", func(w *world) error { return w.srq.Close() }},
	{"CQ.Close", []string{"CQ_DESTROY"}, "close CQ ", func(w *world) error {
		if err := w.qp.Close(); err != nil && !errors.Is(err, verbs.ErrClosed) {
			return err
		}
		return w.cq.Close()
	}},
	{"MR.Close", []string{"MR_DESTROY"}, "close MR ", func(w *world) error { return w.mr.Close() }},
	{"PD.Close", []string{"PD_DESTROY"}, "close PD 0 on siw0", func(w *world) error {
		for _, c := range []closer{w.qp, w.srq, w.mr} {
			if err := c.Close(); err != nil && !errors.Is(err, verbs.ErrClosed) {
				return err
			}
		}
		return w.pd.Close()
	}},
	{"QP.Modify", []string{"MODIFY_QP"}, "modify QP 1 on siw0", func(w *world) error {
		return w.qp.Modify(&verbs.QPAttr{State: verbs.QPStateInit}, verbs.QPAttrState)
	}},
	{"QP.Query", []string{"QUERY_QP"}, "query QP 1 on siw0", func(w *world) error { return failed(w.qp.Query()) }},
	{"SRQ.Query", []string{"QUERY_SRQ"}, "query SRQ ", func(w *world) error { return failed(w.srq.Query()) }},
	{"SRQ.SetLimit", []string{"MODIFY_SRQ"}, "set the limit of SRQ ", func(w *world) error { return w.srq.SetLimit(1) }},
	{"Device.QueryDevice", []string{"QUERY_DEVICE"}, "query device on siw0", func(w *world) error { return failed(w.dev.QueryDevice()) }},
	{"QueryPort", []string{"QUERY_PORT"}, "query port 1 of device on siw0", func(w *world) error { return failed(w.dev.QueryPort(1)) }},
	{"GIDTable", []string{"QUERY_GID_TABLE"}, "query the GID table of device on siw0", func(w *world) error { return failed(w.dev.GIDTable()) }},
	{"QueryGID", []string{"QUERY_GID_ENTRY"}, "query GID 0 of port 1 of device on siw0", func(w *world) error { return failed(w.dev.QueryGID(1, 0)) }},
	{"PostSend", []string{"POST_SEND"}, "post a send to QP 1 on siw0", func(w *world) error {
		w.kqp().Connect(16, 16)
		return failed(w.qp.PostSend([]verbs.SendWR{{}}))
	}},
}

// TestEveryErrno makes every kernel call of every verb fail with every errno. The error matches it,
// nothing leaks, and the verb works afterwards.
func TestEveryErrno(t *testing.T) { everyErrno(t, "siw0", newWorld, words) }

func everyErrno[W interface{ kernel() *fakeverbs.Kernel }](t *testing.T, device string, newWorld func(testing.TB) W, verbs []verb[W]) {
	for _, v := range verbs {
		for _, call := range v.calls {
			for _, errno := range errnos {
				if call == "CREATE_COMP_CHANNEL" && (errno == syscall.EINVAL || notSupported(errno)) {
					continue // then the channel polls
				}
				t.Run(fmt.Sprintf("%s/%s/%d", v.name, call, int(errno)), func(t *testing.T) {
					w := newWorld(t)
					k := w.kernel()
					alive, live := k.Alive(), regions.Live()
					name, later, _ := strings.Cut(call, "+")
					skip, _ := strconv.Atoi(later)
					k.Fail(name, skip, errno)
					// After EACCES a doorbell goes on by ioctl, which is refused then.
					k.OtherCredentials = errno == syscall.EACCES
					err := v.do(w)
					if !errors.Is(err, errno) || !strings.HasPrefix(fmt.Sprint(err), v.text) || !strings.Contains(fmt.Sprint(err), " on "+device) {
						t.Errorf("error is %q", err)
					}
					isNotSupported(t, err, device, notSupported(errno))
					if (strings.HasPrefix(v.text, "create") || strings.HasPrefix(v.text, "import")) && (!slices.Equal(k.Alive(), alive) || regions.Live() != live) {
						t.Errorf("%q and %d regions, before %q and %d", k.Alive(), regions.Live(), alive, live)
					}
					if err := v.do(w); err != nil {
						t.Errorf("after the failure: %v", err)
					}
				})
			}
		}
	}
}

// isNotSupported checks that an error that means "not supported" matches both sentinels and names the
// device and its driver.
func isNotSupported(t *testing.T, err error, device string, want bool) {
	t.Helper()
	if errors.Is(err, verbs.ErrNotSupported) != want || errors.Is(err, errors.ErrUnsupported) != want {
		t.Errorf("not supported: %v", err)
	}
	text := " on " + device + ": "
	if want {
		text = " on " + device + " (driver "
	}
	if !strings.Contains(fmt.Sprint(err), text) {
		t.Errorf("%q has no %q", err, text)
	}
}

// TestNotSupported checks that a missing feature of the device, its driver or the kernel is always
// the same kind of error. If the kernel refuses it, the error names the kernel's object and method.
func TestNotSupported(t *testing.T) {
	w := newWorld(t)
	for name, err := range map[string]error{
		"OpenXRCD": failed(w.dev.OpenXRCD(nil, os.O_CREATE)), "QueryClock": failed(w.dev.QueryClock()), "CreateAH": failed(w.pd.CreateAH(address)),
		"PollExt": failed(w.cq.PollExt(make([]verbs.WC, 1), make([]verbs.WCExt, 1))), "CreateFlow": failed(w.qp.CreateFlow(nil)),
		"AllocDM": failed(w.dev.AllocDM(64, 0)), "CreateWQ": failed(w.pd.CreateWQ(&uverbs.WQOptions{CQ: w.cq})), "NullMR": failed(w.pd.AllocNullMR()),
	} {
		t.Run(name, func(t *testing.T) { isNotSupported(t, err, "siw0", true) })
	}
	w.k.Fail("CQ_CREATE", 0, syscall.EPROTONOSUPPORT)
	w.k.Fail("MODIFY_QP", 0, syscall.EPROTONOSUPPORT)
	for text, err := range map[string]error{
		"create CQ on siw0 (driver siw): protocol not supported (the kernel's object CQ, method CQ_CREATE)": failed(w.dev.CreateCQ(1, nil)),
		"modify QP 1 on siw0 (driver siw): protocol not supported (the kernel's command MODIFY_QP)":         w.qp.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.QPAttrState),
	} {
		if isNotSupported(t, err, "siw0", true); !strings.Contains(fmt.Sprint(err), text) {
			t.Error(err)
		}
	}
}

// TestOpenEveryErrno does the same with the steps of opening a device.
func TestOpenEveryErrno(t *testing.T) {
	for _, c := range []struct {
		info  uverbs.DeviceInfo
		calls []string
	}{
		{siw0, []string{"GET_CONTEXT", "ASYNC_EVENT_ALLOC", "EVENTS"}},
		{rxe0, []string{"GET_CONTEXT", "QUERY_DEVICE", "ASYNC_EVENT_ALLOC", "EVENTS"}},
	} {
		for _, call := range c.calls {
			for _, errno := range errnos {
				k := fakeverbs.New(uint32(c.info.Driver))
				k.Fail(call, 0, errno)
				_, err := openOn(c.info, k)
				if !errors.Is(err, errno) || !strings.Contains(fmt.Sprint(err), "device on "+c.info.Name) {
					t.Errorf("%s: %v", call, err)
				}
				isNotSupported(t, err, c.info.Name, notSupported(errno))
				if leaks := k.Leaks(); len(leaks) > 0 {
					t.Errorf("%s: %v leaves %q", call, errno, leaks)
				}
			}
		}
	}
}

func TestHints(t *testing.T) {
	for _, c := range []struct {
		call  string
		errno syscall.Errno
		hint  string
		do    func(*world) error
	}{
		{"ALLOC_PD", syscall.EAGAIN, "rdma.max", func(w *world) error { return closing(w.dev.AllocPD()) }},
		{"QP_CREATE", syscall.EPERM, "CAP_NET_RAW", func(w *world) error { return closing(w.pd.CreateQP(w.qpOptions())) }},
		{"REG_MR", syscall.EAGAIN, "rdma.max", func(w *world) error { return closing(w.pd.AllocMR(1, 0, nil)) }},
		{"REG_MR", syscall.EFAULT, "not mapped", func(w *world) error { return closing(w.pd.AllocMR(1, 0, nil)) }},
		{"MR_DESTROY", syscall.EBUSY, "the kernel still uses it", func(w *world) error { return w.mr.Close() }},
	} {
		w := newWorld(t)
		w.k.Fail(c.call, 0, c.errno)
		if err := c.do(w); err == nil || !strings.Contains(err.Error(), c.hint) {
			t.Errorf("%s, %v: %v", c.call, c.errno, err)
		}
	}
	for errno, hint := range map[syscall.Errno]string{
		syscall.EAGAIN: "rdma.max", syscall.EPERM: "network namespace", syscall.EACCES: "0666",
	} {
		k := fakeverbs.New(uint32(verbs.DriverSIW))
		k.Fail("GET_CONTEXT", 0, errno)
		if _, err := openOn(siw0, k); err == nil || !strings.Contains(err.Error(), hint) {
			t.Errorf("open, %v: %v", errno, err)
		}
	}
}

// roceVerbs has the calls that only devices with RoCE support.
var roceVerbs = []verb[*roce]{
	{"CreateAH", []string{"CREATE_AH"}, "create AH on rxe0", func(w *roce) error { return closing(w.pd.CreateAH(address)) }},
	{"AH.Close", []string{"AH_DESTROY"}, "close AH ", func(w *roce) error { return w.ah.Close() }},
	{"AllocMW", []string{"ALLOC_MW"}, "create MW on rxe0", func(w *roce) error { return closing(w.pd.AllocMW(verbs.MWType2)) }},
	{"MW.Close", []string{"MW_DESTROY"}, "close MW ", func(w *roce) error { return w.mw.Close() }},
	{"CreateCQ", []string{"CQ_CREATE", "MMAP"}, "create CQ on rxe0", func(w *roce) error { return closing(w.dev.CreateCQ(1, nil)) }},
	{"CreateSRQ", []string{"SRQ_CREATE", "MMAP"}, "create SRQ on rxe0", func(w *roce) error {
		return closing(w.pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 1, MaxSGE: 1}))
	}},
	{"CreateQP", []string{"QP_CREATE", "MMAP", "MMAP+1"}, "create QP on rxe0", func(w *roce) error {
		return closing(w.pd.CreateQP(w.qpOptions()))
	}},
	{"CQ.Resize", []string{"RESIZE_CQ"}, "resize CQ ", func(w *roce) error { return w.cq.Resize(100) }},
	{"CQ.Arm", []string{"REQ_NOTIFY_CQ"}, "arm CQ ", func(w *roce) error { return w.cq.Arm(false) }},
	{"CQ.Arm solicited", []string{"REQ_NOTIFY_CQ"}, "arm CQ ", func(w *roce) error { return w.cq.Arm(true) }},
	{"SRQ.Resize", []string{"MODIFY_SRQ"}, "resize SRQ ", func(w *roce) error { return w.srq.Resize(100) }},
	{"SRQ.SetLimit", []string{"MODIFY_SRQ"}, "set the limit of SRQ ", func(w *roce) error { return w.srq.SetLimit(1) }},
	{"AttachMcast", []string{"ATTACH_MCAST"}, "attach to multicast group ff0e::1 QP 18 on rxe0", func(w *roce) error {
		if err := w.ud.AttachMcast(group, 0); err != nil {
			return err
		}
		return w.ud.DetachMcast(group, 0)
	}},
	{"DetachMcast", []string{"DETACH_MCAST"}, "detach from multicast group ff0e::1 QP 18 on rxe0", func(w *roce) error {
		return errors.Join(w.ud.AttachMcast(group, 0), w.ud.DetachMcast(group, 0))
	}},
	{"MR.Rereg access", []string{"REREG_MR"}, "change MR ", func(w *roce) error {
		access := verbs.AccessLocalWrite
		return w.mr.Rereg(&uverbs.ReregOptions{Access: &access})
	}},
	{"MR.Rereg PD", []string{"REREG_MR"}, "change MR ", func(w *roce) error { return w.mr.Rereg(&uverbs.ReregOptions{PD: w.other}) }},
	{"AHFromWC", []string{"QUERY_GID_TABLE"}, "query the GID table of device on rxe0", answering},
	{"AHFromWC's AH", []string{"CREATE_AH"}, "create AH on rxe0", answering},
	{"ChooseGID", []string{"QUERY_PORT"}, "query port 1 of device on rxe0", choosing},
	{"ChooseGID's table", []string{"QUERY_GID_TABLE"}, "query the GID table of device on rxe0", choosing},
	{"AdviseMR", []string{"ADVISE_MR"}, "advise on memory of PD 0 on rxe0", func(w *roce) error {
		w.k.OnDemand = true
		mr, err := w.pd.AllocMR(1, verbs.AccessOnDemand, nil)
		if err != nil {
			return err
		}
		return errors.Join(w.pd.AdviseMR(verbs.MRPrefetch, false, []verbs.SGE{mr.SGE(0, 1)}), mr.Close())
	}},
	{"QP.Connect", []string{"MODIFY_QP", "MODIFY_QP+1", "MODIFY_QP+2"}, "modify QP 19 on rxe0", connecting},
	{"QP.Connect's port", []string{"QUERY_PORT"}, "query port 1 of device on rxe0", connecting},
}

// answering creates an address handle from a message.
func answering(w *roce) error {
	return closing(w.pd.AHFromWC(1, &verbs.WC{Flags: verbs.WCGRH}, ipv4GRH(0, "10.0.0.9", "10.9.9.9")))
}

// connecting moves a new QP to RTS.
func connecting(w *roce) error {
	qp, err := w.pd.CreateQP(w.qpOptions())
	if err != nil {
		return err
	}
	if err = qp.Init(nil); err == nil {
		err = qp.Connect(&verbs.QPAttr{AH: *address})
	}
	return errors.Join(err, qp.Close())
}

func choosing(w *roce) error { return failed(w.dev.ChooseGID(1, nil)) }

func TestRoCEEveryErrno(t *testing.T) { everyErrno(t, "rxe0", newRoCE, roceVerbs) }

// TestConnectedEveryErrno is TestEveryErrno for calls that need a QP in RTS.
func TestConnectedEveryErrno(t *testing.T) {
	everyErrno(t, "rxe0", connected, []verb[*roce]{
		{"PostSend", []string{"POST_SEND"}, "post a send to QP 17 on rxe0", func(w *roce) error { return failed(w.qp.PostSend(send)) }},
		{"PostSend UD", []string{"POST_SEND"}, "post a send to QP 18 on rxe0", func(w *roce) error { return failed(w.ud.PostSend(w.datagram())) }},
	})
}

// TestLacking checks that siw refuses operations that only RoCE supports, and nothing changes.
func TestLacking(t *testing.T) {
	w := newWorld(t)
	access := verbs.AccessLocalWrite
	alive, calls := w.k.Alive(), w.k.Calls("MODIFY_SRQ")
	for name, err := range map[string]error{
		"CreateAH": failed(w.pd.CreateAH(address)), "AllocMW": failed(w.pd.AllocMW(verbs.MWType1)), "CQ.Resize": w.cq.Resize(100),
		"SRQ.Resize": w.srq.Resize(100), "AttachMcast": w.qp.AttachMcast(group, 0), "DetachMcast": w.qp.DetachMcast(group, 0),
		"Rereg": w.mr.Rereg(&uverbs.ReregOptions{Access: &access}),
	} {
		if !errors.Is(err, verbs.ErrNotSupported) || !strings.Contains(err.Error(), " on siw0 (driver siw): ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !slices.Equal(w.k.Alive(), alive) || w.k.Calls("MODIFY_SRQ") != calls || w.cq.Cap() != 16 || w.srq.MaxWR() != 4 {
		t.Errorf("%q, before %q; CQ of %d, SRQ of %d", w.k.Alive(), alive, w.cq.Cap(), w.srq.MaxWR())
	}
}

// TestRoCEHints checks that the kernel refuses wrong requests, and the errors name the mistake.
func TestRoCEHints(t *testing.T) {
	w := newRoCE(t)
	with := func(change func(*verbs.AHAttr)) *verbs.AHAttr {
		a := *address
		change(&a)
		return &a
	}
	writable := verbs.AccessRemoteWrite
	for _, c := range []struct {
		err   error
		errno syscall.Errno
		hint  string
	}{
		{failed(w.pd.CreateAH(nil)), syscall.EINVAL, "no address"},
		{failed(w.pd.CreateAH(with(func(a *verbs.AHAttr) { a.Global = false }))), syscall.EINVAL, "RoCE needs a Global address"},
		{failed(w.pd.CreateAH(with(func(a *verbs.AHAttr) { a.Port = 2 }))), syscall.EINVAL, "no such port"},
		{failed(w.pd.CreateAH(with(func(a *verbs.AHAttr) { a.SGIDIndex = 5 }))), syscall.ENODATA, "SGIDIndex must be a used slot"},
		{w.qp.Modify(&verbs.QPAttr{AH: verbs.AHAttr{Global: true, SGIDIndex: 5, Port: 1}}, verbs.QPAttrAV), syscall.ENODATA, "SGIDIndex must be a used slot"},
		{failed(w.pd.AllocMW(3)), syscall.EINVAL, ""},
		{w.qp.AttachMcast(group, 0), syscall.EINVAL, "only UD QPs take part in multicast"},
		{w.ud.AttachMcast(fakeverbs.IPv4GID, 0), syscall.EINVAL, "a multicast GID begins with ff"},
		{w.ud.DetachMcast(group, 0), syscall.EINVAL, ""},
		{w.cq.Resize(1 << 20), syscall.EINVAL, "1048576 is more than the device allows"},
		{w.srq.SetLimit(1000), syscall.EINVAL, "1000 is more than the SRQ's capacity of"},
		{w.srq.Resize(1 << 21), syscall.EINVAL, "2097152 is more than the device allows"},
		{w.srq.Resize(0), syscall.EINVAL, "maxWR is below 1"},
		{w.mr.Rereg(&uverbs.ReregOptions{Access: &writable}), syscall.EINVAL, "need AccessLocalWrite too"},
		{w.mr.Rereg(&uverbs.ReregOptions{}), syscall.EINVAL, "neither PD nor Access"},
	} {
		if !errors.Is(c.err, c.errno) || !strings.Contains(c.err.Error(), c.hint) {
			t.Errorf("%v, want %v: %q", c.err, c.errno, c.hint)
		}
	}
	if n := len(w.k.AddressHandles()) + len(w.k.MWs()); n != 2 {
		t.Errorf("%q", w.k.Alive())
	}
}
