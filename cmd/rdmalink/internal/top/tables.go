package top

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/internal/metrics"
)

// device is a row of the first table.
type device struct {
	Name   string            `json:"ifname"`
	Used   map[string]uint64 `json:"objects"`
	Limits map[string]uint64 `json:"limits,omitempty"`
}

// port is a row of the second table. Rates are per second. A rate is nil if the driver has no counter
// for it.
type port struct {
	Device  string   `json:"ifname"`
	Port    int      `json:"port"`
	Netdev  string   `json:"netdev,omitempty"`
	State   string   `json:"state"`
	Rate    uint64   `json:"link_bits_per_second,omitempty"`
	TX      *float64 `json:"tx_bytes_per_second,omitempty"`
	RX      *float64 `json:"rx_bytes_per_second,omitempty"`
	TXPkts  *float64 `json:"tx_packets_per_second,omitempty"`
	RXPkts  *float64 `json:"rx_packets_per_second,omitempty"`
	Retrans *float64 `json:"retransmits_per_second,omitempty"`
	CNP     *float64 `json:"cnp_per_second,omitempty"`
	Drops   *float64 `json:"drops_per_second,omitempty"`
}

// rates holds the rate columns of ports, with the metrics that each adds up.
var rates = []struct {
	of      func(p *port) **float64
	metrics []string
}{
	{func(p *port) **float64 { return &p.TX }, []string{"transmit_bytes"}},
	{func(p *port) **float64 { return &p.RX }, []string{"receive_bytes"}},
	{func(p *port) **float64 { return &p.TXPkts }, []string{"transmit_packets"}},
	{func(p *port) **float64 { return &p.RXPkts }, []string{"receive_packets"}},
	{func(p *port) **float64 { return &p.Retrans }, []string{"retransmitted_packets", "ack_timeouts", "sequence_naks_received"}},
	{func(p *port) **float64 { return &p.CNP }, []string{"cnp_sent", "cnp_handled"}},
	{func(p *port) **float64 { return &p.Drops }, []string{"transmit_drops", "receive_drops", "receive_no_buffer", "receive_errors"}},
}

// process is a row of the third table.
type process struct {
	PID     int               `json:"pid,omitempty"`
	Name    string            `json:"comm"`
	Kernel  bool              `json:"kernel,omitempty"`
	Pod     string            `json:"pod,omitempty"`
	Cgroup  string            `json:"cgroup,omitempty"`
	Objects map[string]uint64 `json:"objects"`
	MRBytes uint64            `json:"mr_bytes"`
	Pinned  *uint64           `json:"pinned_bytes,omitempty"`
	Memlock *uint64           `json:"memlock_bytes,omitempty"` // omitted if there is no limit
}

// sortColumn is a column of ports or of processes that the table can be sorted by. The largest numbers
// come first.
type sortColumn struct {
	key     string
	port    func(a, b port) int
	process func(a, b process) int
}

var sortColumns = []sortColumn{
	byRate("tx", func(p port) *float64 { return p.TX }), byRate("rx", func(p port) *float64 { return p.RX }),
	byRate("txpkts", func(p port) *float64 { return p.TXPkts }), byRate("rxpkts", func(p port) *float64 { return p.RXPkts }),
	byRate("retrans", func(p port) *float64 { return p.Retrans }), byRate("cnp", func(p port) *float64 { return p.CNP }),
	byRate("drops", func(p port) *float64 { return p.Drops }),
	byCount("qp"), byCount("cq"), byCount("mr"), byCount("pd"), byCount("ctx"),
	{key: "bytes", process: func(a, b process) int { return cmp.Compare(b.MRBytes, a.MRBytes) }},
	{key: "pinned", process: func(a, b process) int { return cmp.Compare(value(b.Pinned), value(a.Pinned)) }},
	{key: "pid", process: func(a, b process) int { return cmp.Compare(a.PID, b.PID) }},
	{key: "name", process: func(a, b process) int { return cmp.Compare(a.Name, b.Name) }},
}

func sortKeys() []string {
	keys := make([]string, len(sortColumns))
	for i, c := range sortColumns {
		keys[i] = c.key
	}
	return keys
}

func byRate(key string, of func(port) *float64) sortColumn {
	return sortColumn{key: key, port: func(a, b port) int { return cmp.Compare(value(of(b)), value(of(a))) }}
}

func byCount(key string) sortColumn {
	return sortColumn{key: key, process: func(a, b process) int { return cmp.Compare(b.Objects[key], a.Objects[key]) }}
}

