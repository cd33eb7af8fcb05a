package rdma

import (
	"bytes"
	"context"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/netlinkrdma"
)

// systemCommand returns rdma system: settings that apply to all devices.
func systemCommand() cli.Command {
	return cli.Command{
		Names:   []string{"system"},
		Leads:   true,
		Summary: "show and change settings that apply to all RDMA devices",
		Sub:     []cli.Command{showSystemCommand(), setSystemCommand(), cli.HelpCommand("system")},
		Run:     showSystem,
	}
}

func showSystemCommand() cli.Command {
	return cli.Command{
		Names:   []string{"show"},
		Leads:   true,
		Args:    "[netns | privileged-qkey | monitor]",
		Summary: "show all settings, even if one is named",
		Details: `
monitor: whether the kernel sends events of devices. copy-on-fork: whether
registered memory survives a fork. Neither can be set. privileged-qkey is left out
if the kernel has no such setting.`,
		Run: showSystem,
	}
}

func showSystem(_ context.Context, t *cli.Tool, w *cli.Words) error {
	if w.Peek() != "" {
		if _, err := w.OneOf("netns", "privileged-qkey", "monitor"); err != nil {
			return err
		}
	}
	if err := w.End(); err != nil {
		return err
	}
	s, err := t.RDMA.System()
	if err != nil {
		return err
	}
	p := newPrinter(t)
	p.begin()
	p.word("netns", s.NetnsMode.String())
	if s.PrivilegedQKey.Known {
		p.onOff("privileged-qkey", s.PrivilegedQKey.Value)
	}
	p.onOff("monitor", s.Monitor)
	p.onOff("copy-on-fork", s.CopyOnFork)
	p.b = bytes.TrimSuffix(p.b, []byte(" ")) // only this line of iproute2 has no blank at the end
	p.end(0)
	return p.close(nil)
}

func setSystemCommand() cli.Command {
	return cli.Command{
		Names:   []string{"set"},
		Args:    "{ netns { shared | exclusive } | privileged-qkey { on | off } }",
		Summary: "change the settings",
		Details: `
netns: whether network namespaces share all devices, or each has its own. It can be
changed only while there is a single namespace.

privileged-qkey: whether processes without CAP_NET_RAW may use the Q_Keys whose
highest bit is set.

Both need CAP_NET_ADMIN.`,
		Run: setSystem,
	}
}

func setSystem(_ context.Context, t *cli.Tool, w *cli.Words) error {
	setting, err := w.OneOf("netns", "privileged-qkey")
	if err != nil {
		return err
	}
	var set func() error
	if setting == "netns" {
		mode, err := w.OneOf("shared", "exclusive")
		if err != nil {
			return err
		}
		set = func() error { return t.RDMA.SetNetnsMode(netnsModes[mode]) }
	} else {
		on, err := w.OnOff()
		if err != nil {
			return err
		}
		set = func() error { return t.RDMA.SetPrivilegedQKey(on) }
	}
	if err := w.End(); err != nil {
		return err
	}
	return set()
}

var netnsModes = map[string]netlinkrdma.NetnsMode{"shared": netlinkrdma.NetnsShared, "exclusive": netlinkrdma.NetnsExclusive}
