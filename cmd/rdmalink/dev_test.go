package main

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host/hosttest"
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
	"github.com/goverbs/goverbs/verbs"
)

// devMachine has siw0, an InfiniBand device and a sub-device of it.
func devMachine() (*tool, *nltest.Kernel) {
	kernel := &nltest.Kernel{
		Devices: []netlinkrdma.Device{
			{Index: 0, Name: "siw0", NodeType: verbs.NodeRNIC, Protocol: "iw", NodeGUID: 0x0200000000000001, SysImageGUID: 2, AdaptiveModeration: opt(false)},
			{Index: 7, Name: "mlx5_0", Ports: 1, NodeType: verbs.NodeCA, Protocol: "ib", FWVersion: "16.35.4030", NodeGUID: 1, SysImageGUID: 1,
				AdaptiveModeration: opt(true), CapFlags: 1<<0 | 1<<6 | 1<<16 | 1<<32 | 1<<38 | 1<<63},
			{Index: 9, Name: "smi0", NodeType: 27, Protocol: "ib", NodeGUID: 1, SysImageGUID: 1, Type: netlinkrdma.DeviceSMI, Parent: "mlx5_0"},
		},
		Ports: []netlinkrdma.Port{{DeviceIndex: 7, DeviceName: "mlx5_0", Index: 1, State: verbs.PortInit, PhysState: verbs.PhysPolling,
			NetdevIndex: 5, NetdevName: "ib0", InfiniBand: true, SubnetPrefix: 0xfe80000000000000, LID: 13, SMLID: 1, LMC: 2, CapFlags: 1<<1 | 1<<33 | 1<<40}},
		System: netlinkrdma.System{NetnsMode: netlinkrdma.NetnsShared, CopyOnFork: true, Monitor: true, PrivilegedQKey: opt(false)},
	}
	return &tool{stdin: strings.NewReader(""), Machine: host.Machine{RDMA: &netlinkrdma.Client{Kernel: kernel}}}, kernel
}

const (
	siwText       = "0: siw0: node_type rnic protocol iw node_guid 0200:0000:0000:0001 sys_image_guid 0000:0000:0000:0002 "
	mlxText       = "7: mlx5_0: node_type ca protocol ib fw 16.35.4030 node_guid 0000:0000:0000:0001 sys_image_guid 0000:0000:0000:0001 "
	smiText       = "9: smi0: node_type NodeType(27) protocol ib node_guid 0000:0000:0000:0001 sys_image_guid 0000:0000:0000:0001 type smi parent mlx5_0 "
	moderatedText = "adaptive-moderation on \n"
	capsText      = "    caps: <RESIZE_MAX_WR, UD_AV_PORT_ENFORCE_PORT_ENFORCE, BIT(16), SG_GAPS_REG, FLUSH_GLOBAL, BIT(63)>\n"
	siwDevJSON    = `{"ifindex":0,"ifname":"siw0","node_type":"rnic","protocol":"iw","node_guid":"0200:0000:0000:0001","sys_image_guid":"0000:0000:0000:0002"`
	smiPretty     = `[ {
        "ifindex": 9,
        "ifname": "smi0",
        "node_type": "NodeType(27)",
        "protocol": "ib",
        "node_guid": "0000:0000:0000:0001",
        "sys_image_guid": "0000:0000:0000:0001",
        "type": "smi",
        "parent": "mlx5_0",
        "caps": [ ]
    } ]
`
	portText = "link mlx5_0/1 subnet_prefix fe80:0000:0000:0000 lid 13 sm_lid 1 lmc 2 state INIT physical_state POLLING netdev ib0 "
)

