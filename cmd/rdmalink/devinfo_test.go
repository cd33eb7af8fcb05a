package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host/hosttest"
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
	"github.com/goverbs/goverbs/uverbs"
)

// informed is a machine with an InfiniBand adapter, for which there is no
// provider, and a siw device, none of which can be opened unless a test says so.
func informed() (*tool, *nltest.Kernel, *hosttest.Netdevs) {
	t, kernel, nets := machine()
	kernel.Devices[0].Index = 1
	kernel.Ports[0].DeviceIndex = 1
	kernel.Devices = append(kernel.Devices, netlinkrdma.Device{Index: 5, Name: "mlx5_0", Ports: 1, NodeType: netlinkrdma.NodeCA, Protocol: "ib",
		FWVersion: "16.35.2000", NodeGUID: 0xb8599f0300a1b2c3, SysImageGUID: 0xb8599f0300a1b2c3})
	kernel.Ports = append(kernel.Ports, netlinkrdma.Port{DeviceIndex: 5, DeviceName: "mlx5_0", Index: 1, State: netlinkrdma.PortActive,
		PhysState: netlinkrdma.PhysLinkUp, InfiniBand: true, SubnetPrefix: 0xfe80000000000000, LID: 12, SMLID: 1})
	kernel.CharDevs = map[uint32]netlinkrdma.CharDev{
		1: {Name: "uverbs0", ABI: 1, Major: 231, Minor: 192, DriverID: uint32(uverbs.DriverSIW)},
		5: {Name: "uverbs1", ABI: 1, Major: 231, Minor: 193, DriverID: uint32(uverbs.DriverMLX5)},
	}
	for i := range nets.All {
		nets.All[i].Index = uint32(i) + fakeverbs.Netdev - 1 // that of dummy0 is behind GIDs
	}
	t.Sys = hosttest.Tree(map[string]string{
		"class/infiniband/siw0/node_desc":                   "Software iWARP stack",
		"class/infiniband/mlx5_0/node_desc":                 "node7 mlx5_0",
		"class/infiniband/mlx5_0/board_id":                  "MT_0000000008",
		"class/infiniband/mlx5_0/hca_type":                  "MT4119",
		"class/infiniband/mlx5_0/device":                    "-> ../../../0000:3b:00.0",
		"devices/0000:3b:00.0/numa_node":                    "1",
		"devices/0000:3b:00.0/subsystem":                    "-> ../../bus/pci",
		"class/infiniband/siw0/device":                      "-> ../../../virtual",
		"devices/virtual/numa_node":                         "-1",
		"devices/virtual/subsystem":                         "-> ../../bus/platform",
		"class/infiniband/mlx5_0/ports/1/link_layer":        "InfiniBand",
		"class/infiniband/mlx5_0/ports/1/rate":              "100 Gb/sec (4X EDR)",
		"class/infiniband/mlx5_0/ports/1/gids/0":            "fe80:0000:0000:0000:b859:9f03:00a1:b2c3",
		"class/infiniband/mlx5_0/ports/1/gids/1":            "0000:0000:0000:0000:0000:0000:0000:0000",
		"class/infiniband/mlx5_0/ports/1/gids/2":            "fe80:0000",
		"class/infiniband/mlx5_0/ports/1/gid_attrs/types/0": "IB/RoCE v1",
		"class/infiniband/mlx5_0/ports/1/pkeys/0":           "0xffff",
		"class/infiniband/mlx5_0/ports/1/pkeys/1":           "0x0000",
		"class/infiniband/mlx5_0/ports/1/pkeys/10":          "0x8001",
		"class/infiniband_mad/umad0/ibdev":                  "mlx5_0",
		"class/infiniband_mad/umad0/dev":                    "231:0",
		"class/infiniband_mad/issm0/ibdev":                  "mlx5_0",
		"class/infiniband_mad/issm0/dev":                    "231:64",
		"class/infiniband_mad/abi_version":                  "5",
	})
	t.Open = hosttest.Opens()
	return t, kernel, nets
}

