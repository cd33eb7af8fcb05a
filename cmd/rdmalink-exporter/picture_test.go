package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"html"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/goverbs/goverbs/internal/metrics"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
	"github.com/goverbs/goverbs/verbs"
)

var picture = flag.String("picture", "", "file to draw the dashboard to")

// The picture shows half an hour, with a scrape at each step.
const (
	step   = 30 * time.Second
	length = 30 * time.Minute
)

var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// record scrapes the machine of the tests for half an hour of its time, in the format of OpenMetrics. Its
// load rises and falls, it meets congestion at the peaks, its port is down for two minutes,
// and a device is added.
func record(t *testing.T) []byte {
	source, kernel := machine()
	watcher := &metrics.Watcher{RDMA: source.RDMA}
	sys := source.Sys.(fstest.MapFS)
	totals := make(map[string]uint64)
	pods := source.Pods.(fstest.MapFS)
	proc := source.Proc.(fstest.MapFS)
	pods["prod_trainer-1_0a1b2c3d-0001-0002-0003-0a1b2c3d4e60/log"] = &fstest.MapFile{}
	for name, text := range map[string]string{"status": "Tgid:\t8\nVmPin:\t 6144 kB\nCapEff:\t0\n", "comm": "trainer\n", "limits": "Max locked memory 8388608 8388608 bytes\n",
		"cgroup": strings.Replace(podPath, "4e5f", "4e60", 1) + container + ".scope\n"} {
		proc["8/"+name] = &fstest.MapFile{Data: []byte(text)}
	}
	proc["7/comm"] = &fstest.MapFile{Data: []byte("server\n")}
	var out bytes.Buffer
	for i := range int(length/step) + 1 {
		load := uint64(10 - abs(10-i%20)) // from 0 to 10
		down := i >= 34 && i < 38
		kernel.Ports[0].State = verbs.PortActive
		if down {
			load, kernel.Ports[0].State = 0, verbs.PortDown
		}
		congested := max(load, 7) - 7
		for name, n := range map[string]uint64{
			"port_xmit_data": load * 280e6, "port_rcv_data": load * 190e6, "port_xmit_packets": load * 270e3, "port_rcv_packets": load * 190e3,
			"np_ecn_marked_roce_packets": congested * 3000, "np_cnp_sent": congested * 900, "rp_cnp_handled": congested * 1200, "out_of_sequence": congested * 150,
			"packet_seq_err": congested * 90, "local_ack_timeout_err": congested * 20, "rnr_nak_retry_err": congested * 60, "out_of_buffer": congested * 240, "pfc": congested * 30,
		} {
			totals[name] += n * uint64(step/time.Second)
		}
		var counters []netlinkrdma.Counter
		for name, n := range totals {
			if strings.HasPrefix(name, "port_") {
				sys["class/infiniband/mlx5_0/ports/1/counters/"+name] = &fstest.MapFile{Data: []byte(strconv.FormatUint(n, 10))}
			} else {
				counters = append(counters, netlinkrdma.Counter{Name: name, Value: n})
			}
		}
		kernel.Statistics[nltest.PortID{Device: 1, Port: 1}] = nltest.Statistics{Counters: counters}
		kernel.Statistics[nltest.PortID{Device: 3, Port: 1}] = nltest.Statistics{Counters: []netlinkrdma.Counter{
			{Name: "sent_pkts", Value: uint64(i) * 6e6}, {Name: "rcvd_pkts", Value: uint64(i) * 5e6}, {Name: "send_rnr_err", Value: uint64(i) * 900}}}
		source.Route = pfcRoute(totals["pfc"], totals["pfc"]/2)
		if i == 24 {
			kernel.Devices = append(kernel.Devices, netlinkrdma.Device{Index: 3, Name: "rxe0", Ports: 1, Protocol: "roce"})
			kernel.Ports = append(kernel.Ports, netlinkrdma.Port{DeviceIndex: 3, DeviceName: "rxe0", Index: 1, State: verbs.PortActive})
		}
		o := nltest.Objects{}
		for n := range uint32(20 + 2*i) {
			o.QP = append(o.QP, netlinkrdma.QP{Owner: netlinkrdma.Owner{TID: 7 + n%3/2}, LQPN: n, Type: 2})
		}
		kernel.Objects[1] = o
		kernel.Resources = []netlinkrdma.Resource{{Kind: "qp", Count: uint64(700 * (20 + 2*i))}, {Kind: "mr", Count: uint64(20000 * (10 + i%7))}}
		if err := watcher.Check(); err != nil {
			t.Fatal(err)
		}
		at := begin.Add(time.Duration(i) * step).Unix()
		for line := range strings.Lines(scrape(t, source, watcher)) {
			name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
			if labels, ok := strings.CutPrefix(name, "rdma_"); ok && strings.Contains(labels, "{") {
				fmt.Fprintf(&out, "%s %s %d\n", strings.Replace(name, "{", `{instance="host",`, 1), rest, at)
			}
		}
	}
	out.WriteString("# EOF\n")
	return out.Bytes()
}

