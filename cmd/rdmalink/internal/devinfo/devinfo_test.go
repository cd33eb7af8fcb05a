package devinfo

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host/hosttest"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/table"
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/addlink"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	_ "github.com/goverbs/goverbs/internal/fakeverbs/models"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
	_ "github.com/goverbs/goverbs/provider/all"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// printed returns the output of Show.
func printed(m host.Machine, out cli.Output, name string) (string, error) {
	var b strings.Builder
	out.Stdout = &b
	err := Show(&m, &out, name)
	return b.String(), err
}

func TestDevinfo(t *testing.T) {
	m, _, _ := hosttest.Informed()
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
  vendor_id                      0x626d74
  vendor_part_id                 1
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
    netdev_index                 7
    gid 0                        200:ff:fe00:1::  dummy0

mlx4_0
  ifindex                        5
  driver                         mlx4
  driver_abi                     1
  provider                       no
  node_type                      ca
  transport                      InfiniBand
  protocol                       ib
  fw_ver                         16.35.2000
  node_guid                      b859:9f03:00a1:b2c3
  sys_image_guid                 b859:9f03:00a1:b2c3
  node_desc                      node7 mlx4_0
  hca_type                       MT4099
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
  missing                        limits, capabilities, vendor, MTU: open device on mlx4_0: permission denied: allow it
  missing                        provider: use device on mlx4_0: no provider: this program links no provider for driver mlx4
`
	got, err := printed(m, cli.Output{}, "")
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if got, err := printed(m, cli.Output{}, "mlx4_0"); !strings.HasSuffix(want, "\n\n"+got) || err != nil {
		t.Errorf("%s, %v", got, err)
	}
}

// TestDevinfoJSON checks that JSON contains everything that text contains, and
// numbers as numbers.
func TestDevinfoJSON(t *testing.T) {
	m, _, _ := hosttest.Informed()
	got, err := printed(m, cli.Output{JSON: true, Details: 1}, "")
	var all []map[string]any
	if err := errors.Join(err, json.Unmarshal([]byte(got), &all)); err != nil || len(all) != 2 || strings.Count(got, "\n") != 1 {
		t.Fatalf("%v: %s", err, got)
	}
	siw, mlx4 := all[0], all[1]
	for key, want := range map[string]any{"ifname": "siw0", "provider": true, "max_qp": 102400.0, "hca_core_clock_khz": 0.0,
		"max_mr_size": "0xffffffffffffffff", "device_cap_flags": "0x200000", "rc_odp_caps": []any{}, "device_caps": []any{"MemMgtExtensions"}, "missing": nil} {
		if diff := cmp.Diff(want, siw[key]); diff != "" {
			t.Errorf("%s: %s", key, diff)
		}
	}
	port := siw["ports"].([]any)[0].(map[string]any)
	for key, want := range map[string]any{"active_mtu_bytes": 1024.0, "rate_mbps": 2500.0, "max_msg_sz_bytes": 4294967295.0, "pkeys": []any{},
		"gids": []any{map[string]any{"index": 0.0, "gid": "200:ff:fe00:1::", "netdev": "dummy0"}}} {
		if diff := cmp.Diff(want, port[key]); diff != "" {
			t.Errorf("%s: %s", key, diff)
		}
	}
	if len(mlx4["missing"].([]any)) != 2 || mlx4["numa_node"] != 1.0 || mlx4["pci"] != "0000:3b:00.0" {
		t.Errorf("%v", mlx4)
	}
}

// TestDevinfoVerbs checks that the details say for each verb whether it works here and, if not, why.
func TestDevinfoVerbs(t *testing.T) {
	m, _, _ := hosttest.Informed()
	k := fakeverbs.New(uint32(verbs.DriverSIW))
	m.Open = hosttest.Opens(k)
	k.Fail("REREG_MR", 0, syscall.EPERM)
	got, err := printed(m, cli.Output{Details: 1}, "siw0")
	if err != nil || len(k.Leaks()) > 0 {
		t.Errorf("%v, left %q", err, k.Leaks())
	}
	for _, want := range []string{
		"  verb PD.CreateQP RC            yes\n",
		"  verb PD.CreateQP UD            no  create QP on siw0 (driver siw): operation not supported (the kernel's object QP, method QP_CREATE)\n",
		"  verb MR.Rereg                  unknown  change MR 1 on siw0: operation not permitted",
		"  sends RC                       RDMA_WRITE SEND RDMA_READ ",
		"  sends UD                       none\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if n := strings.Count(got, "\n  verb "); n != len(uverbs.Verbs()) {
		t.Errorf("%d verbs, want %d", n, len(uverbs.Verbs()))
	}
	m, _, _ = hosttest.Informed()
	got, err = printed(m, cli.Output{JSON: true, Details: 1}, "siw0")
	var all []struct {
		Verbs []struct{ Name, Works, Reason string }
		Sends []struct {
			QPType  string `json:"qp_type"`
			Opcodes []string
		}
	}
	if err := errors.Join(err, json.Unmarshal([]byte(got), &all)); err != nil {
		t.Fatal(err)
	}
	for _, v := range all[0].Verbs {
		if (v.Works == "yes") != (v.Reason == "") || v.Name == "PD.CreateSRQ" && v.Works != "yes" || v.Name == "CQ.Resize" && v.Works != "no" {
			t.Errorf("%+v", v)
		}
	}
	if s := all[0].Sends[0]; s.QPType != "RC" || !slices.Contains(s.Opcodes, "RDMA_READ") {
		t.Errorf("%+v", s)
	}
}

// TestDevinfoSpeeds checks the bandwidths of ports that rate does not express.
func TestDevinfoSpeeds(t *testing.T) {
	for _, test := range []struct {
		driver      verbs.DriverID
		sys         map[string]string // of the network device
		fail        error
		want, lacks string
	}{
		{driver: verbs.DriverQIB, want: "    effective_speed              75000 Mb/s\n", lacks: "netdev_speed"},
		{driver: verbs.DriverQIB, fail: syscall.EIO, want: "  missing                        the effective speed of port 1: query the speed of port 1 of device on siw0: input/output error", lacks: "effective_speed  "},
		{driver: verbs.DriverSIW, sys: map[string]string{"ifindex": "2", "speed": "25000"}, want: "    netdev_speed                 25000 Mb/s\n", lacks: "effective"},
		{driver: verbs.DriverSIW, sys: map[string]string{"ifindex": "3", "speed": "25000"}, want: "    netdev ", lacks: "netdev_speed"},
		{driver: verbs.DriverSIW, sys: map[string]string{"ifindex": "2", "speed": "-1"}, want: "    netdev ", lacks: "netdev_speed"},
		{driver: verbs.DriverSIW, sys: map[string]string{"ifindex": "2"}, want: "    netdev ", lacks: "netdev_speed"},
	} {
		m, kernel, _ := hosttest.Informed()
		kernel.Ports[0].NetdevIndex = 2
		files := make(map[string]string)
		for name, content := range test.sys {
			files["class/net/"+kernel.Ports[0].NetdevName+"/"+name] = content
		}
		m.Sys = hosttest.Tree(files)
		open := func() func(string) (*uverbs.Device, error) {
			k := fakeverbs.New(uint32(test.driver))
			k.Newest = true
			if test.fail != nil {
				k.Refuse = func(call string) error {
					if call == "QUERY_PORT_SPEED" {
						return test.fail
					}
					return nil
				}
			}
			return hosttest.Opens(k)
		}
		m.Open = open()
		got, err := printed(m, cli.Output{Details: 1}, "siw0")
		if err != nil || !strings.Contains(got, test.want) || strings.Contains(got, test.lacks) {
			t.Errorf("%v: %v, want %q and no %q in\n%s", test.sys, err, test.want, test.lacks, got)
		}
		m.Open = open()
		if got, err = printed(m, cli.Output{}, "siw0"); err != nil || strings.Contains(got, "effective") || strings.Contains(got, "netdev_speed") {
			t.Errorf("%v: %v, without -v:\n%s", test.sys, err, got)
		}
	}
}

// TestDevinfoLeft checks that everything else is printed if one source fails.
func TestDevinfoLeft(t *testing.T) {
	for _, test := range []struct {
		name string
		fail string // a call of the device
		edit func(*host.Machine, *nltest.Kernel)
		want string // a missing line
		rest string // some other
	}{
		{"query", "QUERY_DEVICE", nil, "limits, capabilities, vendor: query device on siw0: input/output error", "active_mtu                   1024 bytes"},
		{"port", "QUERY_PORT", nil, "much of port 1: query port 1 of device on siw0: input/output error: the device has been removed: close it", "vendor_id                      0x626d74"},
		{"GIDs", "QUERY_GID_TABLE", nil, "GIDs: query the GID table of device on siw0: input/output error", "vendor_id                      0x626d74"},
		{"no sysfs", "", func(m *host.Machine, _ *nltest.Kernel) { m.Sys = hosttest.Tree(nil) },
			"board, PCI address, NUMA node, P_Keys: /sys is not mounted here, or shows no RDMA devices of this network namespace", "gid 0                        200:ff:fe00:1::  dummy0"},
		{"no char device", "", func(_ *host.Machine, k *nltest.Kernel) { k.CharDevs = nil },
			"driver, provider: find the character device uverbs: operation not supported", "phys_port_cnt                  1"},
	} {
		m, kernel, _ := hosttest.Informed()
		if test.edit != nil {
			test.edit(&m, kernel)
		}
		k := fakeverbs.New(uint32(verbs.DriverSIW))
		if test.fail != "" {
			k.Fail(test.fail, 0, syscall.EIO)
		}
		m.Open = hosttest.Opens(k)
		got, err := printed(m, cli.Output{}, "siw0")
		if err != nil || !strings.Contains(got, "  missing                        "+test.want+"\n") || !strings.Contains(got, test.rest) {
			t.Errorf("%s: %v\n%s", test.name, err, got)
		}
		if leaks := k.Leaks(); test.edit == nil && len(leaks) > 0 {
			t.Errorf("%s: left %v", test.name, leaks)
		}
	}
}

func TestDevinfoErrors(t *testing.T) {
	m, kernel, _ := hosttest.Informed()
	kernel.Fail = map[uint16]error{abi.RDMA_NLDEV_CMD_PORT_GET: syscall.EIO}
	if got, err := printed(m, cli.Output{JSON: true}, ""); !errors.Is(err, syscall.EIO) || got != "[]\n" {
		t.Errorf("%s, %v", got, err)
	}
	// Values that were found before a failure are printed.
	m, kernel, _ = hosttest.Informed()
	m.RDMA.Kernel = failingOn{kernel, 5}
	if got, err := printed(m, cli.Output{}, ""); !strings.HasPrefix(got, "siw0\n") || err == nil || cli.Plain(err) != "list ports of mlx4_0: input/output error" {
		t.Errorf("%s, %v", got, err)
	}
}

// failingOn returns an error for the ports of a device.
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

// TestVirtualLanes checks the kernel's code for the number of virtual lanes.
func TestVirtualLanes(t *testing.T) {
	for code, want := range map[uint8]int{1: 1, 3: 4, 5: 15, 6: 0} {
		var port table.Table
		portDetails(&port, true, &verbs.PortAttr{MaxVLNum: code})
		if !slices.ContainsFunc(port, func(e table.Entry) bool { return e.Key == "max_vl_num" && e.Value == want }) {
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

// TestDevinfoGIDNetdev checks that a GID has the name of its network device only if that is in this network namespace:
// neither its index nor its name alone says so.
func TestDevinfoGIDNetdev(t *testing.T) {
	eth0 := addlink.Netdev{Index: 7, Name: "eth0", MAC: hosttest.MAC, Addrs: []netip.Addr{netip.MustParseAddr("10.1.1.1")}}
	eth1 := addlink.Netdev{Index: 8, Name: "eth1"}
	here, there := verbs.GIDFromAddr(eth0.Addrs[0]), verbs.GIDFromAddr(netip.MustParseAddr("10.1.1.2"))
	standard := verbs.GIDFromAddr(netip.MustParseAddr("fe80::ff:fe00:1")) // of eth0's MAC address
	port := netlinkrdma.Port{NetdevIndex: 7, NetdevName: "eth0"}
	for _, test := range []struct {
		node   verbs.NodeType
		gid    verbs.GID
		index  uint32
		sysfs  string // the name there
		wanted string
	}{
		{verbs.NodeCA, here, 7, "eth0", "eth0"},
		{verbs.NodeCA, here, 0, "eth0", "eth0"},
		{verbs.NodeCA, here, 8, "eth1", ""},
		{verbs.NodeCA, here, 0, "eth1", ""},
		{verbs.NodeCA, there, 7, "eth0", ""},
		{verbs.NodeCA, there, 0, "eth0", ""},
		{verbs.NodeCA, there, 9, "eth9", ""},
		{verbs.NodeCA, standard, 7, "", "eth0"},
		{verbs.NodeCA, standard, 8, "", ""},
		{verbs.NodeCA, here, 0, "", ""},
		{verbs.NodeRNIC, verbs.GID{2}, 7, "", "eth0"},
		{verbs.NodeRNIC, verbs.GID{2}, 8, "", ""},
	} {
		m, _, _ := hosttest.Informed()
		m.Sys = hosttest.Tree(map[string]string{"ports/1/gid_attrs/ndevs/3": test.sysfs})
		s := &subject{inspector: &inspector{Machine: &m, netdevs: []addlink.Netdev{eth0, eth1}}, Device: netlinkrdma.Device{NodeType: test.node}}
		if got := s.gidNetdev(port, verbs.GIDEntry{GID: test.gid, Index: 3, NetdevIndex: test.index}, "ports/1"); got != test.wanted {
			t.Errorf("%+v: %q", test, got)
		}
	}
}
