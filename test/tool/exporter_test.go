//go:build vm

package tool

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/test/rig"
)

// samples are the values of a page, by name and labels.
func samples(t *testing.T, address string) map[string]float64 {
	t.Helper()
	resp := kit.Must(http.Get("http://" + address + "/metrics"))(t)
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	page := string(kit.Must(io.ReadAll(resp.Body))(t))
	all := make(map[string]float64)
	for line := range strings.Lines(page) {
		if i := strings.LastIndexByte(line, ' '); line[0] != '#' && i > 0 {
			all[line[:i]] = kit.Must(strconv.ParseFloat(strings.TrimSpace(line[i:]), 64))(t)
		}
	}
	return all
}

// TestExporter compares a page of rdmalink-exporter, which runs as nobody, with iproute2's rdma,
// with ibv_devinfo and with node_exporter.
func TestExporter(t *testing.T) {
	overBothLinks(t, func(t *testing.T, typ string) {
		server := kit.ServeCM(t, exec.Command("rping", "-s", "-P", "-a", "10.78.0.1", "-p", "7471"), "7471")
		if end := kit.Launch(t, exec.Command("rping", "-c", "-a", "10.78.0.1", "-p", "7471", "-C", "20")).End(); end.Code != 0 {
			t.Fatalf("%+v", end)
		}
		exporter := kit.ServePort(t, kit.Nobody(example("rdmalink-exporter", "-web.listen-address", "127.0.0.1:9880", "-interval", "100ms")), 9880)
		statistic := rdmaJSON(t, "-j statistic show link cmlink/1") // nothing is sent meanwhile
		page := samples(t, "127.0.0.1:9880")
		counters := make(map[string]float64)
		for line, v := range page {
			if m := regexp.MustCompile(`^rdma_port_[a-z_0-9]+_total\{counter="([^"]+)",device="cmlink",port="1"\}$`).FindStringSubmatch(line); m != nil {
				counters[m[1]] = v
			}
		}
		if len(statistic) > 0 != (typ == "rxe") {
			t.Errorf("rdma statistic: %v", statistic)
		}
		n := 0
		for _, port := range statistic {
			for name, value := range port {
				if name == "ifname" || name == "ifindex" || name == "port" {
					continue
				}
				n++
				if counters[name] != value {
					t.Errorf("%s: rdma has %v, the page %v", name, value, counters[name])
				}
			}
		}
		if typ == "rxe" && (n < 10 || page[`rdma_port_transmit_packets_total{counter="sent_pkts",device="cmlink",port="1"}`] < 20) {
			t.Errorf("%d counters", n)
		}
		for name, value := range rdmaJSON(t, "-j resource show cmlink")[0] {
			if name != "ifname" && name != "ifindex" && page[fmt.Sprintf(`rdma_device_objects{device="cmlink",kind=%q}`, name)] != value {
				t.Errorf("%s: rdma has %v", name, value)
			}
		}
		most := kit.Devinfo(t, "cmlink")["max_qp"]
		if got := page[`rdma_device_objects_limit{device="cmlink",kind="qp"}`]; fmt.Sprint(got) != most && strconv.FormatFloat(got, 'f', -1, 64) != most {
			t.Errorf("max_qp: ibv_devinfo has %s, the page %v", most, got)
		}
		owner := fmt.Sprintf(`pid="%d"`, server.Process.Pid)
		ids := 0.0
		for line, v := range page {
			if strings.HasPrefix(line, "rdma_process_objects{") && strings.Contains(line, `kind="cm_id"`) && strings.Contains(line, owner) && strings.Contains(line, `process="rping"`) {
				ids += v
			}
		}
		if ids < 1 {
			t.Error("no CM id of rping's")
		}
		nodeExporter(t)

		kit.Sh(t, "ip link set cmdummy down")
		down := func() bool {
			return samples(t, "127.0.0.1:9880")[`rdma_port_events_total{device="cmlink",event="down",port="1"}`] == 1
		}
		if !kit.Eventually(down) {
			t.Error("no event")
		}
		kit.OK(t, exporter.Process.Signal(syscall.SIGTERM))
		if end := exporter.End(); end.Code != 0 {
			t.Errorf("%+v", end)
		}
	})
}

// rdmaJSON runs iproute2's rdma and returns the numbers of each object.
func rdmaJSON(t *testing.T, line string) (all []map[string]float64) {
	t.Helper()
	end := kit.DebianRDMA.Run(t, line)
	var objects []map[string]any
	if strings.TrimSpace(end.Out) != "" {
		kit.OK(t, json.Unmarshal([]byte(end.Out), &objects))
	}
	for _, o := range objects {
		one := make(map[string]float64)
		for k, v := range o {
			if f, ok := v.(float64); ok {
				one[k] = f
			}
		}
		if len(one) > 0 {
			all = append(all, one)
		}
	}
	return all
}

// nodeExporter checks that node_exporter has nothing of a software device: its collector gives up
// when a device lacks a file in sysfs. The tests of rdmalink-exporter compare both on the files of a
// card.
func nodeExporter(t *testing.T) {
	t.Helper()
	program := filepath.Join(kit.Must(rig.CacheDir())(t), "prometheus/usr/bin/prometheus-node-exporter")
	theirs := kit.ServePort(t, exec.Command(program, "--collector.disable-defaults", "--collector.infiniband", "--web.listen-address=127.0.0.1:9881"), 9881)
	page := samples(t, "127.0.0.1:9881")
	if success, known := page[`node_scrape_collector_success{collector="infiniband"}`]; !known || success != 0 {
		t.Errorf("node_exporter now reads software devices: compare its values with ours: %v", page)
	}
	kit.OK(t, theirs.Process.Signal(syscall.SIGTERM))
	theirs.End()
}

// TestTop reads the tables of top while rping sends.
func TestTop(t *testing.T) {
	overBothLinks(t, func(t *testing.T, typ string) {
		server := kit.ServeCM(t, exec.Command("rping", "-s", "-P", "-a", "10.78.0.1", "-p", "7471"), "7471")
		client := kit.Launch(t, exec.Command("rping", "-c", "-a", "10.78.0.1", "-p", "7471")) // until it is killed
		var page struct {
			Ports []struct {
				Ifname, State string
				TX            *float64 `json:"tx_packets_per_second"`
			}
			Processes []struct {
				PID     int
				Comm    string
				Objects map[string]int
				Pinned  int `json:"pinned_bytes"`
			}
		}
		sends := func() bool {
			end := kit.Rdmalink(t, "top -j -n 1 -i 1")
			kit.OK(t, json.Unmarshal([]byte(end.Out), &page))
			for _, p := range page.Processes {
				if p.PID == client.Process.Pid && p.Comm == "rping" && p.Objects["qp"] == 1 && p.Objects["mr"] >= 2 {
					for _, port := range page.Ports {
						if port.State == "ACTIVE" && (typ == "siw" || port.TX != nil && *port.TX > 0) {
							return true
						}
					}
				}
			}
			return false
		}
		if !kit.Eventually(sends) {
			t.Errorf("%+v", page)
		}
		kit.OK(t, client.Process.Kill())
		kit.OK(t, server.Process.Kill())
		client.End()
		server.End()
	})
}
