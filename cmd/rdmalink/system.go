package main

import (
	"bytes"
	"context"

	"github.com/goverbs/goverbs/netlinkrdma"
)

// systemCommand is rdma system: what holds for all devices.
func systemCommand() command {
	return command{
		names:   []string{"system"},
		leads:   true,
		summary: "show and change what holds for all RDMA devices",
		sub:     []command{showSystemCommand(), setSystemCommand(), helpCommand("system")},
		run:     showSystem,
	}
}

func showSystemCommand() command {
	return command{
		names:   []string{"show"},
		leads:   true,
		args:    "[netns | privileged-qkey | monitor]",
		summary: "show the settings; whichever is named, all of them",
		details: `
monitor tells whether the kernel sends events of devices. copy-on-fork tells
whether registered memory survives a fork. Neither can be set. privileged-qkey
is left out where the kernel has no such setting.`,
		run: showSystem,
	}
}

func showSystem(_ context.Context, t *tool, w *words) error {
	if w.peek() != "" {
		if _, err := w.oneOf("netns", "privileged-qkey", "monitor"); err != nil {
			return err
		}
	}
	if err := w.end(); err != nil {
		return err
	}
	s, err := t.RDMA.System()
	if err != nil {
		return err
	}
	p := t.printer()
	p.begin()
	p.word("netns", s.NetnsMode.String())
	if s.PrivilegedQKey.Known {
		p.onOff("privileged-qkey", s.PrivilegedQKey.Value)
	}
	p.onOff("monitor", s.Monitor)
	p.onOff("copy-on-fork", s.CopyOnFork)
	p.b = bytes.TrimSuffix(p.b, []byte(" ")) // iproute2's one line without
	p.end(0)
	return p.close()
}

func setSystemCommand() command {
	return command{
		names:   []string{"set"},
		args:    "{ netns { shared | exclusive } | privileged-qkey { on | off } }",
		summary: "change the settings",
		details: `
netns: whether network namespaces share all devices, or each has its own. It
can be changed while there is but one namespace.

privileged-qkey: whether processes without CAP_NET_RAW may use the Q_Keys whose
highest bit is set.

Both need CAP_NET_ADMIN.`,
		run: setSystem,
	}
}

func setSystem(_ context.Context, t *tool, w *words) error {
	what, err := w.oneOf("netns", "privileged-qkey")
	if err != nil {
		return err
	}
	var set func() error
	if what == "netns" {
		mode, err := w.oneOf("shared", "exclusive")
		if err != nil {
			return err
		}
		set = func() error { return t.RDMA.SetNetnsMode(netnsModes[mode]) }
	} else {
		on, err := w.onOff()
		if err != nil {
			return err
		}
		set = func() error { return t.RDMA.SetPrivilegedQKey(on) }
	}
	if err := w.end(); err != nil {
		return err
	}
	return set()
}

var netnsModes = map[string]netlinkrdma.NetnsMode{"shared": netlinkrdma.NetnsShared, "exclusive": netlinkrdma.NetnsExclusive}
