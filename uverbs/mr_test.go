package uverbs_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	fakemlx5 "github.com/goverbs/goverbs/internal/fakeverbs/mlx5"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestRegMRKeepsSlice checks that only a region references a slice while the collector runs and the
// stack moves.
func TestRegMRKeepsSlice(t *testing.T) {
	w := newWorld(t)
	mr := must[*uverbs.MR](t)(w.pd.RegMR(make([]byte, 3*4096), verbs.AccessLocalWrite))
	addr := mr.Addr()
	for i := range mr.Bytes() {
		mr.Bytes()[i] = 0xa5
	}
	for range 3 {
		grow(1000)
		runtime.GC()
		_ = make([]byte, 3*4096)
	}
	if mr.Addr() != addr {
		t.Errorf("moved from %#x to %#x", addr, mr.Addr())
	}
	for i, b := range mr.Bytes() {
		if b != 0xa5 {
			t.Fatalf("byte %d is %#x", i, b)
		}
	}
	k := w.k.MRs()[1]
	if k.Start != addr || k.Length != 3*4096 || k.Access != uint32(verbs.AccessLocalWrite) || mr.LKey() != k.Key || mr.RKey() != k.Key {
		t.Errorf("the kernel has %+v", k)
	}
	if sge := mr.SGE(10, 20); sge != (verbs.SGE{Addr: addr + 10, Length: 20, LKey: k.Key}) {
		t.Errorf("%+v", sge)
	}
	if err := mr.Close(); err != nil {
		t.Fatal(err)
	}
}

func grow(n int) int {
	var room [128]byte
	if n == 0 {
		return int(room[0])
	}
	return grow(n-1) + int(room[n%128])
}

// TestRegMRLetsGo checks that a slice is collected after its region was closed or refused.
func TestRegMRLetsGo(t *testing.T) {
	w := newWorld(t)
	for _, refuse := range []bool{false, true} {
		collected := make(chan struct{})
		func() {
			b := new([4096]byte)
			runtime.SetFinalizer(b, func(*[4096]byte) { close(collected) })
			if refuse {
				w.k.Fail("REG_MR", 0, syscall.ENOMEM)
			}
			mr, err := w.pd.RegMR(b[:], 0)
			if refuse != (err != nil) {
				t.Error(err)
			}
			if err == nil {
				if err := mr.Close(); err != nil {
					t.Error(err)
				}
			}
		}()
		_ = within(t, "the collector", run(func() error {
			for {
				runtime.GC()
				select {
				case <-collected:
					return nil
				default:
				}
			}
		}))
	}
}

func TestRefusedMemory(t *testing.T) {
	w := newWorld(t)
	for name, err := range map[string]error{
		"nil":      failed(w.pd.RegMR(nil, 0)),
		"empty":    failed(w.pd.RegMR([]byte{}, 0)),
		"size 0":   failed(w.pd.AllocMR(0, 0, nil)),
		"negative": failed(w.pd.AllocMR(-1, 0, nil)),
	} {
		if !errors.Is(err, syscall.EINVAL) && !strings.Contains(err.Error(), "invalid") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := w.pd.AllocMR(1, verbs.AccessRemoteWrite, nil); !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "AccessLocalWrite") {
		t.Error(err)
	}
}

func TestAllocMRSize(t *testing.T) {
	w := newWorld(t)
	mr := must[*uverbs.MR](t)(w.pd.AllocMR(5, 0, nil))
	defer mr.Close()
	if mr.Len() != 5 || len(mr.Bytes()) != 5 || cap(mr.Bytes()) != 5 {
		t.Errorf("%d bytes, room for %d", len(mr.Bytes()), cap(mr.Bytes()))
	}
}

