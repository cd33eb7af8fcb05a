package perfcmd

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/perf"
	"github.com/goverbs/goverbs/internal/perftest"
)

// report prints a run: perftest's table, or JSON.
type report struct {
	session  *session
	json     jsonReport
	progress progress
	missed   []error // limits
}

const ruler = "---------------------------------------------------------------------------------------\n"

// perftest's columns.
const (
	latColumns      = " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] \n"
	latTimedColumns = " #bytes        #iterations       t_avg[usec]    tps average\n"
	bwColumns       = " #bytes     #iterations    BW peak[%s/sec]    BW average[%[1]s/sec]   MsgRate[Mpps]\n"
)

func (p *session) newReport() *report {
	r := &report{session: p}
	r.progress.init(p)
	return r
}

// print prints text that the JSON output does not contain.
func (r *report) print(format string, args ...any) error {
	if r.session.JSON {
		return nil
	}
	r.progress.clear()
	return r.session.Printf(format, args...)
}

// Start prints the configuration and the two ends.
func (r *report) Start(s *perf.Setting) error {
	r.json.start(r.session, s)
	var b strings.Builder
	b.WriteString(ruler)
	fmt.Fprintf(&b, "                    %s\n", r.title(s))
	fmt.Fprintf(&b, " Device          : %s (%v)\tConnection type : %v\n", s.Device, s.Driver, perf.TypeName(s.Type))
	fmt.Fprintf(&b, " Number of qps   : %d\t\trdma_cm QPs     : %s\n", s.QPCount, onOff(s.CM))
	fmt.Fprintf(&b, " Mtu             : %d[B]\tLink type       : %v\n", s.MTU.Bytes(), s.Link)
	fmt.Fprintf(&b, " TX depth        : %d\t\tCQ Moderation   : %d\n", s.TxDepth, s.CQMod)
	if s.PostList > 1 {
		fmt.Fprintf(&b, " Post List       : %d\n", s.PostList)
	}
	if s.Verb == perftest.Send {
		fmt.Fprintf(&b, " RX depth        : %d\n", s.RxDepth)
	}
	if s.Verb == perftest.Read || s.Verb == perftest.Atomic {
		fmt.Fprintf(&b, " Outstand reads  : %d\n", s.OutReads)
	} else {
		fmt.Fprintf(&b, " Max inline data : %d[B]\n", s.Inline)
	}
	b.WriteString(ruler)
	addresses(&b, "local", s.Local)
	addresses(&b, "remote", s.Remote)
	b.WriteString(ruler)
	b.WriteString(r.columns())
	return r.print("%s", &b)
}

func (r *report) title(s *perf.Setting) string {
	words := []string{strings.ToUpper(s.Verb.String()[:1]) + s.Verb.String()[1:]}
	if s.Verb == perftest.Write || s.Verb == perftest.Read {
		words[0] = "RDMA_" + words[0]
	}
	if s.Verb == perftest.Atomic {
		words = append(words, s.Atomic.String())
	}
	if s.Bidirectional {
		words = append(words, "Bidirectional")
	}
	if s.Latency {
		words = append(words, "Latency")
	} else {
		words = append(words, "BW")
	}
	words = append(words, "Test")
	if s.Events {
		words = append(words, "with events")
	}
	return strings.Join(words, " ")
}

func onOff(on bool) string {
	if on {
		return "ON"
	}
	return "OFF"
}

func addresses(b *strings.Builder, side string, all []perftest.Endpoint) {
	for _, e := range all {
		fmt.Fprintf(b, " %s address: LID %#04x QPN 0x%04x PSN %#x", side, e.LID, e.QPN, e.PSN)
		if e.GID != [16]byte{} {
			fmt.Fprintf(b, " GID %v", e.GID)
		}
		b.WriteByte('\n')
	}
}

// columns returns the head of the table, which is empty for an end without results.
func (r *report) columns() string {
	switch {
	case !r.session.Latency:
		unit := "MB"
		if r.session.Gbits {
			unit = "Gb"
		}
		return fmt.Sprintf(bwColumns, unit)
	case r.session.ServerIdle() && r.session.Role == perftest.Server:
		return ""
	case r.session.Time > 0:
		return latTimedColumns
	}
	return latColumns
}

// Size comes before each size.
func (r *report) Size(bytes int, messages int64, done *perf.Progress) {
	r.progress.next(bytes, messages, done)
}

