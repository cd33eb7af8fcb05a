package rdma

import (
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli/clitest"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host/hosttest"
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/netlinkrdma"
)

func TestSystemShow(t *testing.T) {
	const all = "netns shared privileged-qkey off monitor on copy-on-fork on\n"
	const pretty = `[ {
        "netns": "shared",
        "privileged-qkey": false,
        "monitor": true,
        "copy-on-fork": true
    } ]
`
	for line, want := range map[string]string{
		"system": all, "s": all, "sys s": all, "system show netns": all, "s s p": all, "sy show mon": all, "-o system": all,
		"-j system":  `[{"netns":"shared","privileged-qkey":false,"monitor":true,"copy-on-fork":true}]` + "\n",
		"system -jp": pretty,
	} {
		tool, _ := clitest.Devices()
		if diff := cmp.Diff(clitest.Result{Out: want}, runLine(tool, line, &hosttest.Netdevs{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
	for line, want := range map[string]string{
		"system":    "netns NetnsMode(27) monitor off copy-on-fork off\n",
		"-j system": `[{"netns":"NetnsMode(27)","monitor":false,"copy-on-fork":false}]` + "\n",
	} {
		tool, kernel := clitest.Devices()
		kernel.System = netlinkrdma.System{NetnsMode: 27}
		if diff := cmp.Diff(clitest.Result{Out: want}, runLine(tool, line, &hosttest.Netdevs{})); diff != "" {
			t.Errorf("%s, kernel of old (-want +got):\n%s", line, diff)
		}
	}
}

func TestSystemSet(t *testing.T) {
	tool, kernel := clitest.Devices()
	was := kernel.System
	for _, step := range []struct {
		line   string
		change func(*netlinkrdma.System)
	}{
		{"system set netns exclusive", func(s *netlinkrdma.System) { s.NetnsMode = netlinkrdma.NetnsExclusive }},
		{"s set privileged-qkey on", func(s *netlinkrdma.System) { s.PrivilegedQKey = clitest.Opt(true) }},
		{"sys set n shared", func(s *netlinkrdma.System) { s.NetnsMode = netlinkrdma.NetnsShared }},
		{"s se p off", func(s *netlinkrdma.System) { s.PrivilegedQKey = clitest.Opt(false) }},
	} {
		step.change(&was)
		if diff := cmp.Diff(clitest.Result{}, runLine(tool, step.line, &hosttest.Netdevs{})); diff != "" || kernel.System != was {
			t.Errorf("%s: %+v, want %+v\n%s", step.line, kernel.System, was, diff)
		}
	}
}

func TestSystemErrors(t *testing.T) {
	for _, test := range []struct {
		line string
		fail syscall.Errno
		code int
		want string
	}{
		{"system set netns shared", syscall.EBUSY, 1, "set netns mode shared: device or resource busy: other network namespaces exist; set it before any is created, or with option netns_mode of module ib_core"},
		{"system set privileged-qkey on", syscall.EINVAL, 1, "set privileged Q_Keys to true: invalid argument: this kernel has no such setting; Linux 6.7 has it, and later releases of 6.1"},
		{"system set privileged-qkey on", syscall.EPERM, 1, "set privileged Q_Keys to true: needs CAP_NET_ADMIN in the initial user namespace: operation not permitted: run as root, or setcap cap_net_admin+ep"},
		{"system frob", 0, 2, `"frob": expected one of show, set, help`},
		{"system show frob", 0, 2, `"frob": expected one of netns, privileged-qkey, monitor`},
		{"system show netns netns", 0, 2, `unexpected argument "netns"`},
		{"system set", 0, 2, "expected one of netns, privileged-qkey"},
		{"system set monitor on", 0, 2, `"monitor": expected one of netns, privileged-qkey`},
		{"system set netns", 0, 2, "expected one of shared, exclusive"},
		{"system set netns on", 0, 2, `"on": expected one of shared, exclusive`},
		{"system set privileged-qkey shared", 0, 2, `"shared": expected one of on, off`},
		{"system set privileged-qkey on on", 0, 2, `unexpected argument "on"`},
	} {
		tool, kernel := clitest.Devices()
		kernel.Fail = map[uint16]error{abi.RDMA_NLDEV_CMD_SYS_SET: test.fail}
		got := runLine(tool, test.line, &hosttest.Netdevs{})
		if text, _, _ := strings.Cut(got.Err, "\n"); got.Code != test.code || text != "rdmalink: "+test.want {
			t.Errorf("%s: %+v, want %s", test.line, got, test.want)
		}
	}
}