func TestAllocMRAlign(t *testing.T) {
	w := newWorld(t)
	for _, align := range []int{1, 64, 1 << 16, 2 << 20} {
		mr := must[*uverbs.MR](t)(w.pd.AllocMR(5000, 0, &uverbs.MROptions{Align: align}))
		if mr.Addr()%uint64(align) != 0 || len(mr.Bytes()) != 5000 || w.k.MRs()[1].Start != mr.Addr() {
			t.Errorf("alignment %d: %d bytes at %#x", align, len(mr.Bytes()), mr.Addr())
		}
		if err := mr.Close(); err != nil {
			t.Error(err)
		}
	}
	var e *verbs.Error
	if _, err := w.pd.AllocMR(5000, 0, &uverbs.MROptions{Align: 48}); !errors.As(err, &e) || e.Device != "siw0" || !strings.Contains(err.Error(), "alignment 48 is not a power of two") {
		t.Error(err)
	}
}

// TestBytesAfterClose checks that Bytes returns nil after Close, but all of the memory after a Close
// that failed.
func TestBytesAfterClose(t *testing.T) {
	w := newWorld(t)
	mine := make([]byte, 4096)
	for name, mr := range map[string]*uverbs.MR{
		"allocated": must[*uverbs.MR](t)(w.pd.AllocMR(4096, verbs.AccessLocalWrite, nil)),
		"caller's":  must[*uverbs.MR](t)(w.pd.RegMR(mine, verbs.AccessLocalWrite)),
	} {
		w.k.Fail("MR_DESTROY", 0, syscall.EBUSY)
		if err := mr.Close(); !errors.Is(err, syscall.EBUSY) || len(mr.Bytes()) != 4096 {
			t.Errorf("%s, after a Close that failed: %d bytes, %v", name, len(mr.Bytes()), err)
		}
		if err := mr.Close(); err != nil || mr.Bytes() != nil || mr.Len() != 4096 {
			t.Errorf("%s, after Close: %d bytes, Len %d, %v", name, len(mr.Bytes()), mr.Len(), err)
		}
	}
}

// TestBytesBesideClose checks that once Bytes has returned nil, it always does, and it returns nil
// after Close.
func TestBytesBesideClose(t *testing.T) {
	w := newWorld(t)
	for range 100 {
		mr := must[*uverbs.MR](t)(w.pd.AllocMR(4096, verbs.AccessLocalWrite, nil))
		seen := make(chan bool)
		go func() {
			for mr.Bytes() != nil {
				runtime.Gosched()
			}
			seen <- mr.Bytes() == nil
		}()
		if err := mr.Close(); err != nil || mr.Bytes() != nil {
			t.Fatal(len(mr.Bytes()), err)
		}
		if !<-seen {
			t.Fatal("Bytes came back")
		}
	}
}

// TestSGEOutOfReach checks that MR.SGE returns an SGE that every post refuses, if the length does not
// fit.
func TestSGEOutOfReach(t *testing.T) {
	w := newWorld(t)
	w.kqp().Connect(16, 16)
	for _, c := range []struct{ off, n int }{{0, 5 << 30}, {0, 1 << 32}, {0, 1<<32 - 1}, {1 << 40, 1 << 40}, {0, math.MaxInt}, {0, -1}, {0, math.MinInt}, {-1, 1},
		{0, w.mr.Len() + 1}, {w.mr.Len(), 1}, {math.MaxInt, math.MaxInt}, {w.mr.Len() + 1, 0}} {
		sgl := []verbs.SGE{w.mr.SGE(c.off, c.n)}
		if sgl[0].Length != verbs.BadLength {
			t.Errorf("%+v: %+v", c, sgl)
		}
		for name, post := range map[string]func() (int, error){
			"send":    func() (int, error) { return w.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, SGL: sgl}}) },
			"receive": func() (int, error) { return w.qp.PostRecv([]verbs.RecvWR{{SGL: sgl}}) },
			"SRQ":     func() (int, error) { return w.srq.PostRecv([]verbs.RecvWR{{SGL: sgl}}) },
		} {
			if n, err := post(); n != 0 || !errors.Is(err, verbs.ErrInvalidWR) {
				t.Errorf("%s of %+v: %d, %v", name, c, n, err)
			}
		}
	}
	size := w.mr.Len()
	if got := w.mr.SGE(size-3, 3); got.Length != 3 || got.Addr != w.mr.Addr()+uint64(size-3) {
		t.Errorf("%+v", got)
	}
	if err := w.mr.Close(); err != nil {
		t.Fatal(err)
	}
	if got := w.mr.SGE(0, 1); got.Length != verbs.BadLength {
		t.Errorf("a closed region: %+v", got)
	}
}

