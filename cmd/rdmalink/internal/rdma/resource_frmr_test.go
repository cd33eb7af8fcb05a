package rdma

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli/clitest"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host/hosttest"
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
)

// poolMachine has siw0 without pools, and mlx5_0 with some.
func poolMachine() (*cli.Tool, *nltest.Kernel) {
	tool, kernel := clitest.Resources()
	kernel.Objects = map[uint32]nltest.Objects{7: {FRMRPools: []netlinkrdma.FRMRPool{
		{Key: netlinkrdma.FRMRPoolKey{VendorKey: 1 << 63, DMABlocks: 4096, AccessFlags: 15, ATS: true}, Queued: 5, InUse: 1 << 40, MaxInUse: 1 << 41, Pinned: 9},
		{Key: netlinkrdma.FRMRPoolKey{DMABlocks: 16}, Queued: 2},
		{Key: netlinkrdma.FRMRPoolKey{DMABlocks: 16}, KernelVendorKey: 3},
	}}}
	return tool, kernel
}

const (
	poolATS    = "dev mlx5_0 key 8000000000000000:1000:f:1 queue 5 in_use 1099511627776 max_in_use 2199023255552 pinned 9 \n"
	poolPlain  = "dev mlx5_0 key 0:10:0:0 queue 2 in_use 0 max_in_use 0 pinned 0 \n"
	poolKernel = "dev mlx5_0 key 0:10:0:0 ats 0 access_flags 0 vendor_key 0 num_dma_blocks 16 kernel_vendor_key 3 queue 0 in_use 0 max_in_use 0 pinned 0 \n"
)

