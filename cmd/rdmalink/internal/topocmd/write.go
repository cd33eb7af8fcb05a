package topocmd

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/table"
	"github.com/goverbs/goverbs/topo"
)

func writeJSON(out *cli.Output, top *topo.Topology) error {
	all, err := top.DirectNICs()
	if err != nil {
		out.Note("%s", cli.PlainLine(err))
		all = top.NICs()
	}
	return out.WriteJSON(all)
}

func writeText(out *cli.Output, top *topo.Topology) error {
	var all []table.Table
	for _, d := range top.Devices {
		if d.Kind == topo.NIC {
			all = append(all, nic(top, d))
		}
	}
	if len(all) == 0 {
		out.Note("no PCI function of this host is an RDMA NIC")
	}
	return table.Write(out, all)
}

// nic returns the lines about a NIC.
func nic(top *topo.Topology, d *topo.Device) (t table.Table) {
	t.Add("name", strings.Join(append(slices.Clone(d.RDMA), d.Address), " "))
	t.AddText("product", d.ProductName)
	if d.NUMANode >= 0 {
		t.Add("numa_node", d.NUMANode)
	}
	if root := d.Root(); root != d {
		t.Add("root_port", root.Address)
	}
	if s := d.Switch(); s != nil {
		t.Add("switch", s.Address)
	}
	if len(d.Net) > 0 {
		t.Add("netdev", table.Names(d.Net))
	}
	for _, f := range d.DataDirect {
		t.Add("data_direct", f.Address)
	}
	for _, kind := range []topo.Kind{topo.GPU, topo.NVMe} {
		for _, near := range top.Nearest(d, kind) {
			names := append([]string{near.Address}, append(slices.Clone(near.DRM), near.NVMe...)...)
			t.Add(strings.ToLower(kind.String()), fmt.Sprintf("%s (%v)", strings.Join(names, " "), topo.Between(d, near)))
		}
	}
	return t
}

// graph returns the topology in the language of Graphviz: the NICs, GPUs and drives, and the bridges above them, by
// NUMA node.
func graph(top *topo.Topology) string {
	nodes := make(map[int][]*topo.Device)
	seen := make(map[*topo.Device]bool)
	for _, d := range top.Devices {
		if d.Kind == topo.Other || d.Kind == topo.Bridge {
			continue
		}
		for ; d != nil && !seen[d]; d = d.Parent {
			seen[d] = true
			nodes[d.NUMANode] = append(nodes[d.NUMANode], d)
		}
	}
	var b strings.Builder
	b.WriteString("graph topology {\n\tnode [shape=box]\n")
	for _, n := range slices.Sorted(maps.Keys(nodes)) {
		label := "no NUMA node"
		if n >= 0 {
			label = fmt.Sprintf("NUMA node %d", n)
		}
		fmt.Fprintf(&b, "\tsubgraph \"cluster %d\" {\n\t\tlabel=%s\n", n, quoted(label))
		for _, d := range nodes[n] {
			fmt.Fprintf(&b, "\t\t%s [label=%s]\n", quoted(d.Address), quoted(strings.Join(lines(d), "\n")))
		}
		b.WriteString("\t}\n")
	}
	for _, d := range top.Devices {
		if seen[d] && d.Parent != nil {
			fmt.Fprintf(&b, "\t%s -- %s\n", quoted(d.Parent.Address), quoted(d.Address))
		}
		for _, f := range d.DataDirect {
			fmt.Fprintf(&b, "\t%s -- %s [style=dashed]\n", quoted(d.Address), quoted(f.Address))
		}
	}
	b.WriteString("}\n")
	return b.String()
}

// lines returns the lines of a box.
func lines(d *topo.Device) []string {
	all := []string{d.Kind.String(), d.Address}
	for _, names := range [][]string{d.RDMA, d.Net, d.DRM, d.NVMe} {
		if len(names) > 0 {
			all = append(all, strings.Join(names, " "))
		}
	}
	return all
}

// quoted returns a string of Graphviz.
func quoted(s string) string {
	parts := strings.Split(s, "\n")
	for i := range parts {
		parts[i] = strings.ReplaceAll(strings.ReplaceAll(cli.Printable(parts[i]), `\`, `\\`), `"`, `\"`)
	}
	return `"` + strings.Join(parts, `\n`) + `"`
}
