package main

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host/hosttest"
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
)

// statDifferences are where rdma is wrong, or can less. docs/rdma-differences.md
// says the same.
var statDifferences = []struct {
	line   *regexp.Regexp
	reason string
}{
	{regexp.MustCompile(`^(-\w+ )?\w+( s| show| list| mode| qp mode| mode show| mode supported)?( link)?$`), "it ends at siw0, which counts nothing"},
	{regexp.MustCompile(`lqpn`), "it shows a counter of which all QPs pass, and one without QPs"},
	{regexp.MustCompile(`qp-type smi`), "to it, a counter that has no type is of type SMI"},
	{regexp.MustCompile(`mr (show|list)`), "it takes the word for a filter"},
}

func thisProcess() (*tool, *nltest.Kernel) { return statMachine(uint32(os.Getpid())) }

// TestStatisticAsIproute2 has rdma print the same.
func TestStatisticAsIproute2(t *testing.T) {
	r := newIproute2(t)
	for line := range statTexts {
		if strings.HasPrefix(line, "-o") && r.version.before(6, 8) {
			continue
		}
		tool, kernel := thisProcess()
		want, failed := r.run(t, kernel, line)
		got := tool.runLine(line, &hosttest.Netdevs{})
		if !strings.Contains(want, "optional-counters o") { // those before 6.15
			got.Out = strings.ReplaceAll(got.Out, " on optional-counters on", " on")
		}
		diff := cmp.Diff(want, got.Out)
		i := slices.IndexFunc(statDifferences, func(d struct {
			line   *regexp.Regexp
			reason string
		}) bool {
			return d.line.MatchString(line)
		})
		switch {
		case i >= 0 && diff == "":
			t.Errorf("%s: rdma prints the same; no longer true: %s", line, statDifferences[i].reason)
		case i < 0 && (diff != "" || failed):
			t.Errorf("%s, failed %t (-iproute2 +rdmalink):\n%s", line, failed, diff)
		}
	}
}

// TestStatisticSetsAsIproute2 compares what the kernel is asked to change.
func TestStatisticSetsAsIproute2(t *testing.T) {
	r := newIproute2(t)
	for _, test := range statSets {
		if test.unlike != "" || strings.Contains(test.line, " au") && strings.Contains(test.line, "opt") && r.version.before(6, 15) {
			continue
		}
		tool, kernel := thisProcess()
		test.prepare(kernel)
		tool.runLine(test.line, &hosttest.Netdevs{})
		got := changes(kernel)
		_, kernel = thisProcess()
		test.prepare(kernel)
		_, failed := r.run(t, kernel, test.line)
		if diff := cmp.Diff(changes(kernel), got, cmpopts.EquateEmpty()); diff != "" || failed || len(got) == 0 {
			t.Errorf("%s, failed %t (-iproute2 +rdmalink):\n%s", test.line, failed, diff)
		}
	}
}

// changes are the requests that set something, with their attributes in order
// and without one that is off, which is the same as none.
func changes(kernel *nltest.Kernel) []netlinkrdma.Request {
	all := slices.Clone(kernel.Requests)
	all = slices.DeleteFunc(all, func(r netlinkrdma.Request) bool {
		return r.Op != abi.RDMA_NLDEV_CMD_STAT_SET && r.Op != abi.RDMA_NLDEV_CMD_STAT_DEL
	})
	for i := range all {
		all[i].Attrs = slices.DeleteFunc(slices.Clone(all[i].Attrs), func(a netlinkrdma.Attr) bool {
			return a.Type == abi.RDMA_NLDEV_ATTR_STAT_OPCOUNTER_ENABLED && bytes.Equal(a.Value, []byte{0})
		})
		slices.SortFunc(all[i].Attrs, func(a, b netlinkrdma.Attr) int { return int(a.Type&0x3fff) - int(b.Type&0x3fff) })
	}
	return all
}