func value[T uint64 | float64](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// tables holds the tables that top shows.
type tables struct {
	time      time.Time
	sort      string
	devices   []device
	ports     []port
	processes []process
	errors    []string
}

func (v *view) tables() *tables {
	t := &tables{time: v.now.Time, sort: sortColumns[v.sort].key, devices: []device{}, ports: []port{}, processes: []process{}}
	for i := range v.now.Devices {
		d := &v.now.Devices[i]
		t.devices = append(t.devices, deviceOf(d))
		for j := range d.Ports {
			t.ports = append(t.ports, v.port(d, &d.Ports[j]))
		}
	}
	for i := range v.now.Processes {
		t.processes = append(t.processes, processOf(&v.now.Processes[i]))
	}
	for _, e := range v.now.Errors {
		t.errors = append(t.errors, strings.TrimSpace(e.Device+" "+e.Part)+": "+cli.PlainLine(e.Err))
	}
	column := sortColumns[v.sort]
	if column.port != nil {
		slices.SortStableFunc(t.ports, ordered(column.port, v.reverse))
	}
	if column.process != nil {
		slices.SortStableFunc(t.processes, ordered(column.process, v.reverse))
	}
	return t
}

func ordered[T any](by func(a, b T) int, reverse bool) func(a, b T) int {
	if reverse {
		return func(a, b T) int { return by(b, a) }
	}
	return by
}

func deviceOf(d *metrics.Device) device {
	one := device{Name: d.Name, Used: make(map[string]uint64)}
	for _, r := range d.Objects {
		one.Used[r.Kind] = r.Count
	}
	if l := d.Limits; l != nil {
		one.Limits = map[string]uint64{"qp": uint64(l.MaxQP), "cq": uint64(l.MaxCQ), "mr": uint64(l.MaxMR), "pd": uint64(l.MaxPD)}
	}
	return one
}

// port returns the row of a port. It computes rates only from a snapshot of the same device. A device
// that was removed and added again under the same name counts from zero.
func (v *view) port(d *metrics.Device, p *metrics.Port) port {
	one := port{Device: d.Name, Port: p.Index, Netdev: p.NetdevName, State: p.State.String(), Rate: p.Rate}
	var was *metrics.Port
	if v.before != nil {
		for i := range v.before.Devices {
			before := &v.before.Devices[i]
			at := slices.IndexFunc(before.Ports, func(q metrics.Port) bool { return q.Index == p.Index })
			if before.Index == d.Index && at >= 0 {
				was = &before.Ports[at]
			}
		}
	}
	if was == nil {
		return one
	}
	seconds := v.now.Time.Sub(v.before.Time).Seconds()
	for _, r := range rates {
		if rate, ok := rateOf(was, p, r.metrics, seconds); ok {
			*r.of(&one) = &rate
		}
	}
	return one
}

// rateOf returns the change of the metrics per second. A counter whose value is smaller than before has
// been reset. Its change is unknown and counts as zero.
func rateOf(was, is *metrics.Port, names []string, seconds float64) (rate float64, known bool) {
	for _, name := range names {
		before, ok := was.Sum(name)
		after, still := is.Sum(name)
		if !ok || !still {
			continue
		}
		known = true
		if after > before && seconds > 0 {
			rate += float64(after-before) / seconds
		}
	}
	return rate, known
}

func processOf(p *metrics.Process) process {
	sum := p.Total()
	one := process{PID: p.PID, Name: p.Name, Cgroup: p.Cgroup, Objects: make(map[string]uint64), MRBytes: sum.MRBytes}
	switch {
	case p.Kernel != "":
		one.Name, one.Kernel = p.Kernel, true
	case p.Others > 0:
		one.Name = fmt.Sprintf("%d others", p.Others)
	case p.PID == 0:
		one.Name = "unknown"
	}
	if p.Pod.UID != "" {
		one.Pod = p.Pod.UID
	}
	for k, n := range sum.Objects {
		one.Objects[metrics.Kind(k).String()] = n
	}
	if p.MemlockKnown {
		one.Pinned = &p.Pinned
		if p.Memlock != metrics.NoLimit {
			one.Memlock = &p.Memlock
		}
	}
	return one
}

// page is the JSON output.
type page struct {
	Time      string    `json:"time"`
	Devices   []device  `json:"devices"`
	Ports     []port    `json:"ports"`
	Processes []process `json:"processes"`
	Errors    []string  `json:"errors,omitempty"`
}

func (t *tables) json() page {
	return page{t.time.Format(time.RFC3339Nano), t.devices, t.ports, t.processes, t.errors}
}

// text returns the tables as text.
func (t *tables) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "rdmalink top  %s  sorted by %s  %d devices, %d ports, %d users\n\n", t.time.Format("15:04:05"), t.sort,
		len(t.devices), len(t.ports), len(t.processes))
	rows := [][]string{{"DEVICE", "QP", "CQ", "MR", "PD"}}
	for _, d := range t.devices {
		row := []string{d.Name}
		for _, kind := range []string{"qp", "cq", "mr", "pd"} {
			cell := strconv.FormatUint(d.Used[kind], 10)
			if most := d.Limits[kind]; most > 0 {
				cell += "/" + strconv.FormatUint(most, 10)
			}
			row = append(row, cell)
		}
		rows = append(rows, row)
	}
	writeColumns(&b, rows, 1)
	rows = [][]string{{"PORT", "NETDEV", "STATE", "LINK", "TX/s", "RX/s", "TXPKTS/s", "RXPKTS/s", "RETRANS/s", "CNP/s", "DROPS/s"}}
	for _, p := range t.ports {
		link := "-"
		if p.Rate > 0 {
			link = strconv.FormatFloat(float64(p.Rate)/1e9, 'f', -1, 64) + "Gb"
		}
		rows = append(rows, []string{p.Device + "/" + strconv.Itoa(int(p.Port)), orDash(p.Netdev), p.State, link, perSecond(p.TX, "B"), perSecond(p.RX, "B"),
			perSecond(p.TXPkts, ""), perSecond(p.RXPkts, ""), perSecond(p.Retrans, ""), perSecond(p.CNP, ""), perSecond(p.Drops, "")})
	}
	writeColumns(&b, rows, 3)
	rows = [][]string{{"PID", "NAME", "QP", "CQ", "MR", "PD", "CTX", "BYTES", "PINNED", "MEMLOCK", "POD OR CGROUP"}}
	for _, p := range t.processes {
		rows = append(rows, p.row())
	}
	writeColumns(&b, rows, 2)
	for _, e := range t.errors {
		b.WriteString(cli.Printable(e) + "\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

func (p *process) row() []string {
	pid, name := "-", p.Name
	if p.PID != 0 {
		pid = strconv.Itoa(p.PID)
	}
	if p.Kernel {
		name = "[" + name + "]"
	}
	row := []string{pid, name}
	for _, kind := range []string{"qp", "cq", "mr", "pd", "ctx"} {
		row = append(row, strconv.FormatUint(p.Objects[kind], 10))
	}
	pinned, memlock := "-", "-"
	if p.Pinned != nil {
		pinned, memlock = scaled(float64(*p.Pinned), "B"), "none"
	}
	if p.Memlock != nil {
		memlock = scaled(float64(*p.Memlock), "B")
	}
	where := p.Cgroup
	if p.Pod != "" {
		where = "pod " + p.Pod
	}
	return append(row, scaled(float64(p.MRBytes), "B"), pinned, memlock, orDash(where))
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func perSecond(rate *float64, unit string) string {
	if rate == nil {
		return "-"
	}
	return scaled(*rate, unit)
}

// scaled formats a number with three digits and a prefix for a power of 1,000.
func scaled(n float64, unit string) string {
	prefixes := []string{"", "k", "M", "G", "T", "P", "E"}
	i := 0
	for n >= 999.5 && i < len(prefixes)-1 {
		n, i = n/1000, i+1
	}
	digits := 0
	if i > 0 && n < 99.95 {
		digits = 1
	}
	if i == 0 && n != math.Trunc(n) && n < 9.95 {
		digits = 1
	}
	return strconv.FormatFloat(n, 'f', digits, 64) + prefixes[i] + unit
}

// writeColumns writes rows in columns. The first left columns are aligned on the left, and so is the
// last one if it holds text. Names are escaped.
func writeColumns(b *strings.Builder, rows [][]string, left int) {
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for i := range row {
			row[i] = cli.Printable(row[i])
			width[i] = max(width[i], len([]rune(row[i])))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", width[i]-len([]rune(cell)))
			switch {
			case i < left || rows[0][i] == "POD OR CGROUP":
				line.WriteString(cell + pad)
			default:
				line.WriteString(pad + cell)
			}
			line.WriteString("  ")
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	b.WriteByte('\n')
}
