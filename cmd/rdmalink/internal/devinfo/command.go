package devinfo

import (
	"context"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// Command returns the command devinfo.
func Command() cli.Command {
	return cli.Command{
		Names:   []string{"devinfo"},
		Args:    "[DEV]",
		Summary: "print everything that is known about devices, in one table",
		Details: `
The output of ibv_devinfo, show_gids, ibdev2netdev and ibstat, and whether rdmalink
has a provider for the device. Without a provider, rdmalink and programs built like
it can't create queues on the device. Most values come from netlink; limits,
capabilities and GIDs come from the open device, for which no provider is needed;
P_Keys, board, PCI address and NUMA node come from /sys. If the caller may not read
one of these sources, the rest is printed, and the last lines (missing) say why.

With -v, a line for each verb says whether it works on this device with rdmalink's
provider, and if not, why. The kernel has no list of them, so devinfo makes each call
on objects that it creates and destroys. "unknown" means that something else was in
the way: raw packet QPs need CAP_NET_RAW, address handles a GID.

With -v, two speeds follow the attributes of a port, where they are known: that of all
its links (effective_speed, as of a bond; Linux 7.2), and that of its network device
(netdev_speed, as ethtool has it). The rate is what InfiniBand's codes of widths and
speeds can express: with RoCE and iWARP most drivers report the next one that is not
slower, and 1X SDR if the network device has no speed. Codes that are newer than
rdmalink have no rate.

Names are those of ibv_devinfo and of rdmalink dev; in JSON a name ends with the
unit. A PCI address and a NUMA node are left out if the device has none, as siw
and rxe.`,
		Options: []cli.Option{{Short: "-v", Long: "--verbose", Summary: "print limits, capabilities, verbs and all attributes of ports too", Set: func(t *cli.Tool) { t.Details++ }}},
		Run: func(_ context.Context, t *cli.Tool, w *cli.Words) error {
			name, err := w.LastValue("DEV")
			if err != nil {
				return err
			}
			return Show(&t.Machine, &t.Output, name)
		},
	}
}
