package rdma

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli/clitest"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host/hosttest"
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
)

var monitorEvents = []netlinkrdma.Event{
	{Type: netlinkrdma.EventRegister, DeviceName: "siw0"},
	{Type: netlinkrdma.EventNetdevAttach, DeviceIndex: 7, DeviceName: "mlx5_0", Port: 2, NetdevIndex: 4, NetdevName: "eth0"},
	{Type: netlinkrdma.EventNetdevDetach, DeviceIndex: 7, DeviceName: "mlx5_0", Port: 2},
	{Type: netlinkrdma.EventRename, DeviceIndex: 7, DeviceName: "mlx5_9"},
	{Type: netlinkrdma.EventNetdevRename, NetdevIndex: 4, NetdevName: "eth1"},
	{Type: netlinkrdma.EventUnregister, DeviceName: "siw0"},
	{Type: 27},
}

const (
	monitorText = "[REGISTER]\tdev 0 siw0\n[NETDEV_ATTACH]\tdev 7 mlx5_0 port 2 netdev 4 eth0\n[NETDEV_DETACH]\tdev 7 mlx5_0 port 2\n" +
		"[RENAME]\tdev 7 mlx5_9\n[NETDEV_RENAME]\t netdev 4 eth1\n[UNREGISTER]\tdev 0 siw0\n[UNKNOWN 0x1b]\t\n"
	monitorJSON = `{"event_type":"[REGISTER]","rdma_index":0,"rdma_dev":"siw0"}
{"event_type":"[NETDEV_ATTACH]","rdma_index":7,"rdma_dev":"mlx5_0","port":2,"netdev_idx":4,"netdev_name":"eth0"}
{"event_type":"[NETDEV_DETACH]","rdma_index":7,"rdma_dev":"mlx5_0","port":2}
{"event_type":"[RENAME]","rdma_index":7,"rdma_dev":"mlx5_9"}
{"event_type":"[NETDEV_RENAME]","netdev_idx":4,"netdev_name":"eth1"}
{"event_type":"[UNREGISTER]","rdma_index":0,"rdma_dev":"siw0"}
{"event_type":"[UNKNOWN 0x1b]"}
`
)

// monitored runs a line on a kernel that sends those events, and interrupts it
// when it has read them.
func monitored(t *testing.T, line string, events []netlinkrdma.Event) clitest.Result {
	t.Helper()
	kernel := &sending{Kernel: &nltest.Kernel{System: netlinkrdma.System{Monitor: true}}, events: events}
	tool := &cli.Tool{Machine: host.Machine{RDMA: &netlinkrdma.Client{Kernel: kernel}}}
	var stdout, stderr bytes.Buffer
	tool.Stdout, tool.Stderr = &stdout, &stderr
	ctx, interrupt := context.WithCancel(t.Context())
	kernel.interrupt = interrupt
	code := tool.Run(ctx, root(), strings.Fields(line))
	return clitest.Result{Code: code, Out: stdout.String(), Err: stderr.String()}
}

// sending is a kernel that sends events to subscribers, and then interrupts.
type sending struct {
	*nltest.Kernel
	netlinkrdma.Subscription
	events    []netlinkrdma.Event
	left      int // that a subscriber can still read
	interrupt func()
}

func (s *sending) Subscribe() (_ netlinkrdma.Subscription, err error) {
	s.Subscription, err = s.Kernel.Subscribe()
	for _, e := range s.events {
		s.Notify(e)
	}
	s.left = min(len(s.events), 16)
	return s, err
}

func (s *sending) Receive(ctx context.Context) ([]byte, error) {
	if s.left == 0 {
		s.interrupt()
	}
	body, err := s.Subscription.Receive(ctx)
	if err == nil {
		s.left--
	}
	return body, err
}

