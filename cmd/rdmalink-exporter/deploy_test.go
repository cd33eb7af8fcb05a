package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/internal/metrics"
)

// program returns the path of a program that make exporter-test installs. In CI it must exist.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatal(err)
	}
	if err != nil {
		t.Skipf("no %s: make exporter-test gets it", name)
	}
	return path
}

func succeed(t *testing.T, c *exec.Cmd) {
	t.Helper()
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v: %v\n%s", c.Args, err, out)
	}
}

// TestPromtoolMetrics checks the page with promtool.
func TestPromtoolMetrics(t *testing.T) {
	source, _ := machine()
	c := exec.Command(program(t, "promtool"), "check", "metrics")
	c.Stdin = strings.NewReader(scrape(t, source, &metrics.Watcher{RDMA: source.RDMA}))
	out, err := c.CombinedOutput()
	if err != nil || bytes.Contains(out, []byte("rdma_")) {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestPromtoolRules checks the alert rules with promtool, and runs their tests.
func TestPromtoolRules(t *testing.T) {
	promtool := program(t, "promtool")
	succeed(t, exec.Command(promtool, "check", "rules", "deploy/alerts.yml"))
	succeed(t, exec.Command(promtool, "test", "rules", "deploy/alerts_test.yml"))
}

// dashboard is the part of Grafana's format that is checked.
type dashboard struct {
	UID, Title    string
	SchemaVersion int
	Panels        []struct {
		ID          int
		Title, Type string
		GridPos     struct{ X, Y, W, H int }
		Targets     []struct{ RefID, Expr, LegendFormat string }
		FieldConfig struct{ Defaults struct{ Unit string } }
	}
	Templating struct {
		List []struct{ Name, Type, Query string }
	}
}

// variables replaces the variables of Grafana and of the dashboard with values that promtool accepts.
var variables = strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*", "$device", ".*")

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	text, err := os.ReadFile("deploy/dashboard.json")
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestDashboard checks the layout, and parses the expressions with promtool.
func TestDashboard(t *testing.T) {
	d := readDashboard(t)
	var rules strings.Builder
	rules.WriteString("groups:\n- name: dashboard\n  rules:\n")
	taken, ids := make(map[[2]int]string), make(map[int]bool)
	for _, p := range d.Panels {
		if ids[p.ID] || p.Title == "" || len(p.Targets) == 0 || p.Type != "timeseries" {
			t.Errorf("%+v", p)
		}
		ids[p.ID] = true
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if taken[at] != "" || at[0] >= 24 {
					t.Fatalf("%s and %s overlap, or leave the grid", p.Title, taken[at])
				}
				taken[at] = p.Title
			}
		}
		for i, target := range p.Targets {
			fmt.Fprintf(&rules, "  - {record: \"p%d_%d\", expr: %q}\n", p.ID, i, variables.Replace(target.Expr))
		}
	}
	if d.SchemaVersion < 36 || d.UID == "" || len(d.Templating.List) != 3 {
		t.Errorf("%+v", d)
	}
	file := filepath.Join(t.TempDir(), "rules.yml")
	if err := os.WriteFile(file, []byte(rules.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	succeed(t, exec.Command(program(t, "promtool"), "check", "rules", file))
}

var metricName = regexp.MustCompile(`\brdma_[a-z0-9_]+(?:\([a-z_|]+\)_[a-z]+)?`)

// expand expands a name with alternatives in parentheses to all names.
func expand(name string) (all []string) {
	before, rest, ok := strings.Cut(name, "(")
	if !ok {
		return []string{name}
	}
	choices, after, _ := strings.Cut(rest, ")")
	for choice := range strings.SplitSeq(choices, "|") {
		all = append(all, before+choice+after)
	}
	return all
}

// TestNames checks that the rules, the dashboard and the page name only metrics that exist, and that
// the page names all of them.
func TestNames(t *testing.T) {
	var known []string
	for _, f := range families {
		known = append(known, f.name)
	}
	d := readDashboard(t)
	files := map[string]string{}
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			files["dashboard.json"] += target.Expr + "\n"
		}
	}
	for _, v := range d.Templating.List {
		files["dashboard.json"] += v.Query + "\n"
	}
	for _, name := range []string{"deploy/alerts.yml", "../../docs/exporter.md"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(text)
	}
	page := "../../docs/exporter.md" // has names of counters too, but not in backquotes
	files["page"] = strings.Join(regexp.MustCompile("`rdma_[^`]*`").FindAllString(files[page], -1), "\n")
	for file, text := range files {
		if file == page {
			continue
		}
		for _, found := range metricName.FindAllString(text, -1) {
			for _, name := range expand(found) {
				if !slices.Contains(known, name) {
					t.Errorf("%s: there is no metric %s", file, name)
				}
			}
		}
	}
	for _, name := range known {
		if !strings.Contains(files[page], "`"+name+"`") {
			t.Errorf("docs/exporter.md does not name %s", name)
		}
	}
}

