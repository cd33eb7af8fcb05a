//go:build vm

package test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/test/rig"
)

// monitored is a line of rdmalink -j monitor.
type monitored struct {
	Event  string `json:"event_type"`
	Index  uint32 `json:"rdma_index"`
	Device string `json:"rdma_dev"`
	Port   int
	Netdev string `json:"netdev_name"`
}

// TestMonitor: links that are added, renamed and deleted, and a network device
// that is renamed, beside rdma of a newer iproute2; and what is said where the
// kernel tells nothing.
func TestMonitor(t *testing.T) {
	if onKernel("6.1") {
		const want = "rdmalink: subscribe to the events of RDMA devices: this kernel sends no events of RDMA devices, Linux 6.12 does (list the devices and ports from time to time instead)\n"
		for _, line := range []string{"monitor", "-j monitor"} {
			if got := rdmalink(t, line); got != (output{Err: want, Code: 1}) {
				t.Errorf("%s: %+v", line, got)
			}
		}
		return
	}
	dummy(t, "gvmonnet")
	noLeak(t)
	text, lines := start(t, exec.Command(rdmalinkPath(t), "monitor")), start(t, exec.Command(rdmalinkPath(t), "-j", "monitor"))
	rdma := start(t, exec.Command(must(rig.NewerRDMA())(t), "monitor"))
	for _, p := range []*process{text, lines, rdma} {
		until(t, "all listen", func() bool { return listens(t, p) })
	}
	want := monitorStory(t)
	var got []monitored
	for range want {
		var m monitored
		if err := json.Unmarshal([]byte(lines.line(t)), &m); err != nil {
			t.Fatal(err)
		}
		got = append(got, m)
		if ours, theirs := text.line(t), rdma.line(t); ours != theirs {
			t.Errorf("%q, of rdma %q", ours, theirs)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, p := range []*process{text, lines} {
		if err := p.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		if rest := p.finish(t) + p.stderr.String(); rest != "" {
			t.Errorf("behind it: %s", rest)
		}
	}
}

// monitorStory makes the changes and returns the expected lines.
func monitorStory(t *testing.T) (want []monitored) {
	t.Helper()
	var c netlinkrdma.Client
	for _, typ := range linkTypes() {
		sh(t, fmt.Sprintf("%s add gvmon type %s netdev gvmonnet", rdmalinkPath(t), typ))
		d := must(c.DeviceByName("gvmon"))(t)
		want = append(want,
			monitored{Event: "[REGISTER]", Index: d.Index, Device: "gvmon"},
			monitored{Event: "[NETDEV_ATTACH]", Index: d.Index, Device: "gvmon", Port: 1, Netdev: "gvmonnet"})
		sh(t, "rdma dev set gvmon name gvmon2")
		sh(t, "ip link set gvmonnet down && ip link set gvmonnet name gvmonnew && ip link set gvmonnew name gvmonnet up")
		if !onKernel("6.12") {
			want = append(want,
				monitored{Event: "[RENAME]", Index: d.Index, Device: "gvmon2"},
				monitored{Event: "[NETDEV_RENAME]", Netdev: "gvmonnew"}, monitored{Event: "[NETDEV_RENAME]", Netdev: "gvmonnet"})
		}
		sh(t, rdmalinkPath(t)+" del gvmon2")
		want = append(want, monitored{Event: "[UNREGISTER]", Index: d.Index, Device: "gvmon2"})
	}
	return want
}

// listens reports whether a process has joined the group of notifications.
func listens(t *testing.T, p *process) bool {
	t.Helper()
	joined := make(map[string]bool)
	for line := range strings.Lines(string(must(os.ReadFile("/proc/net/netlink"))(t))) {
		if f := strings.Fields(line); len(f) > 9 && f[1] == "20" && f[3] != "00000000" {
			joined["socket:["+f[9]+"]"] = true
		}
	}
	fds := fmt.Sprintf("/proc/%d/fd/", p.Process.Pid)
	for _, fd := range must(os.ReadDir(fds))(t) {
		if link, err := os.Readlink(fds + fd.Name()); err == nil && joined[link] {
			return true
		}
	}
	return false
}
