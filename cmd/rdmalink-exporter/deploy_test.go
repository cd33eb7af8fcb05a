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
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/internal/metrics"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
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

// TestKubernetes decodes the files with the API's types, which refuse unknown fields. It also checks
// that names and labels match each other, and that nothing is privileged.
func TestKubernetes(t *testing.T) {
	text, err := os.ReadFile("deploy/kubernetes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var namespace corev1.Namespace
	var account corev1.ServiceAccount
	var role rbacv1.Role
	var binding rbacv1.RoleBinding
	var set appsv1.DaemonSet
	for doc := range strings.SplitSeq(string(text), "\n---\n") {
		var kind struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal([]byte(doc), &kind); err != nil {
			t.Fatal(err)
		}
		object, ok := map[string]any{"v1 Namespace": &namespace, "v1 ServiceAccount": &account, "rbac.authorization.k8s.io/v1 Role": &role,
			"rbac.authorization.k8s.io/v1 RoleBinding": &binding, "apps/v1 DaemonSet": &set}[kind.APIVersion+" "+kind.Kind]
		if !ok {
			t.Fatalf("%+v", kind)
		}
		if err := yaml.UnmarshalStrict([]byte(doc), object); err != nil {
			t.Errorf("%s: %v", kind.Kind, err)
		}
	}
	for _, in := range []string{account.Namespace, role.Namespace, binding.Namespace, set.Namespace} {
		if in != namespace.Name || in == "" {
			t.Errorf("namespace %q", in)
		}
	}
	if binding.RoleRef.Name != role.Name || binding.RoleRef.Kind != "Role" || len(role.Rules) != 1 {
		t.Errorf("%+v", binding.RoleRef)
	}
	pod := set.Spec.Template
	for k, v := range set.Spec.Selector.MatchLabels {
		if pod.Labels[k] != v {
			t.Errorf("the selector's label %s is not the pods'", k)
		}
	}
	c := pod.Spec.Containers[0]
	if pod.Spec.ServiceAccountName != account.Name || !pod.Spec.HostPID || !pod.Spec.HostNetwork || *account.AutomountServiceAccountToken ||
		!*pod.Spec.SecurityContext.RunAsNonRoot || *c.SecurityContext.AllowPrivilegeEscalation || !*c.SecurityContext.ReadOnlyRootFilesystem ||
		c.SecurityContext.Privileged != nil || !slices.Equal(c.SecurityContext.Capabilities.Drop, []corev1.Capability{"ALL"}) {
		t.Errorf("%+v", pod.Spec)
	}
	volumes := make(map[string]bool)
	for _, v := range pod.Spec.Volumes {
		volumes[v.Name] = true
	}
	for _, m := range c.VolumeMounts {
		if !volumes[m.Name] || !m.ReadOnly {
			t.Errorf("%+v", m)
		}
	}
	if c.LivenessProbe.HTTPGet.Port.StrVal != c.Ports[0].Name || fmt.Sprintf(":%d", c.Ports[0].ContainerPort) != defaultAddress {
		t.Errorf("%+v", c.Ports)
	}
	ctx, stderr := t.Context(), new(bytes.Buffer)
	if code := run(ctx, append(slices.Clone(c.Args), "one-word-more"), stderr); code != 2 || !strings.Contains(stderr.String(), "one-word-more") {
		t.Errorf("the program refuses %v: %s", c.Args, stderr)
	}
}

// TestPodResourcesPatch checks that the patch for the podresources API adds the kubelet's directory to the
// container of the DaemonSet, read-only, and changes nothing else but the user.
func TestPodResourcesPatch(t *testing.T) {
	var set, patch appsv1.DaemonSet
	for name, to := range map[string]*appsv1.DaemonSet{"deploy/kubernetes.yaml": &set, "deploy/podresources.yaml": &patch} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		docs := strings.Split(string(text), "\n---\n")
		if err := yaml.UnmarshalStrict([]byte(docs[len(docs)-1]), to); err != nil {
			t.Fatal(err)
		}
	}
	no, root, directory := false, int64(0), corev1.HostPathDirectory
	var want appsv1.DaemonSet
	want.Spec.Template.Spec = corev1.PodSpec{
		Containers: []corev1.Container{{
			Name:            set.Spec.Template.Spec.Containers[0].Name,
			SecurityContext: &corev1.SecurityContext{RunAsNonRoot: &no, RunAsUser: &root, RunAsGroup: &root},
			VolumeMounts:    []corev1.VolumeMount{{Name: "pod-resources", MountPath: filepath.Dir(kubeletSocket), ReadOnly: true}},
		}},
		Volumes: []corev1.Volume{{Name: "pod-resources", VolumeSource: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: filepath.Dir(kubeletSocket), Type: &directory}}}},
	}
	if !reflect.DeepEqual(patch, want) {
		t.Errorf("%+v", patch)
	}
	for _, v := range set.Spec.Template.Spec.Volumes {
		if v.Name == want.Spec.Template.Spec.Volumes[0].Name {
			t.Errorf("the patch replaces %+v", v)
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
// programs are built for both architectures. If two builds differ, it fails.
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
		if err != nil || bytes.Count(sums, []byte("\n")) != 4 {
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