// TestUnit checks the unit with systemd-analyze. It replaces the path of the program by one that exists.
func TestUnit(t *testing.T) {
	analyze := program(t, "systemd-analyze")
	text, err := os.ReadFile("deploy/rdmalink-exporter.service")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const path = "/usr/local/bin/rdmalink-exporter"
	if !bytes.Contains(text, []byte("ExecStart="+path+"\n")) {
		t.Error("the unit runs something else")
	}
	file := filepath.Join(t.TempDir(), "rdmalink-exporter.service")
	if err := os.WriteFile(file, bytes.ReplaceAll(text, []byte(path), []byte(self)), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(analyze, "verify", file)
	c.Env = append(os.Environ(), "SYSTEMD_LOG_LEVEL=warning")
	out, err := c.CombinedOutput()
	if err != nil || bytes.Contains(out, []byte("rdmalink-exporter.service:")) { // unknown settings only cause warnings
		t.Errorf("%v\n%s", err, out)
	}
}

// theirNames maps names of node_exporter to ours.
var theirNames = map[string]string{
	"state_id": "rdma_port_state", "physical_state_id": "rdma_port_physical_state", "rate_bytes_per_second": "rdma_port_rate_bytes_per_second",
	"port_data_transmitted_bytes_total": "rdma_port_transmit_bytes_total", "port_data_received_bytes_total": "rdma_port_receive_bytes_total",
	"port_packets_transmitted_total": "rdma_port_transmit_packets_total", "port_packets_received_total": "rdma_port_receive_packets_total",
	"unicast_packets_transmitted_total": "rdma_port_transmit_unicast_packets_total", "unicast_packets_received_total": "rdma_port_receive_unicast_packets_total",
	"multicast_packets_transmitted_total": "rdma_port_transmit_multicast_packets_total", "multicast_packets_received_total": "rdma_port_receive_multicast_packets_total",
	"port_discards_transmitted_total": "rdma_port_transmit_drops_total", "port_errors_received_total": "rdma_port_receive_errors_total",
	"port_constraint_errors_transmitted_total": "rdma_port_transmit_constraint_errors_total", "port_constraint_errors_received_total": "rdma_port_receive_constraint_errors_total",
	"port_receive_remote_physical_errors_total": "rdma_port_receive_remote_physical_errors_total", "port_receive_switch_relay_errors_total": "rdma_port_receive_switch_relay_errors_total",
	"port_transmit_wait_total": "rdma_port_transmit_wait_ticks_total", "vl15_dropped_total": "rdma_port_vl15_drops_total",
	"link_downed_total": "rdma_port_link_downed_total", "link_error_recovery_total": "rdma_port_link_error_recoveries_total",
	"local_link_integrity_errors_total": "rdma_port_link_integrity_errors_total", "symbol_error_total": "rdma_port_symbol_errors_total",
	"excessive_buffer_overrun_errors_total": "rdma_port_buffer_overrun_errors_total",
}

// card writes a sysfs tree with a card. Each counter has a different value.
func card(t *testing.T) (sys string) {
	t.Helper()
	sys = t.TempDir()
	device := filepath.Join(sys, "class/infiniband/mlx5_0")
	files := map[string]string{"fw_ver": "16.35.4030", "board_id": "MT_0000000008", "hca_type": "MT4119", "ports/1/state": "4: ACTIVE",
		"ports/1/phys_state": "5: LinkUp", "ports/1/rate": "100 Gb/sec (4X EDR)", "ports/1/link_layer": "InfiniBand"}
	for i, name := range strings.Fields(`port_xmit_data port_rcv_data port_xmit_packets port_rcv_packets unicast_xmit_packets unicast_rcv_packets
		multicast_xmit_packets multicast_rcv_packets port_xmit_discards port_rcv_errors port_xmit_constraint_errors port_rcv_constraint_errors
		port_rcv_remote_physical_errors port_rcv_switch_relay_errors VL15_dropped port_xmit_wait link_downed link_error_recovery
		local_link_integrity_errors symbol_error excessive_buffer_overrun_errors`) {
		files["ports/1/counters/"+name] = fmt.Sprint(1000 + 13*i)
	}
	for name, text := range files {
		name = filepath.Join(device, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return sys
}

// TestNodeExporter compares the page with the page of node_exporter's infiniband collector, for the
// same sysfs tree.
func TestNodeExporter(t *testing.T) {
	name := program(t, "prometheus-node-exporter")
	source, kernel := machine()
	kernel.Statistics = nil
	sys := card(t)
	source.Sys = os.DirFS(sys)
	ours := scrape(t, source, &metrics.Watcher{RDMA: source.RDMA})

	theirs := exec.CommandContext(t.Context(), name, "--collector.disable-defaults", "--collector.infiniband", "--path.sysfs="+sys, "--web.listen-address=127.0.0.1:0")
	stderr, err := theirs.StderrPipe()
	if err == nil {
		err = theirs.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = theirs.Process.Kill()
		_ = theirs.Wait()
	}()
	var address string
	for lines := bufio.NewScanner(stderr); address == "" && lines.Scan(); {
		if m := regexp.MustCompile(`msg="Listening on" address=([0-9.:]+)`).FindStringSubmatch(lines.Text()); m != nil {
			address = m[1]
		}
	}
	r, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	n := 0
	for lines := bufio.NewScanner(r.Body); lines.Scan(); {
		m := regexp.MustCompile(`^node_infiniband_(\w+)\{device="mlx5_0",port="1"\} (.*)$`).FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		n++
		pattern := regexp.MustCompile(`(?m)^` + theirNames[m[1]] + `\{(?:counter="\w+",)?device="mlx5_0",port="1"\} ` + regexp.QuoteMeta(m[2]) + `$`)
		if theirNames[m[1]] == "" || !pattern.MatchString(ours) {
			t.Errorf("%s is %s there; not so %q here", m[1], m[2], theirNames[m[1]])
		}
	}
	if n != len(theirNames) {
		t.Errorf("%d metrics", n)
	}
}

// TestRelease runs make release with a compiler that writes its arguments in place of a program: both
// programs are built for both architectures, and the manual page is beside them. If two builds differ, it fails.
func TestRelease(t *testing.T) {
	make := program(t, "make")
	text, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	const compiler = "#!/bin/sh\n" + `case " $* " in *" list "*|*" env "*) exit;; esac
echo "$@" | sed "s/ -o .*//; s/$/ $GOOS $GOARCH/" >$OUT; [ -z "$SEED" ] || mktemp -u >>$OUT
while [ $# -gt 1 ]; do [ "$1" = -o ] && cp $OUT "$2"; shift; done
`
	for _, differs := range []bool{false, true} {
		dir := t.TempDir()
		for name, text := range map[string][]byte{"Makefile": text, "go": []byte(compiler)} {
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		c := exec.Command(make, "-C", dir, "release", "GO="+filepath.Join(dir, "go"))
		c.Env = append(os.Environ(), "OUT="+filepath.Join(dir, "out"))
		if differs {
			c.Env = append(c.Env, "SEED=1")
		}
		out, err := c.CombinedOutput()
		if differs {
			if err == nil || !bytes.Contains(out, []byte("is not reproducible")) {
				t.Errorf("%v\n%s", err, out)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		sums, err := os.ReadFile(filepath.Join(dir, "dist/SHA256SUMS"))
		if err != nil || !bytes.Contains(sums, []byte("  rdmalink.8\n")) || bytes.Count(sums, []byte("\n")) != 5 {
			t.Errorf("%v\n%s", err, sums)
		}
		for _, name := range []string{"rdmalink", "rdmalink-exporter"} {
			for _, arch := range []string{"amd64", "arm64"} {
				file := name + "-linux-" + arch
				built, err := os.ReadFile(filepath.Join(dir, "dist", file))
				if want := "-C cmd/" + name + " build -ldflags=-buildid= linux " + arch + "\n"; err != nil || string(built) != want {
					t.Errorf("%s: %v\n%s", file, err, built)
				}
				if !bytes.Contains(sums, []byte("  "+file+"\n")) {
					t.Errorf("%s has no checksum", file)
				}
			}
		}
	}
}