func TestDevinfo(t *testing.T) {
	tool, _, nets := informed()
	const want = `siw0
  ifindex                        1
  driver                         siw
  driver_abi                     1
  provider                       yes
  node_type                      rnic
  transport                      iWARP
  protocol                       iw
  node_guid                      0000:0000:0000:0000
  sys_image_guid                 0000:0000:0000:0000
  vendor_id                      0x0000
  vendor_part_id                 0
  hw_ver                         0x0
  node_desc                      Software iWARP stack
  char_device uverbs0            uverbs  /dev/infiniband/uverbs0  231:192
  phys_port_cnt                  1
  port 1
    state                        ACTIVE
    physical_state               LINK_UP
    link_layer                   Ethernet
    rate                         2500 Mb/s
    active_width                 1X
    active_speed                 SDR
    active_mtu                   1024 bytes
    max_mtu                      4096 bytes
    netdev                       dummy0
    netdev_index                 1
    gid 0                        200:ff:fe00:1::  dummy0

mlx5_0
  ifindex                        5
  driver                         mlx5
  driver_abi                     1
  provider                       no
  node_type                      ca
  transport                      InfiniBand
  protocol                       ib
  fw_ver                         16.35.2000
  node_guid                      b859:9f03:00a1:b2c3
  sys_image_guid                 b859:9f03:00a1:b2c3
  node_desc                      node7 mlx5_0
  hca_type                       MT4119
  board_id                       MT_0000000008
  pci                            0000:3b:00.0
  numa_node                      1
  char_device uverbs1            uverbs  /dev/infiniband/uverbs1  231:193
  char_device issm0              issm  /dev/infiniband/issm0  231:64
  char_device umad0              umad  /dev/infiniband/umad0  231:0
  phys_port_cnt                  1
  port 1
    state                        ACTIVE
    physical_state               LINK_UP
    link_layer                   InfiniBand
    rate                         100000 Mb/s
    active_width                 4X
    active_speed                 EDR
    port_guid                    b859:9f03:00a1:b2c3
    subnet_prefix                fe80:0000:0000:0000
    port_lid                     12
    sm_lid                       1
    port_lmc                     0
    gid 0                        fe80::b859:9f03:a1:b2c3  IB
    pkey 0                       0xffff
    pkey 10                      0x8001
  missing                        limits, capabilities, vendor, MTU: open device on mlx5_0: permission denied: allow it
  missing                        provider: use device on mlx5_0: no provider: this program links none for driver mlx5
`
	if diff := cmp.Diff(result{Out: want}, tool.runLine("devinfo", nets)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := tool.runLine("devinfo mlx5_0", nets); !strings.HasSuffix(want, "\n\n"+got.Out) || got.Code != 0 {
		t.Errorf("%+v", got)
	}
}

// TestDevinfoJSON: JSON has what text has, and numbers as numbers.
func TestDevinfoJSON(t *testing.T) {
	tool, _, nets := informed()
	got := tool.runLine("-j devinfo -v", nets)
	var all []map[string]any
	if err := json.Unmarshal([]byte(got.Out), &all); err != nil || len(all) != 2 || strings.Count(got.Out, "\n") != 1 {
		t.Fatalf("%v: %+v", err, got)
	}
	siw, mlx5 := all[0], all[1]
	for key, want := range map[string]any{"ifname": "siw0", "provider": true, "max_qp": 65536.0, "hca_core_clock_khz": 0.0,
		"max_mr_size": "0xffffffffffffffff", "device_cap_flags": "0x200000", "rc_odp_caps": []any{}, "device_caps": []any{"MemMgtExtensions"}, "missing": nil} {
		if diff := cmp.Diff(want, siw[key]); diff != "" {
			t.Errorf("%s: %s", key, diff)
		}
	}
	port := siw["ports"].([]any)[0].(map[string]any)
	for key, want := range map[string]any{"active_mtu_bytes": 1024.0, "rate_mbps": 2500.0, "max_msg_sz_bytes": 2147483647.0, "pkeys": []any{},
		"gids": []any{map[string]any{"index": 0.0, "gid": "200:ff:fe00:1::", "netdev": "dummy0"}}} {
		if diff := cmp.Diff(want, port[key]); diff != "" {
			t.Errorf("%s: %s", key, diff)
		}
	}
	if len(mlx5["missing"].([]any)) != 2 || mlx5["numa_node"] != 1.0 || mlx5["pci"] != "0000:3b:00.0" {
		t.Errorf("%v", mlx5)
	}
}

// TestDevinfoLeft: whatever says no, the rest is told.
func TestDevinfoLeft(t *testing.T) {
	for _, test := range []struct {
		name string
		fail string // a call of the device
		edit func(*tool, *nltest.Kernel)
		want string // a missing line
		rest string // some other
	}{
		{"query", "QUERY_DEVICE", nil, "limits, capabilities, vendor: query device on siw0: input/output error", "active_mtu                   1024 bytes"},
		{"port", "QUERY_PORT", nil, "much of port 1: query port 1 of device on siw0: input/output error: ports count from 1", "vendor_id                      0x0000"},
		{"GIDs", "QUERY_GID_TABLE", nil, "GIDs: query the GID table of device on siw0: input/output error", "vendor_id                      0x0000"},
		{"no sysfs", "", func(t *tool, _ *nltest.Kernel) { t.Sys = hosttest.Tree(nil) },
			"board, PCI address, NUMA node, P_Keys: /sys is not mounted here, or shows no RDMA devices of this network namespace", "gid 0                        200:ff:fe00:1::  dummy0"},
		{"no char device", "", func(_ *tool, k *nltest.Kernel) { k.CharDevs = nil },
			"driver, provider: find the character device uverbs: operation not supported", "phys_port_cnt                  1"},
	} {
		tool, kernel, nets := informed()
		if test.edit != nil {
			test.edit(tool, kernel)
		}
		k := fakeverbs.New(uint32(uverbs.DriverSIW))
		if test.fail != "" {
			k.Fail(test.fail, 0, syscall.EIO)
		}
		tool.Open = hosttest.Opens(k)
		got := tool.runLine("devinfo siw0", nets)
		if got.Code != 0 || !strings.Contains(got.Out, "  missing                        "+test.want+"\n") || !strings.Contains(got.Out, test.rest) {
			t.Errorf("%s: %d %s\n%s", test.name, got.Code, got.Err, got.Out)
		}
		if leaks := k.Leaks(); test.edit == nil && len(leaks) > 0 {
			t.Errorf("%s: left %v", test.name, leaks)
		}
	}
}

func TestDevinfoErrors(t *testing.T) {
	for line, want := range map[string]result{
		"devinfo siw9":   {Code: 1, Err: "rdmalink: no such RDMA device: \"siw9\" (there are: siw0, mlx5_0)\n"},
		"devinfo siw0 x": {Code: 2, Err: "rdmalink: \"x\" is one word too many\nUsage: rdmalink devinfo [DEV] (rdmalink devinfo -h tells more)\n"},
	} {
		tool, _, nets := informed()
		if diff := cmp.Diff(want, tool.runLine(line, nets)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
	tool, kernel, nets := informed()
	kernel.Fail = map[uint16]error{abi.RDMA_NLDEV_CMD_PORT_GET: syscall.EIO}
	if got := tool.runLine("-j devinfo", nets); got.Code != 1 || got.Out != "[]\n" {
		t.Errorf("%+v", got)
	}
	// What was found before something failed is told.
	tool, kernel, nets = informed()
	tool.RDMA.Kernel = failingOn{kernel, 5}
	if got := tool.runLine("devinfo", nets); got.Code != 1 || !strings.HasPrefix(got.Out, "siw0\n") || got.Err != "rdmalink: list ports of mlx5_0: input/output error\n" {
		t.Errorf("%+v", got)
	}
}

// failingOn tells nothing of the ports of a device.
type failingOn struct {
	*nltest.Kernel
	device byte
}

func (f failingOn) Execute(req netlinkrdma.Request) ([][]byte, error) {
	if req.Op == abi.RDMA_NLDEV_CMD_PORT_GET && req.Attrs[0].Value[0] == f.device {
		return nil, syscall.EIO
	}
	return f.Kernel.Execute(req)
}

// TestVirtualLanes: the kernel sends a code of their number.
func TestVirtualLanes(t *testing.T) {
	for code, want := range map[uint8]int{1: 1, 3: 4, 5: 15, 6: 0} {
		var port table
		port.portDetails(true, &uverbs.PortAttr{MaxVLNum: code})
		if !slices.ContainsFunc(port, func(e entry) bool { return e.key == "max_vl_num" && e.value == want }) {
			t.Errorf("%d: %v, want %d", code, port, want)
		}
	}
}

func TestRate(t *testing.T) {
	for text, want := range map[string]rate{
		"2.5 Gb/sec (1X SDR)":   {1, "SDR", 2500},
		"100 Gb/sec (4X EDR)":   {4, "EDR", 100000},
		"800 Gb/sec (4X XDR)":   {4, "XDR", 800000},
		"40 Gb/sec (4X FDR10)":  {4, "FDR10", 40000},
		"much":                  {},
		"":                      {},
		"7 Gb/sec (0X Nonsense": {},
	} {
		if got := parseRate(text); got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
	for code, want := range map[[2]uint32]string{
		{1, 1}: "1 SDR 2500", {2, 32}: "4 EDR 100000", {16, 64}: "2 HDR 100000", {2, 256}: "4 XDR 800000", {2, 512}: "4  0", {3, 1}: "0 SDR 0",
	} {
		r := rateOf(uint8(code[0]), code[1])
		if got := fmt.Sprintf("%d %s %d", r.lanes, r.speed, r.mbps); got != want {
			t.Errorf("%v: %s, want %s", code, got, want)
		}
	}
}