// devTexts are lines and what they print. What no soft device has is compared
// with rdma on the same fake kernel.
var devTexts = map[string]string{
	"dev":                       siwText + "\n" + mlxText + "\n" + smiText + "\n",
	"d":                         siwText + "\n" + mlxText + "\n" + smiText + "\n",
	"d s":                       siwText + "\n" + mlxText + "\n" + smiText + "\n",
	"de l smi0":                 smiText + "\n",
	"dev show siw0":             siwText + "\n",
	"-d dev show mlx5_0":        mlxText + moderatedText + capsText,
	"dev show mlx5_0 -do":       mlxText + strings.Replace(moderatedText, "\n", `\`, 1) + capsText,
	"dev sh --det siw0":         siwText + "adaptive-moderation off \n    caps: <>\n",
	"-j dev show siw0":          "[" + siwDevJSON + "}]\n",
	"-jd dev show siw0":         "[" + siwDevJSON + `,"adaptive-moderation":false,"caps":[]}]` + "\n",
	"-jdp dev show smi0":        smiPretty,
	"link":                      portText + "\n",
	"link show mlx5_0/1 -d":     portText + "netdev_index 5 \n    caps: <SM, EXT_INFO, BIT(40)>\n",
	"link list -o --details -p": portText + `netdev_index 5 \    caps: <SM, EXT_INFO, BIT(40)>` + "\n",
	"-j -d link show mlx5_0/1":  `[{"ifindex":7,"ifname":"mlx5_0","port":1,"subnet_prefix":"fe80:0000:0000:0000","lid":13,"sm_lid":1,"lmc":2,"state":"INIT","physical_state":"POLLING","netdev":"ib0","netdev_index":5,"caps":["SM","EXT_INFO","BIT(40)"]}]` + "\n",
}

func TestDevShow(t *testing.T) {
	for line, want := range devTexts {
		tool, _ := devMachine()
		if diff := cmp.Diff(result{Out: want}, tool.runLine(line, &hosttest.Netdevs{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
}

func TestDevSet(t *testing.T) {
	for line, done := range map[string]func(*nltest.Kernel) bool{
		"dev set siw0 name blue":                         func(k *nltest.Kernel) bool { return k.Devices[0].Name == "blue" },
		"dev s siw0 n blue":                              nil, // s is show
		"d set siw0 n blue":                              func(k *nltest.Kernel) bool { return k.Devices[0].Name == "blue" },
		"dev set siw0 adaptive-moderation on":            func(k *nltest.Kernel) bool { return k.Devices[0].AdaptiveModeration == opt(true) },
		"dev set mlx5_0 a off":                           func(k *nltest.Kernel) bool { return k.Devices[1].AdaptiveModeration == opt(false) },
		"dev add smi1 type smi parent mlx5_0":            func(k *nltest.Kernel) bool { return k.Devices[3].Name == "smi1" },
		"d a smi1 t SMI p mlx5_0":                        func(k *nltest.Kernel) bool { return k.Devices[3].Name == "smi1" },
		"dev delete smi0":                                func(k *nltest.Kernel) bool { return len(k.Devices) == 2 },
		"d d smi0":                                       func(k *nltest.Kernel) bool { return len(k.Devices) == 2 },
		"dev set mlx5_0 netns /proc/self/ns/net":         func(k *nltest.Kernel) bool { return len(k.Moved) == 1 && k.Moved[0].Name == "mlx5_0" },
		"dev set mlx5_0 ne " + strconv.Itoa(os.Getpid()): func(k *nltest.Kernel) bool { return len(k.Moved) == 1 },
	} {
		tool, kernel := devMachine()
		kernel.System.NetnsMode = netlinkrdma.NetnsExclusive
		got := tool.runLine(line, &hosttest.Netdevs{})
		if done == nil {
			if got.Code != exitUsage {
				t.Errorf("%s: %+v", line, got)
			}
			continue
		}
		if diff := cmp.Diff(result{}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		} else if !done(kernel) {
			t.Errorf("%s: %+v", line, kernel)
		}
	}
}

func TestDevErrors(t *testing.T) {
	const there = " (there are: siw0, mlx5_0, smi0)\n"
	for _, test := range []struct {
		line string
		fail syscall.Errno
		want string
	}{
		{"dev show nosuch", 0, `no such RDMA device: "nosuch"` + there},
		{"dev set nosuch name a", 0, `set nosuch: no such RDMA device: "nosuch"` + there},
		{"dev add a type smi parent nosuch", 0, `add a: no such RDMA device: "nosuch"` + there},
		{"dev delete nosuch", 0, `delete nosuch: no such RDMA device: "nosuch"` + there},
		{"dev delete siw0", 0, "delete sub-device siw0: operation not supported (it is no sub-device; rdma link delete takes siw and rxe away)\n"},
		{"dev set siw0 name mlx5_0", 0, "rename siw0 to mlx5_0: file exists (another device has that name; it may live in another network namespace)\n"},
		{"dev set siw0 netns /nosuch", 0, "open /nosuch: no such file or directory\n"},
		{"dev set siw0 netns 2147483646", 0, `no network namespace "2147483646": no process has that number, and there is none of that name (` + netnsNames() + ")\n"},
		{"dev set siw0 netns no+such", 0, `no network namespace "no+such" (` + netnsNames() + "); it is one of these names, a path, or the number of a process\n"},
		{"dev set siw0 netns /dev/null", syscall.EOPNOTSUPP, "move siw0 to network namespace /dev/null: operation not supported (in shared mode devices belong to all namespaces: rdma system set netns exclusive; in exclusive mode it is the driver that can't, as siw and rxe)\n"},
		{"dev set siw0 adaptive-moderation on", syscall.EPERM, "set adaptive moderation of siw0 to true: needs CAP_NET_ADMIN in the initial user namespace (run as root, or setcap cap_net_admin+ep): operation not permitted\n"},
	} {
		tool, kernel := devMachine()
		if test.fail != 0 {
			kernel.Fail = map[uint16]error{abi.RDMA_NLDEV_CMD_SET: test.fail}
		}
		if diff := cmp.Diff(result{Code: exitFailed, Err: "rdmalink: " + test.want}, tool.runLine(test.line, &hosttest.Netdevs{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.line, diff)
		}
	}
}

func TestDevUsage(t *testing.T) {
	for line, want := range map[string]string{
		"dev frob":                             `"frob": expected one of add, delete, show, set, help`,
		"dev show siw0 1":                      `"1" is one word too many`,
		"dev set":                              "expected DEV",
		"dev set siw0":                         "expected one of name, netns, adaptive-moderation",
		"dev set siw0 nome":                    `"nome": expected one of name, netns, adaptive-moderation`,
		"dev set siw0 name":                    "expected NEWNAME",
		"dev set siw0 name a b":                `"b" is one word too many`,
		"dev set siw0 netns":                   "expected NETNS",
		"dev set siw0 adaptive-moderation":     "expected one of on, off",
		"dev set siw0 adaptive-moderation o":   `"o": expected one of on, off`,
		"dev add":                              "expected NAME",
		"dev add a":                            "expected type",
		"dev add a type":                       "expected TYPE (SMI)",
		"dev add a type sm parent mlx5_0":      `"sm": expected TYPE (SMI)`,
		"dev add a type smi mlx5_0":            `"mlx5_0": expected parent`,
		"dev add a type smi parent":            "expected DEV",
		"dev add a type smi parent mlx5_0 now": `"now" is one word too many`,
		"dev delete":                           "expected DEV",
		"dev delete smi0 smi1":                 `"smi1" is one word too many`,
	} {
		tool, kernel := devMachine()
		got := tool.runLine(line, &hosttest.Netdevs{})
		if text, _, _ := strings.Cut(got.Err, "\n"); got.Code != exitUsage || text != "rdmalink: "+want || len(kernel.Requests) > 0 {
			t.Errorf("%s: %+v, %d requests, want %s", line, got, len(kernel.Requests), want)
		}
	}
}
