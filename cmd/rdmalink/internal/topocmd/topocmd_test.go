package topocmd

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli/clitest"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host"
	"github.com/goverbs/goverbs/internal/topotest"
)

func run(sys fstest.MapFS, line string) clitest.Result {
	t := &cli.Tool{Stdin: strings.NewReader(""), Machine: host.Machine{Sys: host.Tree{FS: sys}}}
	return clitest.RunWords(t, cli.Root(Command()), strings.Fields(line))
}

func recorded(t *testing.T, name string) fstest.MapFS {
	t.Helper()
	return topotest.Read(t, "../../../../topo/testdata/"+name+".tree")
}

const h100 = `mlx5_0 0000:18:00.0
  product                        NVIDIA ConnectX-7
  numa_node                      0
  root_port                      0000:15:01.0
  switch                         0000:16:00.0
  netdev                         ibp24s0
  gpu                            0000:1b:00.0 card1 renderD128 (same switch)
  nvme                           0000:1c:00.0 nvme0 (same switch)

mlx5_1 0000:29:00.0
  product                        NVIDIA ConnectX-7
  numa_node                      0
  root_port                      0000:15:03.0
  netdev                         ens0
  gpu                            0000:1b:00.0 card1 renderD128 (same NUMA node)
  gpu                            0000:3d:00.0 card2 renderD129 (same NUMA node)
  nvme                           0000:1c:00.0 nvme0 (same NUMA node)

`

func TestText(t *testing.T) {
	r := run(recorded(t, "h100"), "topo")
	if r.Code != 0 || !strings.HasPrefix(r.Out, h100) {
		t.Errorf("%+v\n%s", r, cmp.Diff(h100, r.Out))
	}
	if r := run(recorded(t, "gb300"), "topo"); !strings.Contains(r.Out, "\n  data_direct                    0009:03:00.0\n") {
		t.Errorf("%+v", r)
	}
	if r := run(fstest.MapFS{"bus/pci/devices/x": {}}, "topo"); r.Code != 0 || r.Out != "" || !strings.Contains(r.Err, "no PCI function") {
		t.Errorf("%+v", r)
	}
	if r := run(nil, "topo"); r.Code == 0 || !strings.Contains(r.Err, "read PCI topology") {
		t.Errorf("%+v", r)
	}
}

// TestJSON checks that the JSON is rdma_topo's where that has any, as the tests of package topo check, and otherwise
// alike.
func TestJSON(t *testing.T) {
	for name, keys := range map[string]string{
		"gb300":  "gpu_bdf numa_node nvme_bdf rdma_dma_bdf rdma_nic_pf_bdf rdma_nic_vpd_name subsystems",
		"mi300x": "gpu_bdfs numa_node rdma_nic_pf_bdf subsystems",
	} {
		r := run(recorded(t, name), "topo -j")
		var all []map[string]any
		if err := json.Unmarshal([]byte(r.Out), &all); err != nil || len(all) != 2 {
			t.Fatalf("%v: %+v", err, r)
		}
		for key := range all[0] {
			if !strings.Contains(keys, key) {
				t.Errorf("%s has %s", name, key)
			}
		}
		if n := len(strings.Fields(keys)); len(all[0]) != n {
			t.Errorf("%s: %v, want %d keys", name, all[0], n)
		}
		if noted := strings.Contains(r.Err, "note: find direct NICs"); noted != (name == "mi300x") {
			t.Errorf("%+v", r)
		}
	}
}

// TestDot checks that the graph has each NIC and GPU once, below its switch or port. If Graphviz is installed, it
// parses the graph.
func TestDot(t *testing.T) {
	sys := recorded(t, "gb300")
	sys["devices/pci0000:00/0000:00:00.0/0000:01:00.0/0000:02:00.0/0000:03:00.0/net/\"\\\x1b[2J/uevent"] = &fstest.MapFile{}
	r := run(sys, "topo --dot")
	for _, want := range []string{
		"\t\"0000:02:00.0\" -- \"0000:03:00.0\"\n",
		"\t\"0000:03:00.0\" -- \"0009:03:00.0\" [style=dashed]\n",
		"\t\tlabel=\"NUMA node 1\"\n",
		`"0000:03:00.0" [label="NIC\n0000:03:00.0\nmlx5_0\n\"\\\\x1b[2J ibp3s0f0"]` + "\n",
		`"0009:06:00.0" [label="GPU\n0009:06:00.0\ncard1 renderD129"]` + "\n",
	} {
		if strings.Count(r.Out, want) != 1 {
			t.Errorf("not once: %s in\n%s", want, r.Out)
		}
	}
	if strings.Contains(r.Out, "\x1b") {
		t.Errorf("%q", r.Out)
	}
	if path, err := exec.LookPath("dot"); err == nil {
		cmd := exec.Command(path, "-Tsvg")
		cmd.Stdin = strings.NewReader(r.Out)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}
	if r := run(sys, "topo --dot -j"); r.Code == 0 {
		t.Errorf("%+v", r)
	}
	if r := run(sys, "topo --sysfs /nowhere"); r.Code == 0 || !strings.Contains(r.Err, "--sysfs /nowhere: ") {
		t.Errorf("%+v", r)
	}
	if r := run(sys, "topo mlx5_0"); r.Code == 0 {
		t.Errorf("%+v", r)
	}
}