// TestAccessLacking checks that kernels refuse flags with different errnos. The device's capabilities
// decide which error is returned.
func TestAccessLacking(t *testing.T) {
	const all = verbs.AccessLocalWrite | verbs.AccessOnDemand | verbs.AccessFlushGlobal | verbs.AccessFlushPersistent | verbs.AccessMWBind | verbs.AccessRemoteAtomic
	plain := abi.IbUverbsExQueryDeviceResp{}
	full := abi.IbUverbsExQueryDeviceResp{
		OdpCaps:          abi.IbUverbsOdpCaps{GeneralCaps: abi.IB_ODP_SUPPORT},
		DeviceCapFlagsEx: abi.IB_UVERBS_DEVICE_FLUSH_GLOBAL | abi.IB_UVERBS_DEVICE_FLUSH_PERSISTENT | abi.IB_UVERBS_DEVICE_MEM_WINDOW_TYPE_2B,
		Base:             abi.IbUverbsQueryDeviceResp{AtomicCap: abi.IB_ATOMIC_HCA},
	}
	for _, c := range []struct {
		device      abi.IbUverbsExQueryDeviceResp
		access      verbs.Access
		errno       syscall.Errno
		unsupported bool
		want        string
	}{
		{plain, verbs.AccessOnDemand, syscall.EINVAL, true, "not supported (invalid argument): the device or this kernel does not support OnDemand"}, // Linux 6.1
		{plain, verbs.AccessOnDemand, syscall.EOPNOTSUPP, true, "does not support OnDemand"},                                                         // Linux 6.12
		{plain, all, syscall.EINVAL, true, "does not support RemoteAtomic|MWBind|OnDemand|FlushGlobal|FlushPersistent ("},
		{full, all, syscall.EINVAL, false, "invalid argument"},
		{full, verbs.AccessRelaxedOrdering, syscall.EINVAL, false, "invalid argument"},
		{full, 1 << 10, syscall.EINVAL, true, "does not support 0x400"},
		{plain, verbs.AccessHugeTLB | verbs.AccessZeroBased, syscall.EOPNOTSUPP, true, "the driver does not support ZeroBased|HugeTLB"},
		{plain, verbs.AccessHugeTLB, syscall.EINVAL, false, "invalid argument"},
		{plain, verbs.AccessRemoteWrite | verbs.AccessOnDemand, syscall.EINVAL, false, "need AccessLocalWrite too"},
		{plain, verbs.AccessOnDemand, syscall.EIO, false, "input/output error"},
	} {
		k := fakeverbs.New(uint32(verbs.DriverHNS))
		k.Tamper = func(call string, r *ioctl.Request) {
			if call == "QUERY_DEVICE" {
				ioctl.Answer(r, abi.UVERBS_ATTR_CORE_OUT, &c.device)
			}
		}
		pd := openBare(t, k, verbs.QPTypeRC).PD()
		for range 2 { // the second time without asking the device
			k.Fail("REG_MR", 0, c.errno)
			err := closing(pd.AllocMR(1, c.access, nil))
			if !errors.Is(err, c.errno) || errors.Is(err, verbs.ErrNotSupported) != c.unsupported || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v: %v, want %q", c.access, err, c.want)
			}
		}
		if n := k.Calls("QUERY_DEVICE"); n > 1 {
			t.Errorf("%v: asked %d times", c.access, n)
		}
	}
}

// TestAccessUnexplained checks the error if the capabilities can't be queried, either.
func TestAccessUnexplained(t *testing.T) {
	k := fakeverbs.New(uint32(verbs.DriverHNS))
	pd := openBare(t, k, verbs.QPTypeRC).PD()
	k.Fail("REG_MR", 0, syscall.EINVAL)
	k.Fail("QUERY_DEVICE", 0, syscall.EIO)
	if err := closing(pd.AllocMR(1, verbs.AccessOnDemand, nil)); err == nil || !strings.HasSuffix(err.Error(), "invalid argument") {
		t.Error(err)
	}
}

