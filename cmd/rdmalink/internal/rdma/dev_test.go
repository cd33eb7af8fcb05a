package rdma

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli/clitest"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host/hosttest"
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/addlink"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
)

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

// devTexts maps lines to their output. TestDevAsIproute2 compares it with rdma on
// the same fake kernel.
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
		tool, _ := clitest.Devices()
		if diff := cmp.Diff(clitest.Result{Out: want}, runLine(tool, line, &hosttest.Netdevs{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
}

func TestDevSet(t *testing.T) {
	for line, done := range map[string]func(*nltest.Kernel) bool{
		"dev set siw0 name blue":                         func(k *nltest.Kernel) bool { return k.Devices[0].Name == "blue" },
		"dev s siw0 n blue":                              nil, // s is show
		"d set siw0 n blue":                              func(k *nltest.Kernel) bool { return k.Devices[0].Name == "blue" },
		"dev set siw0 adaptive-moderation on":            func(k *nltest.Kernel) bool { return k.Devices[0].AdaptiveModeration == clitest.Opt(true) },
		"dev set mlx5_0 a off":                           func(k *nltest.Kernel) bool { return k.Devices[1].AdaptiveModeration == clitest.Opt(false) },
		"dev add smi1 type smi parent mlx5_0":            func(k *nltest.Kernel) bool { return k.Devices[3].Name == "smi1" },
		"d a smi1 t SMI p mlx5_0":                        func(k *nltest.Kernel) bool { return k.Devices[3].Name == "smi1" },
		"dev delete smi0":                                func(k *nltest.Kernel) bool { return len(k.Devices) == 2 },
		"d d smi0":                                       func(k *nltest.Kernel) bool { return len(k.Devices) == 2 },
		"dev set mlx5_0 netns /proc/self/ns/net":         func(k *nltest.Kernel) bool { return len(k.Moved) == 1 && k.Moved[0].Name == "mlx5_0" },
		"dev set mlx5_0 ne " + strconv.Itoa(os.Getpid()): func(k *nltest.Kernel) bool { return len(k.Moved) == 1 },
	} {
		tool, kernel := clitest.Devices()
		kernel.System.NetnsMode = netlinkrdma.NetnsExclusive
		got := runLine(tool, line, &hosttest.Netdevs{})
		if done == nil {
			if got.Code != cli.ExitUsage {
				t.Errorf("%s: %+v", line, got)
			}
			continue
		}
		if diff := cmp.Diff(clitest.Result{}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		} else if !done(kernel) {
			t.Errorf("%s: %+v", line, kernel)
		}
	}
}

func TestDevErrors(t *testing.T) {
	const there = ": no such RDMA device: there are siw0, mlx5_0, smi0\n"
	for _, test := range []struct {
		line string
		fail syscall.Errno
		want string
	}{
		{"dev show nosuch", 0, `find RDMA device "nosuch"` + there},
		{"dev set nosuch name a", 0, `set nosuch: find RDMA device "nosuch"` + there},
		{"dev add a type smi parent nosuch", 0, `add a: find RDMA device "nosuch"` + there},
		{"dev delete nosuch", 0, `delete nosuch: find RDMA device "nosuch"` + there},
		{"dev delete siw0", 0, "delete sub-device siw0: operation not supported: it is not a sub-device; rdma link delete deletes siw and rxe devices\n"},
		{"dev set siw0 name mlx5_0", 0, "rename siw0 to mlx5_0: file exists: another device has that name, possibly in another network namespace\n"},
		{"dev set siw0 netns /nosuch", 0, "open /nosuch: no such file or directory\n"},
		{"dev set siw0 netns 2147483646", 0, `no network namespace "2147483646": no process has that number, and no namespace has that name (` + netnsNames() + ")\n"},
		{"dev set siw0 netns no+such", 0, `no network namespace "no+such" (` + netnsNames() + "); expected one of these names, a path, or the number of a process\n"},
		{"dev set siw0 netns /dev/null", syscall.EOPNOTSUPP, "move siw0 to network namespace /dev/null: operation not supported: in shared mode all namespaces have the device: run rdma system set netns exclusive; in exclusive mode the driver must support moves, which siw and rxe don't\n"},
		{"dev set siw0 adaptive-moderation on", syscall.EPERM, "set adaptive moderation of siw0 to true: needs CAP_NET_ADMIN in the initial user namespace: operation not permitted: run as root, or setcap cap_net_admin+ep\n"},
	} {
		tool, kernel := clitest.Devices()
		if test.fail != 0 {
			kernel.Fail = map[uint16]error{abi.RDMA_NLDEV_CMD_SET: test.fail}
		}
		for _, line := range []string{test.line, "-j " + test.line} { // no JSON that means that there is no device
			if diff := cmp.Diff(clitest.Result{Code: cli.ExitFailed, Err: "rdmalink: " + test.want}, runLine(tool, line, &hosttest.Netdevs{})); diff != "" {
				t.Errorf("%s (-want +got):\n%s", line, diff)
			}
		}
	}
}

func TestDevUsage(t *testing.T) {
	for line, want := range map[string]string{
		"dev frob":                             `"frob": expected one of add, delete, show, set, help`,
		"dev show siw0 1":                      `unexpected argument "1"`,
		"dev set":                              "expected DEV",
		"dev set siw0":                         "expected one of name, netns, adaptive-moderation",
		"dev set siw0 nome":                    `"nome": expected one of name, netns, adaptive-moderation; did you mean name?`,
		"dev set siw0 name":                    "expected NEWNAME",
		"dev set siw0 name a b":                `unexpected argument "b"`,
		"dev set siw0 netns":                   "expected NETNS",
		"dev set siw0 adaptive-moderation":     "expected one of on, off",
		"dev set siw0 adaptive-moderation o":   `"o": expected one of on, off`,
		"dev add":                              "expected NAME",
		"dev add a":                            "expected type",
		"dev add a type":                       "expected TYPE (SMI)",
		"dev add a type sm parent mlx5_0":      `"sm": expected TYPE (SMI)`,
		"dev add a type smi mlx5_0":            `"mlx5_0": expected parent`,
		"dev add a type smi parent":            "expected DEV",
		"dev add a type smi parent mlx5_0 now": `unexpected argument "now"`,
		"dev delete":                           "expected DEV",
		"dev delete smi0 smi1":                 `unexpected argument "smi1"`,
	} {
		tool, kernel := clitest.Devices()
		got := runLine(tool, line, &hosttest.Netdevs{})
		if text, _, _ := strings.Cut(got.Err, "\n"); got.Code != cli.ExitUsage || text != "rdmalink: "+want || len(kernel.Requests) > 0 {
			t.Errorf("%s: %+v, %d requests, want %s", line, got, len(kernel.Requests), want)
		}
	}
}

// devDifferences rewrite our output into rdma's (docs/rdma-differences.md). If a
// newer rdma has fixed the difference, mended is its version.
var devDifferences = []struct {
	ours, rdma string
	mended     version
}{
	{`BIT\(\d+\)|FLUSH_GLOBAL`, "UNKNOWN", version{}},
	{`NodeType\(27\)`, "unknown", version{}},
	{`protocol \w+ |"protocol": ?"\w+",\s*`, "", version{6, 15}},
	{`type smi parent mlx5_0 |,\s*"type": "smi",\s*"parent": "mlx5_0"`, "", version{6, 15}},
}

var oneline = regexp.MustCompile(`-\w*o`)

// TestDevAsIproute2 compares the output with rdma's.
func TestDevAsIproute2(t *testing.T) {
	r := newIproute2(t)
	for line := range devTexts {
		if oneline.MatchString(line) && r.version.before(6, 8) {
			continue
		}
		tool, kernel := clitest.Devices()
		want, failed := r.run(t, kernel, line)
		got := runLine(tool, line, &hosttest.Netdevs{})
		for _, d := range devDifferences {
			if d.mended == (version{}) || r.version.before(d.mended.major, d.mended.minor) {
				got.Out = regexp.MustCompile(d.ours).ReplaceAllString(got.Out, d.rdma)
			}
		}
		if diff := cmp.Diff(want, got.Out); diff != "" || failed || got.Code != 0 {
			t.Errorf("%s, failed %t, exit code %d (-iproute2 +rdmalink):\n%s", line, failed, got.Code, diff)
		}
	}
}

// TestChangesAsIproute2 compares the kernel requests that change something with
// rdma's.
func TestChangesAsIproute2(t *testing.T) {
	r := newIproute2(t)
	for line, since := range map[string]version{
		"dev set siw0 name blue":              {},
		"d set mlx5_0 a off":                  {},
		"dev add smi1 type SMI parent mlx5_0": {6, 15},
		"d a smi1 t smi p mlx5_0":             {6, 15},
		"dev delete smi0":                     {6, 15},
		"link add siw1 type siw netdev vlan5": {},
		"l a siw1 t siw n vlan5":              {},
		"link delete siw0":                    {},
		"system set netns exclusive":          {},
		"sys set netns shared":                {},
		"system set privileged-qkey on":       {6, 15},
	} {
		if r.version.before(since.major, since.minor) {
			continue
		}
		tool, kernel := clitest.Devices()
		kernel.Netdevs, kernel.Types = []string{"vlan5"}, []string{"siw"}
		tool.Net = &hosttest.Netdevs{All: []addlink.Netdev{hosttest.VLAN5}}
		runLine(tool, line, &hosttest.Netdevs{})
		got := changing(kernel.Requests)
		_, kernel = clitest.Devices()
		kernel.Netdevs, kernel.Types = []string{"vlan5"}, []string{"siw"}
		_, failed := r.run(t, kernel, line)
		if diff := cmp.Diff(changing(kernel.Requests), got, cmpopts.EquateEmpty()); diff != "" || failed || len(got) != 1 {
			t.Errorf("%s, failed %t (-iproute2 +rdmalink):\n%s", line, failed, diff)
		}
	}
}

// changing returns the requests that change something.
func changing(requests []netlinkrdma.Request) []netlinkrdma.Request {
	return slices.DeleteFunc(slices.Clone(requests), func(r netlinkrdma.Request) bool {
		return bytes.IndexByte([]byte{abi.RDMA_NLDEV_CMD_GET, abi.RDMA_NLDEV_CMD_PORT_GET, abi.RDMA_NLDEV_CMD_SYS_GET}, byte(r.Op)) >= 0
	})
}
