package rdma

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli/clitest"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host/hosttest"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
	"github.com/goverbs/goverbs/verbs"
)

// What iproute2 6.1 prints for siw0 on dummy0 of the first two was recorded;
// the InfiniBand port follows its source.
func TestShow(t *testing.T) {
	const siwText = "link siw0/1 state ACTIVE physical_state LINK_UP netdev dummy0 \n"
	const ibText = "link mlx5_0/1 subnet_prefix fe80:0000:0000:0000 lid 13 sm_lid 1 lmc 2 state INIT physical_state POLLING \n"
	const siwJSON = `{"ifindex":0,"ifname":"siw0","port":1,"state":"ACTIVE","physical_state":"LINK_UP","netdev":"dummy0","netdev_index":2}`
	const ibJSON = `{"ifindex":7,"ifname":"mlx5_0","port":1,"subnet_prefix":"fe80:0000:0000:0000","lid":13,"sm_lid":1,"lmc":2,"state":"INIT","physical_state":"POLLING"}`
	const pretty = `[ {
        "ifindex": 0,
        "ifname": "siw0",
        "port": 1,
        "state": "ACTIVE",
        "physical_state": "LINK_UP",
        "netdev": "dummy0",
        "netdev_index": 2
    },{
        "ifindex": 7,
        "ifname": "mlx5_0",
        "port": 1,
        "subnet_prefix": "fe80:0000:0000:0000",
        "lid": 13,
        "sm_lid": 1,
        "lmc": 2,
        "state": "INIT",
        "physical_state": "POLLING"
    } ]
`
	for line, want := range map[string]string{
		"show":              siwText + ibText,
		"link":              siwText + ibText,
		"link list":         siwText + ibText,
		"show siw0":         siwText,
		"show siw0/":        siwText,
		"show mlx5_0/1":     ibText,
		"-p show siw0":      siwText,
		"-j show":           "[" + siwJSON + "," + ibJSON + "]\n",
		"-j link":           "[" + siwJSON + "," + ibJSON + "]\n",
		"show -j siw0/1":    "[" + siwJSON + "]\n",
		"-jp link show":     pretty,
		"-j link -p show":   pretty,
		"--json show -p":    pretty,
		"show --json -j -p": pretty,
	} {
		tool, nets := showMachine()
		if diff := cmp.Diff(clitest.Result{Out: want}, runLine(tool, line, nets)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
}

func TestShowNothing(t *testing.T) {
	for line, want := range map[string]string{"show": "", "-j show": "[]\n", "-jp show": "[ ]\n"} {
		tool := &cli.Tool{Machine: host.Machine{RDMA: &netlinkrdma.Client{Kernel: &nltest.Kernel{}}}}
		if diff := cmp.Diff(clitest.Result{Out: want}, runLine(tool, line, &hosttest.Netdevs{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
}

func TestShowNamesAnyByte(t *testing.T) {
	tool, nets := showMachine()
	kernel := &nltest.Kernel{
		Devices: []netlinkrdma.Device{{Name: "a\"<\x01\xff"}},
		Ports:   []netlinkrdma.Port{{DeviceName: "a\"<\x01\xff", Index: 1, State: 27, PhysState: 28}},
	}
	tool.RDMA.Kernel = kernel
	const want = `[{"ifindex":0,"ifname":"a\"<\u0001` + "\ufffd" + `","port":1,"state":"PortState(27)","physical_state":"PhysState(28)"}]` + "\n"
	got := runLine(tool, "-j show", nets)
	got.Out = strings.ReplaceAll(got.Out, `\ufffd`, "\ufffd")
	if diff := cmp.Diff(clitest.Result{Out: want}, got); diff != "" {
		t.Error(diff)
	}
}

// vanishing deletes the first device after it was listed.
type vanishing struct{ *nltest.Kernel }

func (v vanishing) Execute(req netlinkrdma.Request) ([][]byte, error) {
	replies, err := v.Kernel.Execute(req)
	if len(v.Requests) == 1 {
		v.Devices = v.Devices[1:]
	}
	return replies, err
}

func TestShowWhileDeviceGoes(t *testing.T) {
	tool, nets := showMachine()
	tool.RDMA.Kernel = vanishing{tool.RDMA.Kernel.(*nltest.Kernel)}
	got := runLine(tool, "show", nets)
	if got.Code != 0 || !strings.HasPrefix(got.Out, "link mlx5_0/1 ") {
		t.Errorf("%+v", got)
	}
}

func TestOutputFails(t *testing.T) {
	for _, line := range []string{"show", "-j show", "-h", "version"} {
		tool, _ := showMachine()
		tool.Stdout, tool.Stderr = brokenPipe{}, &strings.Builder{}
		if code := tool.Run(context.Background(), root(), strings.Fields(line)); code != cli.ExitFailed {
			t.Errorf("%s: exit code %d", line, code)
		}
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, context.Canceled }

func showMachine() (*cli.Tool, *hosttest.Netdevs) {
	kernel := &nltest.Kernel{
		Devices: []netlinkrdma.Device{{Index: 0, Name: "siw0", Ports: 1}, {Index: 7, Name: "mlx5_0", Ports: 1}},
		Ports: []netlinkrdma.Port{
			{
				DeviceName: "siw0", Index: 1, State: verbs.PortActive, PhysState: verbs.PhysLinkUp,
				NetdevIndex: 2, NetdevName: "dummy0",
			},
			{
				DeviceIndex: 7, DeviceName: "mlx5_0", Index: 1, State: verbs.PortInit, PhysState: verbs.PhysPolling,
				InfiniBand: true, SubnetPrefix: 0xfe80000000000000, LID: 13, SMLID: 1, LMC: 2,
			},
		},
	}
	return &cli.Tool{Machine: host.Machine{RDMA: &netlinkrdma.Client{Kernel: kernel}}}, &hosttest.Netdevs{}
}
