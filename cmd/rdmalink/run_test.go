package main

import (
	"bytes"
	"context"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host/hosttest"
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
)

// machine is a tool on the machine that hosttest makes.
func machine() (*tool, *nltest.Kernel, *hosttest.Netdevs) {
	m, kernel, nets := hosttest.Machine()
	return &tool{stdin: strings.NewReader(""), Machine: m}, kernel, nets
}

type result struct {
	Code        int
	Out, Err    string
	NetdevCalls []string
}

func (t *tool) runLine(line string, nets *hosttest.Netdevs) result {
	var stdout, stderr bytes.Buffer
	t.Stdout, t.Stderr = &stdout, &stderr
	code := t.run(context.Background(), strings.Fields(line))
	return result{code, stdout.String(), stderr.String(), nets.Log}
}

func TestAddAndDelete(t *testing.T) {
	tool, kernel, nets := machine()
	for _, line := range []string{
		"add siw1 type siw netdev vlan5", "del siw1",
		"link add siw1 type siw netdev vlan5", "link delete siw1",
		"a siw1 t siw n vlan5", "l de siw1",
	} {
		before := len(kernel.Devices)
		if diff := cmp.Diff(result{}, tool.runLine(line, nets)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
		if len(kernel.Devices) == before {
			t.Errorf("%s changed nothing", line)
		}
	}
}

// TestErrors holds the exact words of every refusal.
func TestErrors(t *testing.T) {
	const permission = "needs CAP_NET_ADMIN in the initial user namespace (run as root, or setcap cap_net_admin+ep): operation not permitted\n"
	for _, test := range []struct {
		line string
		fail syscall.Errno // of the kernel's NEWLINK and DELLINK
		code int
		want string
	}{
		{"add siw1 type siw netdev vlan5", syscall.EPERM, 1, "rdmalink: add link siw1 type siw netdev vlan5: " + permission},
		{"del siw0", syscall.EPERM, 1, "rdmalink: delete link of siw0: " + permission},
		{"add siw1 type siw netdev eth7", 0, 1, "rdmalink: add siw1: no network device \"eth7\" in this network namespace (there are: lo, dummy0, bare, vlan5)\n"},
		{"add siw1 type siw netdev vlan5", syscall.ENODEV, 1, "rdmalink: add siw1: network device vlan5 went away (no such device)\n"},
		{"add siw0 type siw netdev vlan5", 0, 1, "rdmalink: add siw0: the name siw0 is taken: choose another, or rdmalink del siw0 (too many open files in system)\n"},
		{"add siw1 type siw netdev dummy0", 0, 1, "rdmalink: add siw1: dummy0 already has a link of type siw, and can have one only; on it there is siw0 (file exists)\n"},
		{"add foo0 type foo netdev dummy0", 0, 1, "rdmalink: add foo0: the kernel has no link type \"foo\" and found no module rdma-link-foo for it, or the driver does not take dummy0. The types are siw and rxe (invalid argument)\n"},
		{"add siw1 type siw netdev vlan5", syscall.EINVAL, 1, "rdmalink: add siw1: the kernel has no link type \"siw\" and found no module rdma-link-siw for it, or the driver does not take vlan5. Try: modprobe siw. Some kernels, Debian's among them, are built without it (CONFIG_RDMA_SIW) (invalid argument)\n"},
		{"add rxe1 type rxe netdev dummy0", syscall.EINVAL, 1, "rdmalink: add rxe1: the kernel has no link type \"rxe\" and found no module rdma-link-rxe for it, or the driver does not take dummy0. Try: modprobe rdma_rxe. Cloud kernels are often built without it (CONFIG_RDMA_RXE) (invalid argument)\n"},
		{"add rxe1 type rxe netdev vlan5", syscall.EPERM, 1, "rdmalink: add rxe1: rxe takes no VLAN device such as vlan5: add it on the device below (operation not permitted)\n"},
		{"add rxe1 type rxe netdev dummy0", syscall.ENOENT, 1, "rdmalink: add rxe1: rxe misses the kernel's crc32: modprobe crc32_generic (no such file or directory)\n"},
		{"add siw1 type siw netdev vlan5", syscall.EPROTONOSUPPORT, 1, "rdmalink: add link siw1 type siw netdev vlan5: no NETLINK_RDMA here (on linux: modprobe ib_core): protocol not supported\n"},
		{"add siw%d type siw netdev vlan5", 0, 1, "rdmalink: add link siw%d type siw netdev vlan5: invalid name: the name holds a percent sign, a slash or a NUL (invalid argument)\n"},
		{"del siw7", 0, 1, "rdmalink: delete siw7: no such RDMA device: \"siw7\" (there are: siw0)\n"},
		{"del siw0", syscall.EINVAL, 1, "rdmalink: delete siw0: it belongs to hardware, or went away: only siw and rxe links can be deleted (invalid argument)\n"},
		{"show siw7", 0, 1, "rdmalink: no such RDMA device: \"siw7\" (there are: siw0)\n"},
		{"show siw0/2", 0, 1, "rdmalink: siw0 has no port 2, it has 1\n"},
	} {
		tool, kernel, nets := machine()
		if test.fail != 0 {
			kernel.Fail = map[uint16]error{abi.RDMA_NLDEV_CMD_NEWLINK: test.fail, abi.RDMA_NLDEV_CMD_DELLINK: test.fail}
		}
		want := result{Code: test.code, Err: test.want}
		if test.fail == syscall.EINVAL && strings.HasPrefix(test.line, "add rxe1") {
			kernel.Types = []string{"siw"}
		}
		if diff := cmp.Diff(want, tool.runLine(test.line, nets)); diff != "" {
			t.Errorf("%s, errno %d (-want +got):\n%s", test.line, test.fail, diff)
		}
	}
}

func TestUsageErrors(t *testing.T) {
	const add = "\nUsage: rdmalink add NAME type TYPE netdev NETDEV (rdmalink add -h tells more)\n"
	for line, want := range map[string]string{
		"":                              "expected one of " + strings.Join(names(root().sub), ", ") + "\nUsage: rdmalink [OPTIONS] COMMAND (rdmalink -h tells more)\n",
		"frob":                          "\"frob\": expected one of " + strings.Join(names(root().sub), ", ") + "\nUsage: rdmalink [OPTIONS] COMMAND (rdmalink -h tells more)\n",
		"link frob":                     "\"frob\": expected one of add, del, show, help\nUsage: rdmalink link [OPTIONS] COMMAND (rdmalink link -h tells more)\n",
		"add":                           "expected NAME" + add,
		"add siw0":                      "expected type" + add,
		"add siw0 siw":                  "\"siw\": expected type" + add,
		"add siw0 type":                 "expected TYPE (siw or rxe)" + add,
		"add siw0 type siw lo":          "\"lo\": expected netdev" + add,
		"add siw0 type siw netdev":      "expected NETDEV" + add,
		"add siw0 type siw netdev lo 1": "\"1\" is one word too many" + add,
		"add siw0 --fax":                "\"--fax\": expected one of --keep-netdev, --help, --version, --json, --pretty, --details, --raw, --oneline, --batch, --force" + add,
		"add siw0 --js=1":               "--js takes no value" + add,
		"del":                           "expected DEV\nUsage: rdmalink del DEV (rdmalink del -h tells more)\n",
		"link del a b":                  "\"b\" is one word too many\nUsage: rdmalink link del DEV (rdmalink link del -h tells more)\n",
		"show siw0/x":                   "\"siw0/x\": the port is a number from 1\nUsage: rdmalink show [DEV[/PORT]] (rdmalink show -h tells more)\n",
		"show siw0/0":                   "\"siw0/0\": the port is a number from 1\nUsage: rdmalink show [DEV[/PORT]] (rdmalink show -h tells more)\n",
		"show -jq":                      "\"-q\": expected one of --help, --version, --json, --pretty, --details, --raw, --oneline, --batch, --force\nUsage: rdmalink show [DEV[/PORT]] (rdmalink show -h tells more)\n",
	} {
		tool, kernel, nets := machine()
		asked := len(kernel.Requests)
		if diff := cmp.Diff(result{Code: 2, Err: "rdmalink: " + want}, tool.runLine(line, nets)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", line, diff)
		}
		if len(kernel.Requests) != asked {
			t.Errorf("%q reached the kernel", line)
		}
	}
}

func TestHelpAtEveryLevel(t *testing.T) {
	var walk func(c command, path string)
	walk = func(c command, path string) {
		for _, flag := range []string{" -h", " --help"} {
			tool, _, nets := machine()
			got := tool.runLine(path+flag, nets)
			if got.Code != 0 || got.Err != "" || !strings.HasPrefix(got.Out, "Usage: rdmalink"+path) || !strings.Contains(got.Out, c.summary) {
				t.Errorf("rdmalink%s%s: %+v", path, flag, got)
			}
			for _, s := range c.sub {
				if !strings.Contains(got.Out, "\n  "+s.name()) {
					t.Errorf("help of %q does not list %s", path, s.name())
				}
			}
		}
		for _, s := range c.sub {
			walk(s, path+" "+s.name())
		}
	}
	walk(root(), "")
}

func TestVersion(t *testing.T) {
	for _, line := range []string{"-V", "--version", "version"} {
		tool, _, nets := machine()
		if got := tool.runLine(line, nets); got.Code != 0 || !strings.HasPrefix(got.Out, "rdmalink, goverbs ") {
			t.Errorf("%s: %+v", line, got)
		}
	}
}

// TestRawCommand is about the contract of commands with options of their own.
func TestRawCommand(t *testing.T) {
	var got []string
	raw := command{names: []string{"raw"}, summary: "a", args: "ARGS", raw: true,
		run: func(_ context.Context, _ *tool, w *words) error { got = w.rest(); return nil }}
	table := root()
	table.sub = append(table.sub, raw)
	tool, _, _ := machine()
	err := tool.dispatch(context.Background(), table, nil, &words{list: strings.Fields("-j raw -c -p 7174 -h")})
	if diff := cmp.Diff([]string{"-c", "-p", "7174", "-h"}, got); err != nil || diff != "" || !tool.JSON || tool.Pretty {
		t.Errorf("%v, json %v, pretty %v\n%s", err, tool.JSON, tool.Pretty, diff)
	}
}
