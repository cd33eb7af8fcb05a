//go:build vm

package netlink

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/test/kit"
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

// TestMonitor monitors links that are added, renamed and deleted, and a network device that is renamed, beside rdma of
// a newer iproute2; and the message on a kernel without events.
func TestMonitor(t *testing.T) {
	if kit.OnKernel("6.1") {
		const want = "rdmalink: subscribe to the events of RDMA devices: this kernel sends no events of RDMA devices, Linux 6.12 does: list the devices and ports periodically instead\n"
		for _, line := range []string{"monitor", "-j monitor"} {
			if got := kit.Rdmalink(t, line); got != (kit.Output{Err: want, Code: 1}) {
				t.Errorf("%s: %+v", line, got)
			}
		}
		return
	}
	kit.Dummy(t, "gvmonnet")
	kit.NoLeak(t)
	text, lines := kit.Start(t, exec.Command(kit.RdmalinkPath(t), "monitor")), kit.Start(t, exec.Command(kit.RdmalinkPath(t), "-j", "monitor"))
	rdma := kit.Start(t, exec.Command(kit.Must(rig.NewerRDMA())(t), "monitor"))
	for _, p := range []*kit.Process{text, lines, rdma} {
		kit.Until(t, "all listen", func() bool { return listens(t, p) })
	}
	want := monitorStory(t)
	var got []monitored
	for range want {
		var m monitored
		if err := json.Unmarshal([]byte(lines.Line(t)), &m); err != nil {
			t.Fatal(err)
		}
		got = append(got, m)
		if ours, theirs := text.Line(t), rdma.Line(t); ours != theirs {
			t.Errorf("%q, of rdma %q", ours, theirs)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, p := range []*kit.Process{text, lines} {
		if err := p.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		if rest := p.Finish(t) + p.Stderr.String(); rest != "" {
			t.Errorf("behind it: %s", rest)
		}
	}
}

// monitorStory makes the changes and returns the expected lines.
func monitorStory(t *testing.T) (want []monitored) {
	t.Helper()
	var c netlinkrdma.Client
	for _, typ := range kit.LinkTypes() {
		kit.Sh(t, fmt.Sprintf("%s add gvmon type %s netdev gvmonnet", kit.RdmalinkPath(t), typ))
		d := kit.Must(c.DeviceByName("gvmon"))(t)
		want = append(want,
			monitored{Event: "[REGISTER]", Index: d.Index, Device: "gvmon"},
			monitored{Event: "[NETDEV_ATTACH]", Index: d.Index, Device: "gvmon", Port: 1, Netdev: "gvmonnet"})
		kit.Sh(t, "rdma dev set gvmon name gvmon2")
		kit.Sh(t, "ip link set gvmonnet down && ip link set gvmonnet name gvmonnew && ip link set gvmonnew name gvmonnet up")
		if !kit.OnKernel("6.12") {
			want = append(want,
				monitored{Event: "[RENAME]", Index: d.Index, Device: "gvmon2"},
				monitored{Event: "[NETDEV_RENAME]", Netdev: "gvmonnew"}, monitored{Event: "[NETDEV_RENAME]", Netdev: "gvmonnet"})
		}
		kit.Sh(t, kit.RdmalinkPath(t)+" del gvmon2")
		want = append(want, monitored{Event: "[UNREGISTER]", Index: d.Index, Device: "gvmon2"})
	}
	return want
}

// listens reports whether a process has joined the group of notifications.
func listens(t *testing.T, p *kit.Process) bool {
	t.Helper()
	joined := make(map[string]bool)
	for line := range strings.Lines(string(kit.Must(os.ReadFile("/proc/net/netlink"))(t))) {
		if f := strings.Fields(line); len(f) > 9 && f[1] == "20" && f[3] != "00000000" {
			joined["socket:["+f[9]+"]"] = true
		}
	}
	fds := fmt.Sprintf("/proc/%d/fd/", p.Process.Pid)
	for _, fd := range kit.Must(os.ReadDir(fds))(t) {
		if link, err := os.Readlink(fds + fd.Name()); err == nil && joined[link] {
			return true
		}
	}
	return false
}