// Latency prints a row, and before it every latency if asked for.
func (r *report) Latency(l *perf.Latency) error {
	r.progress.rest()
	r.json.latency(r.session, l)
	if r.session.Time > 0 {
		return r.print(" %-7d       %d            %-7.2f        %-7.2f\n", l.Size, l.Iters, l.Avg, l.PerSecond)
	}
	if r.session.sorted || r.session.unsorted {
		if err := r.samples(l); err != nil {
			return err
		}
	}
	return r.print(" %-7d %d          %-7.2f        %-7.2f      %-7.2f  \t       %-7.2f     \t%-7.2f\t\t%-7.2f \t\t%-7.2f\n",
		l.Size, l.Iters, l.Min, l.Max, l.Typical, l.Avg, l.Stdev, l.P99, l.P999)
}

func (r *report) samples(l *perf.Latency) error {
	var b strings.Builder
	b.WriteString("#, usec\n")
	for i, v := range r.session.samplesOf(l) {
		fmt.Fprintf(&b, "%d, %g\n", i+1, v)
	}
	return r.print("%s%s%s", &b, ruler, r.columns())
}

// samplesOf returns the latencies in the requested order.
func (p *session) samplesOf(l *perf.Latency) []float64 {
	switch {
	case p.sorted:
		return l.Sorted()
	case p.unsorted:
		return l.Samples
	}
	return nil
}

// Bandwidth prints a row.
func (r *report) Bandwidth(b *perf.Bandwidth) error {
	r.progress.rest()
	r.json.bandwidth(r.session, b)
	unit := r.session.Unit()
	r.compare(b, unit)
	return r.print(" %-7d    %-10d       %-7.2f            %-7.2f\t\t   %-7.6f\n",
		b.Size, b.Messages, b.Peak/unit, b.Average/unit, b.Rate/1e6)
}

// compare prints a note for each result below the limits of -w and -y. The run
// continues, because the peer has not failed.
func (r *report) compare(b *perf.Bandwidth, unit float64) {
	if got := b.Average / unit; got < r.session.leastBW {
		r.missed = append(r.missed, fmt.Errorf("-w %g: the average bandwidth with %d bytes is %.2f", r.session.leastBW, b.Size, got))
	}
	if got := b.Rate / 1e6; got < r.session.leastRate {
		r.missed = append(r.missed, fmt.Errorf("-y %g: the message rate with %d bytes is %.6f", r.session.leastRate, b.Size, got))
	}
}

// finish prints the last line, or the JSON, and returns the failures.
func (r *report) finish(err error) error {
	err = errors.Join(append(r.missed, err)...)
	if r.session.JSON {
		return r.json.write(r.session, err)
	}
	if err != nil {
		return err
	}
	return r.print("%s", ruler)
}

// jsonReport is the output with -j. Names end with the unit.
type jsonReport struct {
	Test          string     `json:"test"` // send lat
	Role          string     `json:"role"`
	Device        string     `json:"device,omitempty"`
	Driver        string     `json:"driver,omitempty"`
	PeerVersion   string     `json:"peer_version,omitempty"` // of its perftest, or the one we call ourselves
	Connection    string     `json:"connection,omitempty"`   // RC, UC, UD
	CM            bool       `json:"rdma_cm"`
	Events        bool       `json:"events"`
	Bidirectional bool       `json:"bidirectional,omitempty"`
	QPCount       int        `json:"qps,omitempty"`
	MTU           int        `json:"mtu_bytes,omitempty"`
	TxDepth       int        `json:"tx_depth,omitempty"`
	RxDepth       int        `json:"rx_depth,omitempty"`
	PostList      int        `json:"post_list,omitempty"`
	CQMod         int        `json:"cq_mod,omitempty"`
	Inline        int        `json:"inline_bytes"`
	OutReads      int        `json:"outs,omitempty"`
	Local         []jsonAddr `json:"local,omitempty"`
	Remote        []jsonAddr `json:"remote,omitempty"`
	Results       []any      `json:"results"` // perfJSONLatency or perfJSONBandwidth, a size each
	Error         string     `json:"error,omitempty"`
}

type jsonAddr struct {
	LID uint16 `json:"lid"`
	QPN uint32 `json:"qpn"`
	PSN uint32 `json:"psn"`
	GID string `json:"gid"`
}

type jsonLatency struct {
	Size      int       `json:"size_bytes"`
	Iters     int       `json:"iterations"`
	Min       float64   `json:"t_min_usec,omitempty"`
	Max       float64   `json:"t_max_usec,omitempty"`
	Typical   float64   `json:"t_typical_usec,omitempty"`
	Avg       float64   `json:"t_avg_usec"`
	Stdev     *float64  `json:"t_stdev_usec,omitempty"` // 0 of equal samples is a figure
	P99       float64   `json:"p99_usec,omitempty"`
	P999      float64   `json:"p99_9_usec,omitempty"`
	PerSecond float64   `json:"tps,omitempty"`
	Samples   []float64 `json:"samples_usec,omitempty"`
}