func TestAdviseMR(t *testing.T) {
	k := fakeverbs.New(uint32(verbs.DriverHNS))
	k.OnDemand = true
	var flags uint64
	var advice, list []byte
	k.Tamper = func(call string, r *ioctl.Request) {
		if call == "ADVISE_MR" {
			flags, _ = r.Value(abi.UVERBS_ATTR_ADVISE_MR_FLAGS)
			advice, _ = r.Bytes(abi.UVERBS_ATTR_ADVISE_MR_ADVICE)
			list, _ = r.Bytes(abi.UVERBS_ATTR_ADVISE_MR_SGE_LIST)
		}
	}
	pd := openBare(t, k, verbs.QPTypeRC).PD()
	mr := must[*uverbs.MR](t)(pd.AllocMR(8192, verbs.AccessLocalWrite|verbs.AccessOnDemand, nil))
	defer mr.Close()
	sgl := []verbs.SGE{mr.SGE(0, 100), mr.SGE(4096, 200)}
	if err := pd.AdviseMR(verbs.MRPrefetchWrite, true, sgl); err != nil {
		t.Fatal(err)
	}
	var want []byte
	for _, s := range sgl {
		want = binary.NativeEndian.AppendUint64(want, s.Addr)
		want = binary.NativeEndian.AppendUint32(want, s.Length)
		want = binary.NativeEndian.AppendUint32(want, s.LKey)
	}
	if !slices.Equal(list, want) || advice[0] != 1 || flags != abi.IB_UVERBS_ADVISE_MR_FLAG_FLUSH {
		t.Errorf("advice %v, flags %d, %x", advice, flags, list)
	}
	if err := pd.AdviseMR(verbs.MRPrefetchNoFault, false, sgl[:1]); err != nil || len(list) != 16 || advice[0] != 2 || flags != 0 {
		t.Errorf("%v: advice %v, flags %d, %x", err, advice, flags, list)
	}
	if err := pd.AdviseMR(9, false, sgl); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
	for errno, hint := range map[syscall.Errno]string{
		syscall.EPERM: "not writable", syscall.EFAULT: "outside its region", syscall.EOPNOTSUPP: "does not support on-demand paging", syscall.ENOENT: "region of another PD",
		syscall.EIO: "input/output error",
	} {
		k.Fail("ADVISE_MR", 0, errno)
		if err := pd.AdviseMR(verbs.MRPrefetch, false, sgl); !errors.Is(err, errno) || !strings.Contains(err.Error(), hint) {
			t.Errorf("%v: %v", errno, err)
		}
	}
}