func TestShowFRMRPools(t *testing.T) {
	details := strings.NewReplacer("f:1 ", "f:1 ats 1 access_flags 15 vendor_key 9223372036854775808 num_dma_blocks 4096 ",
		"0:0 ", "0:0 ats 0 access_flags 0 vendor_key 0 num_dma_blocks 16 ")
	for line, want := range map[string]string{
		"res show frmr_pools":                                      poolATS + poolPlain,
		"res show fr dev mlx5_0 -d":                                details.Replace(poolATS + poolPlain),
		"-dd res show frmr_pools":                                  details.Replace(poolATS+poolPlain) + poolKernel,
		"res show frmr_pools dev siw0":                             "",
		"res show frmr_pools ats 1":                                poolATS,
		"res show frmr_pools ats 0 vendor_key 0":                   poolPlain,
		"res show frmr_pools access_flags 0xf num_dma_blocks 4096": poolATS,
		"res show frmr_pools queue 1-3":                            poolPlain,
		"res show frmr_pools in_use 1-2000000000000 max_in_use 7":  "",
		"res show frmr_pools pinned 9 max_in_use 0-9000000000000":  poolATS,
		"-j res show frmr_pools dev mlx5_0 ats 0":                  `[{"ifindex":7,"ifname":"mlx5_0","key":"0:10:0:0","queue":2,"in_use":0,"max_in_use":0,"pinned":0}]` + "\n",
		"-jd res show frmr_pools ats 1":                            `[{"ifindex":7,"ifname":"mlx5_0","key":"8000000000000000:1000:f:1","ats":1,"access_flags":15,"vendor_key":9223372036854775808,"num_dma_blocks":4096,"queue":5,"in_use":1099511627776,"max_in_use":2199023255552,"pinned":9}]` + "\n",
	} {
		tool, _ := poolMachine()
		if diff := cmp.Diff(clitest.Result{Out: want}, runLine(tool, line, &hosttest.Netdevs{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
}

func TestSetFRMRPools(t *testing.T) {
	tool, kernel := poolMachine()
	for _, line := range []string{"res set frmr_pools dev mlx5_0 aging 120", "resource set fr dev mlx5_0 pin 0:10:0:0 25000"} {
		if got := runLine(tool, line, &hosttest.Netdevs{}); got.Code != 0 || got.Err != "" || got.Out != "" {
			t.Errorf("%s: %+v", line, got)
		}
	}
	want := strings.NewReplacer("queue 2", "queue 25000", "pinned 0", "pinned 25000").Replace(poolPlain)
	if got := runLine(tool, "res show frmr_pools ats 0", &hosttest.Netdevs{}); kernel.FRMRAging[7] != 120 || got.Out != want {
		t.Errorf("%v, %+v", kernel.FRMRAging, got)
	}
}

func TestSetFRMRPoolsErrors(t *testing.T) {
	for line, want := range map[string]clitest.Result{
		"res set frmr_pools":                               {Code: 2, Out: "", Err: "expected dev"},
		"res set frmr_pools dev":                           {Code: 2, Out: "", Err: "expected DEV"},
		"res set frmr_pools dev mlx5_0":                    {Code: 2, Out: "", Err: "expected one of aging, pinned"},
		"res set frmr_pools dev mlx5_0 x":                  {Code: 2, Out: "", Err: `"x": expected one of aging, pinned`},
		"res set frmr_pools dev mlx5_0 aging":              {Code: 2, Out: "", Err: "expected SECONDS"},
		"res set frmr_pools dev mlx5_0 aging 0":            {Code: 2, Out: "", Err: `"0": expected SECONDS, a number from 1 to 4294967295`},
		"res set frmr_pools dev mlx5_0 aging 4294967296":   {Code: 2, Out: "", Err: "expected SECONDS, a number"},
		"res set frmr_pools dev mlx5_0 pinned":             {Code: 2, Out: "", Err: "expected KEY"},
		"res set frmr_pools dev mlx5_0 pinned 0:0 1":       {Code: 2, Out: "", Err: `key "0:0" of an FRMR pool`},
		"res set frmr_pools dev mlx5_0 pinned 0:0:0:0":     {Code: 2, Out: "", Err: "expected HANDLES"},
		"res set frmr_pools dev mlx5_0 pinned 0:0:0:0 x":   {Code: 2, Out: "", Err: `"x": expected HANDLES, a number from 0`},
		"res set frmr_pools dev mlx5_0 pinned 0:0:0:0 1 2": {Code: 2, Out: "", Err: `unexpected argument "2"`},
		"res set frmr_pools dev mlx6 aging 1":              {Code: 1, Out: "", Err: `find RDMA device "mlx6": no such RDMA device`},
		"res set frmr_pools dev siw0 aging 1":              {Code: 1, Out: "", Err: "the device is gone or has no pool"},
		"res set":                                          {Code: 2, Out: "", Err: "expected one of frmr_pools, help"},
	} {
		tool, _ := poolMachine()
		got := runLine(tool, line, &hosttest.Netdevs{})
		if got.Code != want.Code || got.Out != "" || !strings.Contains(got.Err, want.Err) {
			t.Errorf("%s: %+v, want %+v", line, got, want)
		}
	}
	tool, kernel := poolMachine()
	kernel.Fail = map[uint16]error{abi.RDMA_NLDEV_CMD_FRMR_POOLS_GET: syscall.EINVAL}
	if got := runLine(tool, "-j res show frmr_pools", &hosttest.Netdevs{}); got.Code != 1 || got.Out != "" || !strings.Contains(got.Err, "older than Linux 7.2") {
		t.Errorf("%+v", got)
	}
}

// TestFRMRPoolsAsIproute2 compares output and requests with rdma's, if rdma
// supports pools.
func TestFRMRPoolsAsIproute2(t *testing.T) {
	r := newIproute2(t)
	if r.version.before(7, 1) {
		t.Skip("rdma knows no FRMR pools before 7.1, which no suite of Debian 12 has")
	}
	for _, line := range []string{
		"res show frmr_pools", "-d res show frmr_pools", "-dd res show frmr_pools", "-j res show frmr_pools", "-jpd res show frmr_pools",
		"res show frmr_pools dev mlx5_0 ats 0 num_dma_blocks 16", "res show fr queue 1-3 pinned 0",
		"res set frmr_pools dev mlx5_0 aging 120", "res set frmr_pools dev mlx5_0 pinned 0xf:1000:f:1 25000", "res set frmr_pools dev mlx5_0 pinned 0:10:0:0:0 0",
	} {
		_, kernel := poolMachine()
		want, failed := r.run(t, kernel, line)
		ours, ourKernel := poolMachine()
		got := runLine(ours, line, &hosttest.Netdevs{})
		if diff := cmp.Diff(want, got.Out); diff != "" || failed || got.Code != 0 {
			t.Errorf("%s, failed %t, exit code %d (-iproute2 +rdmalink):\n%s", line, failed, got.Code, diff)
		}
		if diff := cmp.Diff(setRequests(kernel), setRequests(ourKernel)); diff != "" {
			t.Errorf("%s (-iproute2 +rdmalink):\n%s", line, diff)
		}
	}
}

func setRequests(k *nltest.Kernel) []netlinkrdma.Request {
	return slices.DeleteFunc(k.Requests, func(r netlinkrdma.Request) bool { return r.Op != abi.RDMA_NLDEV_CMD_FRMR_POOLS_SET })
}
