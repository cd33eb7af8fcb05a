package netlinkrdma_test

import (
	"errors"
	"math"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
	"github.com/goverbs/goverbs/verbs"
)

var pools = []netlinkrdma.FRMRPool{
	{Key: netlinkrdma.FRMRPoolKey{VendorKey: 1 << 63, DMABlocks: 4096, AccessFlags: 15, ATS: true}, Queued: 5, InUse: 1 << 40, MaxInUse: 1 << 41, Pinned: 9},
	{Key: netlinkrdma.FRMRPoolKey{DMABlocks: 1}},
	{Key: netlinkrdma.FRMRPoolKey{DMABlocks: 1}, KernelVendorKey: 1},
}

func frmrKernel() *nltest.Kernel {
	k := kernel()
	k.Objects = map[uint32]nltest.Objects{7: {FRMRPools: pools}}
	return k
}

func TestFRMRPools(t *testing.T) {
	c := netlinkrdma.Client{Kernel: frmrKernel()}
	for details, want := range map[bool]any{true: pools, false: pools[:2]} {
		got, err := all(c.FRMRPools(7, &netlinkrdma.ListOptions{DriverDetails: details}))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("with details %t: %v (-want +got):\n%s", details, err, diff)
		}
	}
	if got, err := all(c.FRMRPools(3, nil)); err != nil || len(got.([]netlinkrdma.FRMRPool)) != 0 {
		t.Error("a driver without:", got, err)
	}
}

func TestPinFRMR(t *testing.T) {
	k := frmrKernel()
	c := netlinkrdma.Client{Kernel: k}
	fresh := netlinkrdma.FRMRPoolKey{VendorKey: 2, DMABlocks: 1 << 50, AccessFlags: 1, ATS: true}
	for key, handles := range map[netlinkrdma.FRMRPoolKey]uint32{pools[1].Key: 3, fresh: math.MaxUint32} {
		if err := c.PinFRMR(7, key, handles); err != nil {
			t.Fatal(err)
		}
		got, err := all(c.FRMRPools(7, nil))
		found := false
		for _, p := range got.([]netlinkrdma.FRMRPool) {
			found = found || p == netlinkrdma.FRMRPool{Key: key, Queued: handles, Pinned: handles}
		}
		if err != nil || !found {
			t.Errorf("%v: %v, %v", key, got, err)
		}
	}
}

func TestSetFRMRAging(t *testing.T) {
	k := frmrKernel()
	c := netlinkrdma.Client{Kernel: k}
	for period, want := range map[time.Duration]uint32{2 * time.Minute: 120, time.Second: 1, math.MaxUint32 * time.Second: math.MaxUint32} {
		if err := c.SetFRMRAging(7, period); err != nil || k.FRMRAging[7] != want {
			t.Error(period, err, k.FRMRAging)
		}
	}
	k.Requests = nil
	for _, period := range []time.Duration{0, -time.Second, time.Millisecond, 1500 * time.Millisecond, (math.MaxUint32 + 1) * time.Second} {
		err := c.SetFRMRAging(7, period)
		if !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "1 to 4294967295 whole seconds") || len(k.Requests) > 0 {
			t.Error(period, err, k.Requests)
		}
	}
}

// frmrCalls are all calls for pools.
func frmrCalls(c *netlinkrdma.Client) []resCall {
	const set = abi.RDMA_NLDEV_CMD_FRMR_POOLS_SET
	return []resCall{
		{"FRMRPools", abi.RDMA_NLDEV_CMD_FRMR_POOLS_GET, nil, func(d uint32) (any, error) { return all(c.FRMRPools(d, nil)) }},
		{"SetFRMRAging", set, nil, func(d uint32) (any, error) { return nil, c.SetFRMRAging(d, time.Second) }},
		{"PinFRMR", set, nil, func(d uint32) (any, error) { return nil, c.PinFRMR(d, pools[0].Key, 1) }},
	}
}

func TestFRMREveryErrno(t *testing.T) {
	k := frmrKernel()
	for _, test := range frmrCalls(&netlinkrdma.Client{Kernel: k}) {
		dump := test.op == abi.RDMA_NLDEV_CMD_FRMR_POOLS_GET
		for errno := syscall.Errno(1); errno < 134; errno++ {
			k.Fail = map[uint16]error{test.op: errno}
			_, err := test.call(7)
			if !errors.Is(err, errno) || !errors.As(err, new(*verbs.Error)) || !strings.Contains(err.Error(), "RDMA device 7") {
				t.Errorf("%s with %d: %v", test.name, errno, err)
			}
			for sentinel, want := range map[error]bool{
				netlinkrdma.ErrPermission:  errno == syscall.EPERM || errno == syscall.EACCES,
				netlinkrdma.ErrNoFRMRPools: errno == syscall.EINVAL && dump,
				netlinkrdma.ErrNotFound:    false,
				verbs.ErrNotSupported: errno == syscall.EPROTONOSUPPORT || errno == syscall.EAFNOSUPPORT || errno == syscall.ECONNREFUSED ||
					errno == syscall.EOPNOTSUPP || errno == syscall.ENOSYS || errno == syscall.ENOTTY || errno == syscall.EINVAL && dump,
			} {
				if errors.Is(err, sentinel) != want {
					t.Errorf("%s with %d: %v, is it %q?", test.name, errno, err, sentinel)
				}
			}
			if errno == syscall.EINVAL && !strings.Contains(err.Error(), "Linux 7.2") {
				t.Error(err)
			}
		}
		k.Fail = nil
		if _, err := test.call(77); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s of no device: %v", test.name, err)
		}
	}
}
