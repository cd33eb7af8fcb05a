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

// TestAccessLacking has kernels refuse flags in their several ways. What the
// device says of itself decides what the error is.
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
		{plain, verbs.AccessOnDemand, syscall.EINVAL, true, "not supported (invalid argument): the device, or this kernel, has no OnDemand"}, // Linux 6.1
		{plain, verbs.AccessOnDemand, syscall.EOPNOTSUPP, true, "has no OnDemand"},                                                           // Linux 6.12
		{plain, all, syscall.EINVAL, true, "has no RemoteAtomic|MWBind|OnDemand|FlushGlobal|FlushPersistent ("},
		{full, all, syscall.EINVAL, false, "invalid argument"},
		{full, verbs.AccessRelaxedOrdering, syscall.EINVAL, false, "invalid argument"},
		{full, 1 << 10, syscall.EINVAL, true, "has no 0x400"},
		{plain, verbs.AccessHugeTLB | verbs.AccessZeroBased, syscall.EOPNOTSUPP, true, "the driver takes no ZeroBased|HugeTLB"},
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

// TestAccessUnexplained has the device not answer either.
func TestAccessUnexplained(t *testing.T) {
	k := fakeverbs.New(uint32(verbs.DriverHNS))
	pd := openBare(t, k, verbs.QPTypeRC).PD()
	k.Fail("REG_MR", 0, syscall.EINVAL)
	k.Fail("QUERY_DEVICE", 0, syscall.EIO)
	if err := closing(pd.AllocMR(1, verbs.AccessOnDemand, nil)); err == nil || !strings.HasSuffix(err.Error(), "invalid argument") {
		t.Error(err)
	}
}