func TestMonitor(t *testing.T) {
	for line, want := range map[string]string{
		"monitor":     monitorText,
		"-p mon":      monitorText,
		"m -j":        monitorJSON,
		"-j monitor":  monitorJSON,
		"monitor -jp": "",
	} {
		got := monitored(t, line, monitorEvents)
		if want == "" { // the same objects, on several lines
			objects := json.NewDecoder(strings.NewReader(got.Out))
			for range monitorEvents {
				var v any
				if err := objects.Decode(&v); err != nil {
					t.Fatal(err)
				}
			}
			want = strings.NewReplacer("{", "{\n        ", `,"`, ",\n        \"", `":`, `": `, "}", "\n    }").Replace(monitorJSON)
		}
		if diff := cmp.Diff(clitest.Result{Out: want}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
}

func TestMonitorAsIproute2(t *testing.T) {
	r := newIproute2(t)
	if r.version.before(6, 12) {
		t.Skip("rdma has no monitor before 6.12")
	}
	kernel := &nltest.Kernel{System: netlinkrdma.System{Monitor: true}}
	if text, _ := r.run(t, kernel, "monitor"); text != monitorText {
		t.Errorf("(-iproute2 +rdmalink):\n%s", cmp.Diff(text, monitorText))
	}
	// An array of them, which does not end.
	array, _ := r.run(t, kernel, "-j monitor")
	if diff := cmp.Diff("["+strings.ReplaceAll(strings.TrimSuffix(monitorJSON, "\n"), "\n", ","), strings.TrimSuffix(array, "\n")); diff != "" {
		t.Errorf("(-rdmalink +iproute2):\n%s", diff)
	}
}

// TestMonitorLoses checks that lost events are reported, and that monitor
// continues.
func TestMonitorLoses(t *testing.T) {
	got := monitored(t, "-j monitor", make([]netlinkrdma.Event, 100))
	if got.Code != 0 || strings.Count(got.Out, "\n") != 16 || !strings.Contains(got.Err, "rdmalink: note: wait for an event of an RDMA device: events were lost: no buffer space available: list the devices and ports again") {
		t.Errorf("%+v", got)
	}
}

func TestMonitorFails(t *testing.T) {
	for _, test := range []struct {
		kernel *nltest.Kernel
		want   string
	}{
		{&nltest.Kernel{}, "rdmalink: subscribe to the events of RDMA devices: this kernel sends no events of RDMA devices, Linux 6.12 does: list the devices and ports periodically instead\n"},
		{&nltest.Kernel{Fail: map[uint16]error{abi.RDMA_NLDEV_CMD_SYS_GET: syscall.EPROTONOSUPPORT}}, "no NETLINK_RDMA here: protocol not supported: on Linux: modprobe ib_core"},
	} {
		tool := &cli.Tool{Machine: host.Machine{RDMA: &netlinkrdma.Client{Kernel: test.kernel}}}
		if got := runLine(tool, "monitor", &hosttest.Netdevs{}); got.Code != 1 || got.Out != "" || !strings.Contains(got.Err, test.want) {
			t.Errorf("%+v", got)
		}
	}
	for _, line := range []string{"monitor", "-j monitor"} {
		kernel := &nltest.Kernel{System: netlinkrdma.System{Monitor: true}}
		tool := &cli.Tool{Machine: host.Machine{RDMA: &netlinkrdma.Client{Kernel: &sending{Kernel: kernel, events: monitorEvents}}},
			Output: cli.Output{Stdout: brokenPipe{}, Stderr: &strings.Builder{}}}
		if code := tool.Run(t.Context(), root(), strings.Fields(line)); code != cli.ExitFailed {
			t.Errorf("%s: exit code %d when nothing can be printed", line, code)
		}
	}
	if got := monitored(t, "monitor siw0", nil); got.Code != 2 || !strings.Contains(got.Err, "expected help") {
		t.Errorf("%+v", got)
	}
}

// TestHostileEvent checks that names in events are escaped.
func TestHostileEvent(t *testing.T) {
	const name = "x\x1b]0;y\ay\u009b2J\nlink z"
	for _, asJSON := range []bool{false, true} {
		var out strings.Builder
		tool := &cli.Tool{}
		tool.Stdout, tool.JSON = &out, asJSON
		if err := printEvent(tool, netlinkrdma.Event{Type: netlinkrdma.EventNetdevRename, DeviceName: name, NetdevIndex: 1, NetdevName: name}); err != nil {
			t.Fatal(err)
		}
		got := out.String()
		if strings.ContainsFunc(got, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }) || strings.Contains(got, "\nlink z") || !strings.Contains(got, "x\\") {
			t.Errorf("%q", got)
		}
	}
}