type jsonBandwidth struct {
	Size     int     `json:"size_bytes"`
	Messages int64   `json:"iterations"`
	Peak     float64 `json:"bw_peak_bytes_per_sec,omitempty"`
	Average  float64 `json:"bw_average_bytes_per_sec"`
	Rate     float64 `json:"msg_rate_per_sec"`
}

func (j *jsonReport) start(p *session, s *perf.Setting) {
	j.Device, j.Driver, j.Connection = s.Device, s.Driver.String(), perf.TypeName(s.Type)
	j.PeerVersion = s.Version
	j.CM, j.Events, j.Bidirectional = s.CM, s.Events, s.Bidirectional
	j.QPCount, j.MTU, j.TxDepth, j.RxDepth = s.QPCount, s.MTU.Bytes(), s.TxDepth, s.RxDepth
	j.PostList, j.CQMod, j.Inline, j.OutReads = s.PostList, s.CQMod, s.Inline, s.OutReads
	j.Local, j.Remote = jsonAddrs(s.Local), jsonAddrs(s.Remote)
}

func jsonAddrs(all []perftest.Endpoint) (addrs []jsonAddr) {
	for _, e := range all {
		addrs = append(addrs, jsonAddr{e.LID, e.QPN, e.PSN, e.GID.String()})
	}
	return addrs
}

func (j *jsonReport) latency(p *session, l *perf.Latency) {
	r := jsonLatency{l.Size, l.Iters, l.Min, l.Max, l.Typical, l.Avg, nil, l.P99, l.P999, l.PerSecond, p.samplesOf(l)}
	if l.PerSecond == 0 {
		r.Stdev = &l.Stdev
	}
	j.Results = append(j.Results, r)
}

func (j *jsonReport) bandwidth(_ *session, b *perf.Bandwidth) {
	j.Results = append(j.Results, jsonBandwidth{b.Size, b.Messages, b.Peak, b.Average, b.Rate})
}

// write prints the line, and returns the failures.
func (j *jsonReport) write(p *session, err error) error {
	j.Test, j.Role = p.kind.Verb.String()+" "+p.kind.Name(), "client"
	if p.Role == perftest.Server {
		j.Role = "server"
	}
	if j.Results == nil {
		j.Results = []any{}
	}
	if err != nil {
		j.Error = cli.Plain(err)
	}
	return errors.Join(err, p.WriteJSON(j))
}

// progress prints the state of a run in a line of the terminal, and erases the line
// before other output.
type progress struct {
	out  io.Writer // nil if the output is no terminal
	over chan struct{}

	mu     sync.Mutex
	state  string
	total  int64
	done   *perf.Progress // nil between sizes
	began  time.Time
	length time.Duration // of a run of which the time decides
	shown  bool
}

// progressStep is how often the line changes.
const progressStep = 500 * time.Millisecond

func (p *progress) init(run *session) {
	p.over = make(chan struct{})
	p.length = run.Time
	if cli.IsTerminal(run.Stderr) {
		p.out = run.Stderr
	}
	p.state = "waiting for a client"
	if run.host != "" {
		p.state = "connecting to " + run.host
	}
}

// show draws the line until the end.
func (p *progress) show() {
	if p.out == nil {
		return
	}
	tick := time.NewTicker(progressStep)
	defer tick.Stop()
	for {
		select {
		case <-p.over:
			return
		case <-tick.C:
			p.draw()
		}
	}
}

func (p *progress) draw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := cli.Printable(p.state)
	switch {
	case p.done == nil:
	case p.total > 0:
		text += fmt.Sprintf(": %d of %d messages, %d %%", p.done.Done(), p.total, 100*p.done.Done()/p.total)
	default:
		text += fmt.Sprintf(": %.0f of %.0f s, %d messages", time.Since(p.began).Seconds(), p.length.Seconds(), p.done.Done())
	}
	fmt.Fprintf(p.out, "\r\x1b[K%s", text)
	p.shown = true
}

// next begins with a size.
func (p *progress) next(size int, total int64, done *perf.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state, p.total, p.done, p.began = fmt.Sprintf("%d bytes", size), total, done, time.Now()
}

// rest records that a size is complete.
func (p *progress) rest() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state, p.done = "waiting for the peer", nil
}

// clear erases the line.
func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.shown = false
	}
}

func (p *progress) end() {
	close(p.over)
	p.clear()
}