func abs(n int) int { return max(n, -n) }

// line is a series of a panel. It has a value for each step; a missing value is NaN.
type line struct {
	legend string
	values []float64
}

// most is the largest value.
func (l *line) most() float64 {
	most := math.Inf(-1)
	for _, v := range l.values {
		if v > most { // not NaN
			most = v
		}
	}
	return most
}

// servePrometheus serves the record, and returns its address.
func servePrometheus(t *testing.T) string {
	t.Helper()
	promtool, server := program(t, "promtool"), program(t, "prometheus")
	dir := t.TempDir()
	file, config, data := filepath.Join(dir, "record"), filepath.Join(dir, "prometheus.yml"), filepath.Join(dir, "data")
	for name, text := range map[string][]byte{file: record(t), config: []byte("global: {}\n")} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	succeed(t, exec.Command(promtool, "tsdb", "create-blocks-from", "openmetrics", file, data))
	l, err := net.Listen("tcp", "127.0.0.1:0") // a port that nobody else is given soon
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	var stderr bytes.Buffer
	c := exec.Command(server, "--config.file="+config, "--storage.tsdb.path="+data, "--storage.tsdb.retention.time=100y", "--web.listen-address="+address)
	c.Stderr = &stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	end := make(chan error, 1)
	go func() { end <- c.Wait() }()
	t.Cleanup(func() {
		_ = c.Process.Kill()
		<-end
	})
	for {
		r, err := http.Get("http://" + address + "/-/ready")
		if err == nil {
			r.Body.Close()
			if r.StatusCode == http.StatusOK {
				return address
			}
		}
		select {
		case err := <-end:
			end <- err
			t.Fatalf("%v\n%s", err, &stderr)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// query asks Prometheus for a target of a panel.
func query(t *testing.T, address, expr, legend string) (lines []line) {
	t.Helper()
	values := url.Values{"query": {variables.Replace(expr)}, "start": {begin.Format(time.RFC3339)}, "end": {begin.Add(length).Format(time.RFC3339)}, "step": {step.String()}}
	r, err := http.Get("http://" + address + "/api/v1/query_range?" + values.Encode())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var answer struct {
		Error string
		Data  struct {
			Result []struct {
				Metric map[string]string
				Values [][2]any
			}
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&answer); err != nil || answer.Error != "" {
		t.Fatal(expr, err, answer.Error)
	}
	for _, series := range answer.Data.Result {
		one := line{values: make([]float64, length/step+1)}
		one.legend = strings.Join(strings.Fields(regexp.MustCompile(`{{(\w+)}}`).ReplaceAllStringFunc(legend, func(label string) string {
			return series.Metric[label[2:len(label)-2]]
		})), " ")
		for i := range one.values {
			one.values[i] = math.NaN()
		}
		for _, v := range series.Values {
			at := time.Duration(v[0].(float64)*float64(time.Second)) - time.Duration(begin.UnixNano())
			n, err := strconv.ParseFloat(v[1].(string), 64)
			if err != nil {
				t.Fatal(err)
			}
			one.values[at/step] = n
		}
		lines = append(lines, one)
	}
	return lines
}

// quantity prints a number in Grafana's units.
func quantity(n float64, unit string) string {
	if unit == "percentunit" {
		return strconv.FormatFloat(100*n, 'g', 3, 64) + " %"
	}
	prefix := ""
	for _, p := range []string{"k", "M", "G", "T"} {
		if n >= 1000 {
			n, prefix = n/1000, p
		}
	}
	return strings.TrimSpace(strconv.FormatFloat(n, 'g', 3, 64) + " " + prefix + map[string]string{"Bps": "B/s", "pps": "p/s", "ops": "/s"}[unit])
}

// Sizes of the picture, in pixels.
const (
	unitX, unitY         = 40, 30 // of Grafana's grid
	left, right          = 64, 14 // of a plot in its panel
	top, plotY, legendY  = 34, 118, 14
	legends              = 4
	pictureY, panelSpace = 20, 4
)

var colors = []string{"#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf"}

// draw draws a panel. Its series with the largest values come first, and have the legends.
func draw(b *strings.Builder, x, y, width, height int, title, unit string, lines []line) {
	slices.SortStableFunc(lines, func(a, b line) int {
		return cmp.Or(cmp.Compare(b.most(), a.most()), cmp.Compare(a.legend, b.legend))
	})
	most := 1e-3
	if len(lines) > 0 {
		most = max(most, lines[0].most())
	}
	text := func(x, y int, anchor, s string) {
		fmt.Fprintf(b, "<text x=\"%d\" y=\"%d\" text-anchor=%q>%s</text>\n", x, y, anchor, html.EscapeString(s))
	}
	fmt.Fprintf(b, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"4\" fill=\"#fff\" stroke=\"#bbb\"/>\n", x+panelSpace, y+panelSpace, width-2*panelSpace, height-2*panelSpace)
	fmt.Fprintf(b, "<text x=\"%d\" y=\"%d\" font-weight=\"bold\" font-size=\"13\">%s</text>\n", x+14, y+24, html.EscapeString(title))
	x0, y0, w := x+left, y+top, width-left-right
	for i := range 3 {
		at := y0 + plotY*i/2
		fmt.Fprintf(b, "<path d=\"M%d %dh%d\" stroke=\"#ddd\"/>\n", x0, at, w)
		text(x0-6, at+4, "end", quantity(most*float64(2-i)/2, unit))
	}
	for i := range 4 {
		text(x0+w*i/3, y0+plotY+14, []string{"start", "middle", "middle", "end"}[i], fmt.Sprintf("%d min", int(length.Minutes())*i/3))
	}
	for n := len(lines) - 1; n >= 0; n-- { // the first on top
		var path strings.Builder
		command := "M"
		for i, v := range lines[n].values {
			if math.IsNaN(v) {
				command = "M"
				continue
			}
			at := float64(x0) + float64(w*i)/float64(len(lines[n].values)-1)
			fmt.Fprintf(&path, "%s%.1f %.1f", command, at, float64(y0)+plotY*(1-v/most))
			if command == "M" {
				path.WriteString("h.1") // a point alone is visible
			}
			command = "L"
		}
		fmt.Fprintf(b, "<path d=%q fill=\"none\" stroke=%q stroke-width=\"1.5\"/>\n", path.String(), colors[n%len(colors)])
	}
	for n, l := range lines[:min(len(lines), legends)] {
		at := y0 + plotY + 22 + legendY*n
		fmt.Fprintf(b, "<path d=\"M%d %dh14\" stroke=%q stroke-width=\"3\"/>\n", x0, at+4, colors[n])
		legend := l.legend
		if n == legends-1 && len(lines) > legends {
			legend += fmt.Sprintf(", and %d more", len(lines)-legends)
		}
		text(x0+20, at+8, "start", legend)
	}
}

// TestPicture draws the panels of the dashboard with what Prometheus answers to their expressions. Each
// panel shows something.
func TestPicture(t *testing.T) {
	d := readDashboard(t)
	address := servePrometheus(t)
	var panels strings.Builder
	width, height := 0, 0
	for _, p := range d.Panels {
		var lines []line
		for _, target := range p.Targets {
			found := query(t, address, target.Expr, target.LegendFormat)
			if len(found) == 0 && !strings.Contains(target.Expr, "retransmitted_packets") { // mlx5 and rxe have no such counter
				t.Errorf("%s: the picture has nothing of %s", p.Title, target.Expr)
			}
			lines = append(lines, found...)
		}
		x, y, w, h := p.GridPos.X*unitX, p.GridPos.Y*unitY+pictureY, p.GridPos.W*unitX, p.GridPos.H*unitY
		width, height = max(width, x+w), max(height, y+h)
		draw(&panels, x, y, w, h, p.Title, p.FieldConfig.Defaults.Unit, lines)
	}
	svg := fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"11\" fill=\"#222\" role=\"img\">\n<title>%s</title>\n<rect width=\"%d\" height=\"%d\" fill=\"#f4f5f5\"/>\n<text x=\"8\" y=\"16\">%s: a simulated host, drawn from dashboard.json by the tests</text>\n%s</svg>\n",
		width, height, html.EscapeString(d.Title), width, height, html.EscapeString(d.Title), panels.String())
	if *picture != "" {
		if err := os.WriteFile(*picture, []byte(svg), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}
