package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/netlinkrdma"
)

func resourceCommand() command {
	return command{
		names:   []string{"resource"},
		leads:   true,
		summary: "show the objects that live on a device, and whose they are",
		sub:     []command{resourceShowCommand(), resourceSetCommand(), helpCommand("resource")},
		run:     showResources,
	}
}

func resourceShowCommand() command {
	kinds := resourceKinds()
	var details strings.Builder
	details.WriteString("Without KIND: how many there are of each. Kinds, and what objects can be picked by:\n")
	for _, k := range kinds {
		keys := make([]string, len(k.keys))
		for i, key := range k.keys {
			keys[i] = key.name
		}
		fmt.Fprintf(&details, "  %-10s %s\n", k.name, strings.Join(keys, " "))
	}
	details.WriteString(`
A filter takes several values: lqpn 1,2,5-9 or state RTS,ERR. DEV/- means what
belongs to no port. Text and JSON are those of iproute2's rdma resource show.
pid is the thread that made the object; the filter also takes its process.
Keys of memory are shown with CAP_NET_ADMIN only. -r, what the device itself
holds of a qp, cq, mr or srq, needs it too, and a driver that gives it.`)
	return command{
		names:   []string{"show", "list"},
		leads:   true,
		args:    "[DEV | KIND [link DEV[/PORT] | dev DEV] [FILTER VALUE]...]",
		summary: "count them, or list those of one kind",
		details: details.String(),
		run:     showResources,
	}
}

// resourceKind is a kind of objects that can be shown.
type resourceKind struct {
	name   string
	keys   []filterKey
	number string // the filter that names one object
	show   func(s *resourceShow) error
	hasRaw bool // some drivers have raw data of them
	raw    netlinkrdma.RawKind
}

// resourceKinds are in iproute2's order, which decides what a beginning means
// that several share.
func resourceKinds() []resourceKind {
	return []resourceKind{
		{"qp", qpKeys, "lqpn", showQP, true, netlinkrdma.RawQP},
		{"cm_id", cmIDKeys, "cm-idn", showCMID, false, 0},
		{"cq", cqKeys, "cqn", showCQ, true, netlinkrdma.RawCQ},
		{"mr", mrKeys, "mrn", showMR, true, netlinkrdma.RawMR},
		{"pd", pdKeys, "pdn", showPD, false, 0},
		{"ctx", contextKeys, "ctxn", showContext, false, 0},
		{"srq", srqKeys, "srqn", showSRQ, true, netlinkrdma.RawSRQ},
		{"frmr_pools", frmrKeys, "", showFRMRPools, false, 0},
	}
}

// showResources is what show does, and resource alone. One word that is the
// name of a device means it, even when it is that of a kind too.
func showResources(_ context.Context, t *tool, w *words) error {
	word, kinds := w.peek(), resourceKinds()
	i := slices.IndexFunc(kinds, func(k resourceKind) bool { return strings.HasPrefix(k.name, word) && word != "" })
	if !w.more() {
		return t.showResourceCounts("")
	}
	if len(w.list) == w.pos+1 {
		devices, err := t.RDMA.Devices()
		if err != nil {
			return err
		}
		if slices.ContainsFunc(devices, func(d netlinkrdma.Device) bool { return d.Name == word }) {
			return t.showResourceCounts(word)
		}
	}
	if i < 0 {
		all := make([]string, len(kinds))
		for i, k := range kinds {
			all[i] = k.name
		}
		return cli.Expected(word, append(all, "the name of a device")...)
	}
	w.advance()
	return t.showResourceKind(&kinds[i], w)
}

func (t *tool) showResourceCounts(name string) error {
	p := t.printer()
	err := t.ForDevices(name, func(d netlinkrdma.Device) error {
		counts, err := t.RDMA.Resources(d.Index, t.dumpOptions())
		if err != nil {
			return err
		}
		p.begin()
		if p.json {
			p.uint("ifindex", uint64(d.Index))
			p.word("ifname", d.Name)
		}
		p.text(fmt.Sprintf("%d: %s: ", d.Index, d.Name))
		for _, c := range counts {
			p.uint(c.Kind, c.Count)
		}
		p.end(0)
		return nil
	})
	return errors.Join(err, p.close())
}

func (t *tool) dumpOptions() *netlinkrdma.DumpOptions {
	return &netlinkrdma.DumpOptions{DriverDetails: t.Details > 1}
}
