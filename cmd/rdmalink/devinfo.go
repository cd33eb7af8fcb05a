package main

import (
	"context"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/devinfo"
)

func devinfoCommand() command {
	return command{
		names:   []string{"devinfo"},
		args:    "[DEV]",
		summary: "tell everything about devices, in one table",
		details: `
What ibv_devinfo, show_gids, ibdev2netdev and ibstat tell, and whether rdmalink
and programs built like it have a provider for the device, without which they
can't make queues on it. Most comes from netlink; limits, capabilities and GIDs
from the open device, for which no provider is needed; P_Keys, board, PCI
address and NUMA node from /sys. Where one of these is closed to the caller the
rest is shown, and the last lines (missing) say why.

Names are those of ibv_devinfo and of rdmalink dev; in JSON a name ends with the
unit. A PCI address and a NUMA node are left out where there are none, as for
siw and rxe.`,
		options: []option{{short: "-v", long: "--verbose", summary: "limits, capabilities and everything of the ports too", set: func(t *tool) { t.Details++ }}},
		run:     showDevinfo,
	}
}

func showDevinfo(_ context.Context, t *tool, w *words) error {
	name, err := w.lastValue("DEV")
	if err != nil {
		return err
	}
	return devinfo.Show(&t.Machine, &t.Output, name)
}