// TestAdviseRefused checks that uverbs refuses advice that the kernel does not check.
func TestAdviseRefused(t *testing.T) {
	k := fakeverbs.New(uint32(verbs.DriverHNS))
	k.OnDemand = true
	pd := openBare(t, k, verbs.QPTypeRC).PD()
	pinned := must[*uverbs.MR](t)(pd.AllocMR(1, verbs.AccessLocalWrite, nil))
	defer pinned.Close()
	closed := must[*uverbs.MR](t)(pd.AllocMR(1, verbs.AccessLocalWrite|verbs.AccessOnDemand, nil))
	old := closed.SGE(0, 1)
	k.Fail("MR_DESTROY", 0, syscall.EBUSY)
	if err := closed.Close(); !errors.Is(err, syscall.EBUSY) {
		t.Fatal(err)
	}
	if err := pd.AdviseMR(verbs.MRPrefetch, false, []verbs.SGE{old}); err != nil {
		t.Error("a region that would not close:", err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	before := k.Calls("ADVISE_MR")
	for name, c := range map[string]struct {
		sgl  []verbs.SGE
		want string
	}{
		"nothing": {nil, "1 to 4095 entries"}, "too much": {make([]verbs.SGE, 4096), "1 to 4095 entries"},
		"pinned": {[]verbs.SGE{pinned.SGE(0, 1)}, "has no AccessOnDemand"}, "closed": {[]verbs.SGE{old}, "has no AccessOnDemand"},
		"4 GiB": {[]verbs.SGE{pinned.SGE(0, 1<<32)}, "entry 0 has BadLength"},
	} {
		if err := pd.AdviseMR(verbs.MRPrefetch, false, c.sgl); !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := k.Calls("ADVISE_MR"); n != before {
		t.Errorf("%d calls reached the kernel", n-before)
	}
}

// TestAdviseAfterRereg checks that after Rereg, only the new key is valid.
func TestAdviseAfterRereg(t *testing.T) {
	k := fakeverbs.New(uint32(verbs.DriverHNS))
	k.OnDemand = true
	k.Tamper = func(call string, r *ioctl.Request) {
		if call == "REREG_MR" {
			ioctl.Answer(r, abi.UVERBS_ATTR_CORE_OUT, &abi.IbUverbsReregMrResp{Lkey: 77, Rkey: 77})
		}
	}
	pd := openBare(t, k, verbs.QPTypeRC).PD()
	mr := must[*uverbs.MR](t)(pd.AllocMR(1, verbs.AccessLocalWrite|verbs.AccessOnDemand, nil))
	defer mr.Close()
	old := mr.SGE(0, 1)
	access := verbs.AccessLocalWrite | verbs.AccessRemoteRead
	if err := mr.Rereg(&uverbs.ReregOptions{Access: &access}); err != nil {
		t.Fatal(err)
	}
	if err := pd.AdviseMR(verbs.MRPrefetch, false, []verbs.SGE{mr.SGE(0, 1)}); !errors.Is(err, syscall.ENOENT) || k.Calls("ADVISE_MR") != 1 {
		t.Error("the kernel, which has not heard of the new key, was not asked:", err)
	}
	if err := pd.AdviseMR(verbs.MRPrefetch, false, []verbs.SGE{old}); !errors.Is(err, syscall.EINVAL) || k.Calls("ADVISE_MR") != 1 {
		t.Error("the old key still works:", err)
	}
}

// TestImplicitMR checks that the kernel gets address 0 and the greatest length, and pins nothing.
func TestImplicitMR(t *testing.T) {
	k, dev := open(t, mlx50)
	pd := must[*uverbs.PD](t)(dev.AllocPD())
	pinned := int64(0)
	k.Pin = func(bytes int64) error { pinned += bytes; return nil }
	mr := must[*uverbs.MR](t)(pd.RegImplicitMR(verbs.AccessLocalWrite))
	const want = abi.IB_UVERBS_ACCESS_LOCAL_WRITE | abi.IB_UVERBS_ACCESS_ON_DEMAND
	if r := k.MRs()[0]; r.Start != 0 || r.Length != math.MaxUint64 || r.Access != want || pinned != 0 {
		t.Errorf("%+v, %d bytes pinned", r, pinned)
	}
	if mr.Addr() != 0 || mr.Len() != math.MaxInt || mr.Bytes() != nil || mr.SGE(1<<40, 5) != (verbs.SGE{Addr: 1 << 40, Length: 5, LKey: mr.LKey()}) {
		t.Errorf("%+v", mr.SGE(1<<40, 5))
	}
	k.Fail("REG_MR", 0, syscall.ENOMEM)
	if _, err := pd.RegImplicitMR(0); !errors.Is(err, syscall.ENOMEM) {
		t.Error(err)
	}
	if _, err := pd.RegImplicitMR(verbs.AccessRemoteWrite); !errors.Is(err, syscall.EINVAL) || errors.Is(err, verbs.ErrNotSupported) || !strings.Contains(err.Error(), "AccessLocalWrite") {
		t.Error("remote rights alone:", err)
	}
	closeAll(t, mr, pd)
}

// TestNoImplicitMR checks the errors of a device without on-demand paging, and of one that supports
// it for ranges only.
func TestNoImplicitMR(t *testing.T) {
	for name, onDemand := range map[string]bool{"siw": false, "rxe of Linux 7.2": true} {
		info := siw0
		if onDemand {
			info = rxe0
		}
		w := worldOn(t, info)
		w.k.OnDemand = onDemand
		if _, err := w.pd.RegImplicitMR(0); !errors.Is(err, verbs.ErrNotSupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPrefetch prefetches a large region in steps.
func TestPrefetch(t *testing.T) {
	k, dev := open(t, mlx50)
	pd := must[*uverbs.PD](t)(dev.AllocPD())
	const size = 150 << 20
	mr := must[*uverbs.MR](t)(pd.AllocMR(size, verbs.AccessLocalWrite|verbs.AccessOnDemand, nil))
	defer closeAll(t, mr, pd)
	if err := mr.Prefetch(t.Context(), verbs.MRPrefetchWrite, 4096, size-4096); err != nil || k.Calls("ADVISE_MR") != 3 {
		t.Fatal(err, k.Calls("ADVISE_MR"))
	}
	ctx, cancel := context.WithCancel(t.Context())
	k.Tamper = func(string, *ioctl.Request) { cancel() }
	err := mr.Prefetch(ctx, verbs.MRPrefetch, 0, size)
	k.Tamper = nil
	if !errors.Is(err, context.Canceled) || k.Calls("ADVISE_MR") != 4 {
		t.Error(err, k.Calls("ADVISE_MR"))
	}
	for name, c := range map[string]struct {
		err  error
		want error
	}{
		"no bytes":        {mr.Prefetch(t.Context(), verbs.MRPrefetch, 0, 0), nil},
		"behind the end":  {mr.Prefetch(t.Context(), verbs.MRPrefetch, size, 1), syscall.EINVAL},
		"negative":        {mr.Prefetch(t.Context(), verbs.MRPrefetch, -1, 1), syscall.EINVAL},
		"negative length": {mr.Prefetch(t.Context(), verbs.MRPrefetch, 0, -1), syscall.EINVAL},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v", name, c.err)
		}
	}
}

// TestNullMR checks that the kernel is not asked for a null region. Operations that need the kernel
// fail.
func TestNullMR(t *testing.T) {
	k, dev := open(t, mlx50)
	pd := must[*uverbs.PD](t)(dev.AllocPD())
	calls := 0
	k.Refuse = func(string) error { calls++; return nil }
	mr := must[*uverbs.MR](t)(pd.AllocNullMR())
	if mr.LKey() == 0 || mr.RKey() != 0 || mr.Handle() != 0 || mr.Len() != math.MaxInt || mr.Addr() != 0 || mr.Bytes() != nil || mr.PD() != pd {
		t.Errorf("%+v", mr)
	}
	access := verbs.AccessLocalWrite
	sgl := []verbs.SGE{mr.SGE(0, 100)}
	for name, err := range map[string]error{
		"Query":    second(mr.Query()),
		"Rereg":    mr.Rereg(&uverbs.ReregOptions{Access: &access}),
		"AdviseMR": pd.AdviseMR(verbs.MRPrefetch, true, sgl),
	} {
		if !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := pd.Close(); !errors.Is(err, verbs.ErrInUse) {
		t.Error("a domain with a region:", err)
	}
	closeAll(t, mr)
	if err := mr.Close(); !errors.Is(err, verbs.ErrClosed) {
		t.Error("closed twice:", err)
	}
	if calls > 0 {
		t.Errorf("the kernel was called %d times", calls)
	}
	closeAll(t, pd)
	if _, err := pd.AllocNullMR(); !errors.Is(err, verbs.ErrClosed) {
		t.Error("a closed domain:", err)
	}
}

func second[T any](_ T, err error) error { return err }

// TestNoNullMR checks that other drivers have no null key, and older kernels do not report it.
func TestNoNullMR(t *testing.T) {
	old := fakeverbs.New(uint32(verbs.DriverMLX5))
	fakemlx5.OptionsOf(old).NoNullKey = true
	for _, dev := range []*uverbs.Device{newWorld(t).dev, openWith(t, old, mlx50)} {
		pd := must[*uverbs.PD](t)(dev.AllocPD())
		if _, err := pd.AllocNullMR(); !errors.Is(err, verbs.ErrNotSupported) || !strings.Contains(err.Error(), "create MR on "+dev.Info().Name) {
			t.Error(err)
		}
		closeAll(t, pd) // nothing is left of it
	}
}

// TestReregMoves moves a region: the new domain can't be closed, the old one can.
func TestReregMoves(t *testing.T) {
	w := newRoCE(t)
	access := verbs.AccessLocalWrite | verbs.AccessRemoteRead
	if err := w.mr.Rereg(&uverbs.ReregOptions{PD: w.other, Access: &access}); err != nil {
		t.Fatal(err)
	}
	if k := w.k.MRs()[0]; k.Access != uint32(access) || k.PD != 5 || w.mr.PD() != w.other {
		t.Errorf("the kernel has %+v", k)
	}
	if err := w.other.Close(); !errors.Is(err, verbs.ErrInUse) || !strings.Contains(err.Error(), "close MR 1 first") {
		t.Error(err)
	}
	closeAll(t, w.ud, w.ah, w.mw, w.qp, w.srq)
	if err := w.pd.Close(); err != nil {
		t.Errorf("the old domain: %v", err)
	}
	if err := w.mr.Close(); err != nil {
		t.Error(err)
	}
	if err := w.other.Close(); err != nil {
		t.Error(err)
	}
}

// TestReregStays checks that a region stays in its domain if a move is refused, and that a move to
// the same domain does nothing.
func TestReregStays(t *testing.T) {
	foreign := newRoCE(t).pd
	w := newRoCE(t)
	w.k.Fail("REREG_MR", 0, syscall.ENOMEM)
	if err := w.mr.Rereg(&uverbs.ReregOptions{PD: w.other}); !errors.Is(err, syscall.ENOMEM) || w.mr.PD() != w.pd {
		t.Error(err)
	}
	if err := w.other.Close(); err != nil {
		t.Errorf("the domain that it did not move to: %v", err)
	}
	if err := w.mr.Rereg(&uverbs.ReregOptions{PD: w.pd}); err != nil {
		t.Error(err)
	}
	if err := w.mr.Rereg(&uverbs.ReregOptions{PD: foreign}); !errors.Is(err, verbs.ErrClosed) || !strings.Contains(err.Error(), "another device") {
		t.Error(err)
	}
	closeAll(t, w.ud, w.ah, w.mw, w.qp, w.srq)
	if err := w.pd.Close(); !errors.Is(err, verbs.ErrInUse) {
		t.Error(err)
	}
}

// TestReregKeys checks that a region has the keys that the kernel gives it, as NICs do, when it
// changes.
func TestReregKeys(t *testing.T) {
	w := newRoCE(t)
	w.k.Tamper = func(call string, r *ioctl.Request) {
		if call == "REREG_MR" {
			ioctl.Answer(r, abi.UVERBS_ATTR_CORE_OUT, &abi.IbUverbsReregMrResp{Lkey: 12, Rkey: 13})
		}
	}
	access := verbs.AccessLocalWrite
	if err := w.mr.Rereg(&uverbs.ReregOptions{Access: &access}); err != nil {
		t.Fatal(err)
	}
	if w.mr.LKey() != 12 || w.mr.RKey() != 13 || w.mr.SGE(0, 1).LKey != 12 {
		t.Errorf("keys %d and %d", w.mr.LKey(), w.mr.RKey())
	}
}

// TestReregTogether checks that a region that two goroutines move back and forth ends up in exactly
// one domain.
func TestReregTogether(t *testing.T) {
	w := newRoCE(t)
	closeAll(t, w.ud, w.ah, w.mw, w.qp, w.srq)
	var wg sync.WaitGroup
	for _, pd := range []*uverbs.PD{w.pd, w.other} {
		wg.Go(func() {
			for range 1000 {
				if err := w.mr.Rereg(&uverbs.ReregOptions{PD: pd}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	free := 0
	for _, pd := range []*uverbs.PD{w.pd, w.other} {
		if err := pd.Close(); err == nil {
			free++
		} else if !errors.Is(err, verbs.ErrInUse) || pd != w.mr.PD() {
			t.Error(err)
		}
	}
	if free != 1 {
		t.Errorf("%d domains are free", free)
	}
}
