package main

import (
	"bytes"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host/hosttest"
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/netlinkrdma"
)

// devDifferences make of ours what rdma prints (docs/rdma-differences.md).
// Those that newer ones have mended end with a version.
var devDifferences = []struct {
	ours, rdma string
	mended     version
}{
	{`BIT\(\d+\)|FLUSH_GLOBAL`, "UNKNOWN", version{}},
	{`NodeType\(27\)`, "unknown", version{}},
	{`protocol \w+ |"protocol": ?"\w+",\s*`, "", version{6, 15}},
	{`type smi parent mlx5_0 |,\s*"type": "smi",\s*"parent": "mlx5_0"`, "", version{6, 15}},
}

var oneline = regexp.MustCompile(`-\w*o`)

// TestDevAsIproute2 has rdma print the same.
func TestDevAsIproute2(t *testing.T) {
	r := newIproute2(t)
	for line := range devTexts {
		if oneline.MatchString(line) && r.version.before(6, 8) {
			continue
		}
		tool, kernel := devMachine()
		want, failed := r.run(t, kernel, line)
		got := tool.runLine(line, &hosttest.Netdevs{})
		for _, d := range devDifferences {
			if d.mended == (version{}) || r.version.before(d.mended.major, d.mended.minor) {
				got.Out = regexp.MustCompile(d.ours).ReplaceAllString(got.Out, d.rdma)
			}
		}
		if diff := cmp.Diff(want, got.Out); diff != "" || failed || got.Code != 0 {
			t.Errorf("%s, failed %t, exit code %d (-iproute2 +rdmalink):\n%s", line, failed, got.Code, diff)
		}
	}
}

// TestChangesAsIproute2 compares what the kernel is asked to change.
func TestChangesAsIproute2(t *testing.T) {
	r := newIproute2(t)
	for line, since := range map[string]version{
		"dev set siw0 name blue":              {},
		"d set mlx5_0 a off":                  {},
		"dev add smi1 type SMI parent mlx5_0": {6, 15},
		"d a smi1 t smi p mlx5_0":             {6, 15},
		"dev delete smi0":                     {6, 15},
		"link add siw1 type siw netdev vlan5": {},
		"l a siw1 t siw n vlan5":              {},
		"link delete siw0":                    {},
		"system set netns exclusive":          {},
		"sys set netns shared":                {},
		"system set privileged-qkey on":       {6, 15},
	} {
		if r.version.before(since.major, since.minor) {
			continue
		}
		tool, kernel := devMachine()
		kernel.Netdevs, kernel.Types = []string{"vlan5"}, []string{"siw"}
		tool.Net = &hosttest.Netdevs{All: []host.Netdev{hosttest.VLAN5}}
		tool.runLine(line, &hosttest.Netdevs{})
		got := changing(kernel.Requests)
		_, kernel = devMachine()
		kernel.Netdevs, kernel.Types = []string{"vlan5"}, []string{"siw"}
		_, failed := r.run(t, kernel, line)
		if diff := cmp.Diff(changing(kernel.Requests), got, cmpopts.EquateEmpty()); diff != "" || failed || len(got) != 1 {
			t.Errorf("%s, failed %t (-iproute2 +rdmalink):\n%s", line, failed, diff)
		}
	}
}

// changing are the requests that ask for more than to tell something.
func changing(requests []netlinkrdma.Request) []netlinkrdma.Request {
	return slices.DeleteFunc(slices.Clone(requests), func(r netlinkrdma.Request) bool {
		return bytes.IndexByte([]byte{abi.RDMA_NLDEV_CMD_GET, abi.RDMA_NLDEV_CMD_PORT_GET, abi.RDMA_NLDEV_CMD_SYS_GET}, byte(r.Op)) >= 0
	})
}
