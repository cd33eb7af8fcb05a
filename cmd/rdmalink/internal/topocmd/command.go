// Package topocmd prints which NICs, GPUs and NUMA nodes of this host are near each other.
package topocmd

import (
	"context"
	"fmt"
	"os"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/topo"
)

// Command returns the command topo.
func Command() cli.Command {
	return cli.Command{
		Names:   []string{"topo"},
		Summary: "show which NICs, GPUs and NUMA nodes are near each other",
		Details: `
For each NIC: its NUMA node, the root port and the switch above it, its Data Direct
functions, and the GPUs that are nearest to it, with what they share: a switch, a root
port or the NUMA node. All of it comes from /sys. Devices in software have no place.

With -j the output has the form of rdma-core's rdma_topo topology -j, on the platforms
that it knows: ConnectX NICs that share a switch, a Data Direct function or a NUMA node
with GPUs of NVIDIA. This needs root. On other hosts a note says why rdma_topo would
fail, and there is an entry for each NIC, with the same keys.

--dot prints a graph for Graphviz: rdmalink topo --dot | dot -Tsvg > topology.svg`,
		Options: []cli.Option{
			{Long: "--dot", Summary: "print a graph in the language of Graphviz"},
			{Long: "--sysfs", Value: "DIR", Summary: "read DIR, a copy of another host's /sys, instead of /sys"},
		},
		Run: show,
	}
}

func show(_ context.Context, t *cli.Tool, w *cli.Words) error {
	if err := w.End(); err != nil {
		return err
	}
	sys := t.Machine.Sys.FS
	dir, given := t.Option("--sysfs")
	if given {
		sys = os.DirFS(dir)
	}
	top, err := topo.Read(sys)
	switch {
	case err != nil && given:
		return fmt.Errorf("--sysfs %s: %w", dir, err)
	case err != nil:
		return err
	}
	_, dot := t.Option("--dot")
	switch {
	case dot && t.JSON:
		return cli.UsageError{Text: "--dot and --json exclude each other"}
	case dot:
		return t.Printf("%s", graph(top))
	case t.JSON:
		return writeJSON(&t.Output, top)
	}
	return writeText(&t.Output, top)
}
