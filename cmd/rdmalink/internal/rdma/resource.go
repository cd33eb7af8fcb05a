package rdma

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host"
	"github.com/goverbs/goverbs/netlinkrdma"
)

func resourceCommand() cli.Command {
	return cli.Command{
		Names:   []string{"resource"},
		Leads:   true,
		Summary: "show the objects on devices, and their owners",
		Sub:     []cli.Command{resourceShowCommand(), resourceSetCommand(), cli.HelpCommand("resource")},
		Run:     showResources,
	}
}

func resourceShowCommand() cli.Command {
	kinds := resourceKinds()
	var details strings.Builder
	details.WriteString("Without KIND: the number of objects of each kind. Kinds, and their filters:\n")
	for _, k := range kinds {
		keys := make([]string, len(k.keys))
		for i, key := range k.keys {
			keys[i] = key.Name
		}
		fmt.Fprintf(&details, "  %-10s %s\n", k.name, strings.Join(keys, " "))
	}
	details.WriteString(`
A filter takes several values: lqpn 1,2,5-9 or state RTS,ERR. DEV/- means the
objects that belong to no port. Text and JSON are the same as from iproute2's rdma
resource show. pid is the thread that created the object; the filter also accepts its
process. Keys of memory are shown with CAP_NET_ADMIN only. -r prints the device's own
record of a qp, cq, mr or srq; it needs CAP_NET_ADMIN and support by the driver.`)
	return cli.Command{
		Names:   []string{"show", "list"},
		Leads:   true,
		Args:    "[DEV | KIND [link DEV[/PORT] | dev DEV] [FILTER VALUE]...]",
		Summary: "count the objects, or list those of one kind",
		Details: details.String(),
		Run:     showResources,
	}
}

// resourceKind is a kind of object that can be shown.
type resourceKind struct {
	name   string
	keys   []cli.FilterKey
	number string // the filter that selects one object
	show   func(s *resourceShow) error
	hasRaw bool // some drivers return raw data of them
	raw    netlinkrdma.RawKind
}

// resourceKinds lists the kinds in iproute2's order, which decides the meaning of ambiguous
// abbreviations.
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

// showResources runs show, also without the word show. A single word that names a device
// means the device, even if it names a kind too.
func showResources(_ context.Context, t *cli.Tool, w *cli.Words) error {
	word, kinds := w.Peek(), resourceKinds()
	i := slices.IndexFunc(kinds, func(k resourceKind) bool { return strings.HasPrefix(k.name, word) && word != "" })
	if !w.More() {
		return showResourceCounts(t, "")
	}
	if w.Only() {
		devices, err := t.RDMA.Devices()
		if err != nil {
			return err
		}
		if slices.ContainsFunc(devices, func(d netlinkrdma.Device) bool { return d.Name == word }) {
			return showResourceCounts(t, word)
		}
	}
	if i < 0 {
		all := make([]string, len(kinds))
		for i, k := range kinds {
			all[i] = k.name
		}
		return cli.Expected(word, append(all, "the name of a device")...)
	}
	w.Advance()
	return showResourceKind(t, &kinds[i], w)
}

