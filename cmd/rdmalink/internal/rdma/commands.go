// Package rdma holds the commands of iproute2's rdma: dev, link, resource, system,
// statistic and monitor. Their words, their text and their JSON are iproute2's;
// docs/rdma-differences.md lists the exceptions.
package rdma

import "github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"

// Commands returns the commands in iproute2's order, followed by those of link,
// which rdmalink has at the top too.
func Commands() []cli.Command {
	all := []cli.Command{
		devCommand(), linkCommand(), resourceCommand(), systemCommand(), statisticCommand(), monitorCommand(),
		addCommand(), delCommand(), showCommand(),
	}
	for i := range all {
		all[i].Expand = expand
	}
	return all
}
