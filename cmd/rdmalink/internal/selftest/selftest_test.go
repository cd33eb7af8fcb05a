package selftest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host/hosttest"
	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// selftest runs the tests on a device of a fabric, with its address on a network device.
func selftest(t *testing.T, d *rdmatest.Device, out cli.Output) (string, error) {
	t.Helper()
	all := kernel.Registered()
	m := host.Machine{RDMA: &netlinkrdma.Client{Kernel: all[len(all)-1].Netlink()}, Open: uverbs.Open,
		Proc: hosttest.Tree(map[string]string{"sys/kernel/osrelease": "6.12.117"})}
	dev, err := m.RDMA.DeviceByName(d.Name())
	if err != nil {
		t.Fatal(err)
	}
	ports, err := m.RDMA.Ports(dev.Index)
	if err != nil {
		t.Fatal(err)
	}
	m.Net = &hosttest.Netdevs{All: []host.Netdev{{Index: ports[0].NetdevIndex, Name: ports[0].NetdevName, Addrs: d.Addrs()}}}
	var b strings.Builder
	out.Stdout = &b
	err = Run(t.Context(), &m, &out, d.Name())
	return b.String(), err
}

type line struct{ Test, Result, Detail string }

func lines(t *testing.T, text string) (all []line) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		t.Fatal(err, text)
	}
	return all
}

// TestAll checks that each device passes, and that the list of unsupported operations is right.
func TestAll(t *testing.T) {
	onlyRC := []string{"UC SEND", "UC SEND with immediate", "UC WRITE", "UC WRITE with immediate", "UD SEND", "UD SEND with immediate"}
	rest := []string{"CQ that is resized", "windows of type 1", "windows of type 2", "a wrong key"}
	for kind, lacks := range map[rdmatest.Kind][]string{
		rdmatest.RXE:  nil,
		rdmatest.MLX5: nil,
		rdmatest.SIW: slices.Concat([]string{"RC SEND with immediate", "RC WRITE with immediate", "RC COMPARE_SWAP", "RC FETCH_ADD"}, onlyRC,
			[]string{"solicited events"}, rest),
		rdmatest.ERDMA: slices.Concat(onlyRC, []string{"SRQ"}, rest),
	} {
		t.Run(kind.String(), func(t *testing.T) {
			f := rdmatest.NewWith(t, &rdmatest.Options{Kind: kind})
			out, err := selftest(t, f.Host(0).Device(0), cli.Output{JSON: true})
			if err != nil {
				t.Error(err, out)
			}
			var none []string
			for _, l := range lines(t, out) {
				if l.Result == string(notOffered) {
					none = append(none, l.Test)
				}
			}
			if diff := cmp.Diff(lacks, none); diff != "" {
				t.Errorf("not offered (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFound checks that a failure is printed in a line of its own and sets the exit code, and
// that later tests still run.
func TestFound(t *testing.T) {
	f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.MLX5})
	d := f.Host(0).Device(0)
	d.FailSend(3, verbs.StatusGeneralErr)
	out, err := selftest(t, d, cli.Output{})
	if err == nil || !strings.HasPrefix(err.Error(), "1 of ") {
		t.Error(err)
	}
	all := slices.Collect(strings.Lines(out))
	i := slices.IndexFunc(all, func(l string) bool { return strings.HasPrefix(l, "FAILED") })
	if i < 0 || !strings.Contains(all[i], "RC SEND") || strings.Count(out, "FAILED") != 1 || !strings.HasPrefix(all[i+1], "ok      RC SEND with immediate") {
		t.Error(out)
	}
}