func showResourceCounts(t *cli.Tool, name string) error {
	p := newPrinter(t)
	err := t.ForDevices(name, func(d netlinkrdma.Device) error {
		counts, err := t.RDMA.Resources(d.Index, dumpOptions(t))
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
	return p.close(err)
}

func dumpOptions(t *cli.Tool) *netlinkrdma.ListOptions {
	return &netlinkrdma.ListOptions{DriverDetails: t.Details > 1}
}

// resourceShow lists the objects of one kind, one device after the other.
type resourceShow struct {
	t        *cli.Tool
	p        *printer
	f        cli.Filters
	kind     *resourceKind
	dev      netlinkrdma.Device
	port     int               // 0: all
	portless bool              // DEV/-
	noRaw    error             // the error of the first device without raw data
	hadRaw   bool              // a device had raw data
	comms    map[uint32]string // name by thread
	pids     map[uint32]int    // process by thread; 0: unknown
}

func showResourceKind(t *cli.Tool, k *resourceKind, w *cli.Words) error {
	f, err := cli.ParseFilters(w, k.keys)
	if err != nil {
		return err
	}
	return showFiltered(t, k, f)
}

func showFiltered(t *cli.Tool, k *resourceKind, f cli.Filters) (err error) {
	s := &resourceShow{t: t, f: f, kind: k, comms: make(map[uint32]string), pids: make(map[uint32]int)}
	name := f.Text("dev")
	if link := f.Text("link"); link != "" {
		if name, s.portless = strings.CutSuffix(link, "/-"); !s.portless || name == "" {
			if name, s.port, err = splitLink(link); err != nil {
				return err
			}
		}
	}
	s.p = newPrinter(t)
	err = t.ForDevices(name, func(d netlinkrdma.Device) error {
		s.dev = d
		return s.device()
	})
	if !s.hadRaw {
		err = cmp.Or(err, s.noRaw)
	}
	return s.p.close(err)
}

func (s *resourceShow) device() error {
	if s.port > s.dev.Ports {
		return noPort(s.dev, s.port)
	}
	defer s.p.flush()
	if s.t.Raw && s.kind.hasRaw {
		return s.showRaw()
	}
	return s.kind.show(s)
}

func (s *resourceShow) options() *netlinkrdma.ListOptions {
	o := dumpOptions(s.t)
	o.Port = s.port
	return o
}

// forEach calls f with each object of a dump. If the filter key selects a single number,
// and get is not nil, it gets only that object.
func forEach[T any](s *resourceShow, key string, dump iter.Seq2[T, error], get func(number uint32) (T, error), f func(v T)) error {
	if number, ok := s.f.Exact(key); ok && get != nil {
		v, err := get(number)
		switch {
		case errors.Is(err, netlinkrdma.ErrNoObject):
			return nil
		case err != nil:
			return err
		}
		f(v)
		return nil
	}
	for v, err := range dump {
		if err != nil {
			return err
		}
		f(v)
	}
	return nil
}

// beginOnDevice starts an object that belongs to no port.
func (s *resourceShow) beginOnDevice() {
	s.p.begin()
	if s.p.json {
		s.p.uint("ifindex", uint64(s.dev.Index))
		s.p.word("ifname", s.dev.Name)
		return
	}
	s.p.word("dev", s.dev.Name)
}

// beginOnLink starts an object that may belong to a port.
func (s *resourceShow) beginOnLink(port int) {
	s.p.begin()
	if s.p.json {
		s.p.uint("ifindex", uint64(s.dev.Index))
		s.p.word("ifname", s.dev.Name)
		if port != 0 {
			s.p.uint("port", uint64(port))
		}
		return
	}
	s.p.name("link")
	s.p.text(s.dev.Name)
	s.p.text("/")
	if port == 0 {
		s.p.text("-")
	} else {
		s.p.number(uint64(port))
	}
	s.p.done()
}

// hasPort reports whether objects of this port were selected.
func (s *resourceShow) hasPort(port int) bool {
	return (s.port == 0 || s.port == port) && (!s.portless || port == 0)
}

// optional prints a number if the kernel reported it.
func (s *resourceShow) optional(key string, v netlinkrdma.Opt[uint32]) {
	if v.Known {
		s.p.uint(key, uint64(v.Value))
	}
}

// key prints a key of memory.
func (s *resourceShow) key(name string, v netlinkrdma.Opt[uint32]) {
	if v.Known {
		s.p.hex(name, uint64(v.Value))
	}
}

// pass reports whether an optional number passes its filter.
func (s *resourceShow) pass(key string, v netlinkrdma.Opt[uint32]) bool {
	return s.f.Number(key, uint64(v.Value), v.Known)
}

func (s *resourceShow) passOwner(o netlinkrdma.Owner) bool {
	return s.f.Number("pid", uint64(o.TID), o.TID != 0) || s.passProcess(o)
}

// passProcess reports whether the process of the owner's thread passes.
func (s *resourceShow) passProcess(o netlinkrdma.Owner) bool {
	pid, ok := s.pids[o.TID]
	if !ok {
		pid, _ = o.PIDIn(s.t.Proc) // 0 if unknown
		s.pids[o.TID] = pid
	}
	return s.f.Number("pid", uint64(pid), pid != 0)
}

// owner prints the owner: a thread, which iproute2 calls pid, with its current name, or a
// module of the kernel.
func (s *resourceShow) owner(o netlinkrdma.Owner) {
	comm := o.Kernel
	if o.TID != 0 {
		s.p.uint("pid", uint64(o.TID))
		comm = s.comm(o.TID)
	} else if comm != "" && !s.p.json {
		comm = "[" + comm + "]"
	}
	if comm != "" {
		s.p.word("comm", comm)
	}
}

// comm returns the name of a thread. It is empty if the thread is gone or hidden. Names are
// cached, because most objects have few owners.
func (s *resourceShow) comm(tid uint32) string {
	name, ok := s.comms[tid]
	if !ok {
		text, err := fs.ReadFile(s.t.Proc, fmt.Sprintf("%d/comm", tid))
		if err == nil {
			name, _, _ = strings.Cut(string(text), "\n")
		}
		s.comms[tid] = name
	}
	return name
}

const driverLine = 80 // iproute2 breaks lines of driver attributes after this many bytes

// driver prints the driver-specific attributes on separate lines.
func (s *resourceShow) driver(attrs []netlinkrdma.DriverAttr) {
	if s.t.Details < 2 || len(attrs) == 0 {
		return
	}
	s.p.newline()
	length := 0
	for _, d := range attrs {
		if length > driverLine {
			s.p.newline()
			length = 0
		}
		before := len(s.p.b)
		s.driverAttr("drv_"+d.Name, d)
		if d.Kind != netlinkrdma.DriverString { // iproute2 does not count strings
			length += len(s.p.b) - before
		}
	}
}

func (s *resourceShow) driverAttr(key string, d netlinkrdma.DriverAttr) {
	switch {
	case d.Kind == netlinkrdma.DriverString || !s.p.json:
		s.p.word(key, d.String())
	case d.Kind == netlinkrdma.DriverS32 || d.Kind == netlinkrdma.DriverS64:
		s.p.int(key, int64(d.Number))
	default:
		s.p.uint(key, d.Number)
	}
}

// showRaw prints the device's own record of its objects: bytes in hexadecimal or, as JSON,
// an array of numbers.
func (s *resourceShow) showRaw() error {
	var get func(uint32) ([]byte, error)
	if s.kind.raw != netlinkrdma.RawQP || s.port != 0 {
		get = func(number uint32) ([]byte, error) {
			return s.t.RDMA.RawObject(s.dev.Index, s.kind.raw, s.port, number)
		}
	}
	err := forEach(s, s.kind.number, s.t.RDMA.RawObjects(s.dev.Index, s.kind.raw, s.options()), get, s.rawData)
	s.hadRaw = s.hadRaw || err == nil
	if errors.Is(err, netlinkrdma.ErrNoRaw) {
		s.noRaw = cmp.Or(s.noRaw, host.Named(s.dev, err))
		return nil // another device may have raw data
	}
	return err
}

func (s *resourceShow) rawData(raw []byte) {
	if s.kind.raw == netlinkrdma.RawQP {
		s.beginOnLink(0)
	} else {
		s.beginOnDevice()
	}
	if s.p.json {
		s.p.list("data", len(raw), func(i int) { s.p.number(uint64(raw[i])) })
	} else {
		s.p.word("data", fmt.Sprintf("%x", raw))
	}
	s.p.end(0)
}
