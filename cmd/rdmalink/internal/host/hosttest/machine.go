// Package hosttest has fake machines for the tests of commands.
package hosttest

import (
	"io/fs"
	"strings"
	"syscall"
	"testing/fstest"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host"
	"github.com/goverbs/goverbs/internal/addlink"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	_ "github.com/goverbs/goverbs/internal/fakeverbs/models"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Machine has netdevs lo, dummy0, bare and vlan5, and device siw0 on dummy0.
func Machine() (host.Machine, *nltest.Kernel, *Netdevs) {
	kernel := &nltest.Kernel{Netdevs: []string{"lo", "dummy0", "bare", "vlan5"}, Types: []string{"siw", "rxe"}}
	nets := &Netdevs{All: []addlink.Netdev{Loopback, Dummy0, bare, VLAN5}}
	m := host.Machine{RDMA: &netlinkrdma.Client{Kernel: kernel}, Net: nets, Route: new(Rtnetlink).Route}
	if err := m.RDMA.AddLink("siw0", "siw", "dummy0"); err != nil {
		panic(err) // only a change of the fake above can do that
	}
	return m, kernel, nets
}

// Opens returns a function that opens fake devices of siw and rxe, on the given
// kernels first, which may be of other drivers. It returns EACCES for names of mlx4.
func Opens(kernels ...*fakeverbs.Kernel) func(string) (*uverbs.Device, error) {
	return func(name string) (*uverbs.Device, error) {
		info := uverbs.DeviceInfo{Name: name, Driver: verbs.DriverSIW, ABI: 1, Ports: 1}
		if strings.HasPrefix(name, "rxe") {
			info.Driver, info.ABI = verbs.DriverRXE, 2
		}
		if strings.HasPrefix(name, "mlx4") {
			return nil, &verbs.Error{Op: "open", Object: "device", Device: name, Err: syscall.EACCES, Hint: "allow it"}
		}
		if len(kernels) > 0 {
			k := kernels[0]
			kernels = kernels[1:]
			info.Driver = verbs.DriverID(k.Driver())
			return openOn(info, k)
		}
		return openOn(info, fakeverbs.New(uint32(info.Driver)))
	}
}

// Tree returns a tree of files and, for contents with an arrow, links.
func Tree(files map[string]string) host.Tree {
	tree := fstest.MapFS{}
	for name, content := range files {
		to, isLink := strings.CutPrefix(content, "-> ")
		switch {
		case isLink && strings.HasSuffix(name, "/device"): // sysfs's own has more steps
			tree[name] = &fstest.MapFile{Data: []byte("../../../devices/" + to[strings.LastIndex(to, "/")+1:]), Mode: fs.ModeSymlink}
		case isLink:
			tree[name] = &fstest.MapFile{Data: []byte(to), Mode: fs.ModeSymlink}
		default:
			tree[name] = &fstest.MapFile{Data: []byte(content + "\n")}
		}
	}
	return host.Tree{FS: tree}
}

// openOn opens a device on a fake kernel.
func openOn(info uverbs.DeviceInfo, file ioctl.File) (*uverbs.Device, error) {
	info.Node = kernel.Node(file)
	return info.Open()
}

// Informed returns a machine with an InfiniBand adapter, for which there is no
// provider, and a siw device. Neither can be opened unless a test changes that.
func Informed() (host.Machine, *nltest.Kernel, *Netdevs) {
	m, kernel, nets := Machine()
	kernel.Devices[0].Index = 1
	kernel.Ports[0].DeviceIndex, kernel.Ports[0].NetdevIndex = 1, fakeverbs.Netdev
	kernel.Devices = append(kernel.Devices, netlinkrdma.Device{Index: 5, Name: "mlx4_0", Ports: 1, NodeType: verbs.NodeCA, Protocol: "ib",
		FWVersion: "16.35.2000", NodeGUID: 0xb8599f0300a1b2c3, SysImageGUID: 0xb8599f0300a1b2c3})
	kernel.Ports = append(kernel.Ports, netlinkrdma.Port{DeviceIndex: 5, DeviceName: "mlx4_0", Index: 1, State: verbs.PortActive,
		PhysState: verbs.PhysLinkUp, InfiniBand: true, SubnetPrefix: 0xfe80000000000000, LID: 12, SMLID: 1})
	kernel.CharDevs = map[uint32]netlinkrdma.CharDev{
		1: {Name: "uverbs0", ABI: 1, Major: 231, Minor: 192, DriverID: uint32(verbs.DriverSIW)},
		5: {Name: "uverbs1", ABI: 1, Major: 231, Minor: 193, DriverID: uint32(verbs.DriverMLX4)},
	}
	for i := range nets.All {
		nets.All[i].Index = uint32(i) + fakeverbs.Netdev - 1 // that of dummy0 is behind GIDs
	}
	m.Sys = Tree(map[string]string{
		"class/infiniband/siw0/node_desc":                   "Software iWARP stack",
		"class/infiniband/mlx4_0/node_desc":                 "node7 mlx4_0",
		"class/infiniband/mlx4_0/board_id":                  "MT_0000000008",
		"class/infiniband/mlx4_0/hca_type":                  "MT4099",
		"class/infiniband/mlx4_0/device":                    "-> ../../../0000:3b:00.0",
		"devices/0000:3b:00.0/numa_node":                    "1",
		"devices/0000:3b:00.0/subsystem":                    "-> ../../bus/pci",
		"class/infiniband/siw0/device":                      "-> ../../../virtual",
		"devices/virtual/numa_node":                         "-1",
		"devices/virtual/subsystem":                         "-> ../../bus/platform",
		"class/infiniband/mlx4_0/ports/1/link_layer":        "InfiniBand",
		"class/infiniband/mlx4_0/ports/1/rate":              "100 Gb/sec (4X EDR)",
		"class/infiniband/mlx4_0/ports/1/gids/0":            "fe80:0000:0000:0000:b859:9f03:00a1:b2c3",
		"class/infiniband/mlx4_0/ports/1/gids/1":            "0000:0000:0000:0000:0000:0000:0000:0000",
		"class/infiniband/mlx4_0/ports/1/gids/2":            "fe80:0000",
		"class/infiniband/mlx4_0/ports/1/gid_attrs/types/0": "IB/RoCE v1",
		"class/infiniband/mlx4_0/ports/1/pkeys/0":           "0xffff",
		"class/infiniband/mlx4_0/ports/1/pkeys/1":           "0x0000",
		"class/infiniband/mlx4_0/ports/1/pkeys/10":          "0x8001",
		"class/infiniband_mad/umad0/ibdev":                  "mlx4_0",
		"class/infiniband_mad/umad0/dev":                    "231:0",
		"class/infiniband_mad/issm0/ibdev":                  "mlx4_0",
		"class/infiniband_mad/issm0/dev":                    "231:64",
		"class/infiniband_mad/abi_version":                  "5",
	})
	m.Open = Opens()
	return m, kernel, nets
}
