//go:build vm

package test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// resourceDifferences are those of resource.
var resourceDifferences = []rdmaDifference{
	{
		regexp.MustCompile(`\b(show|list) srq\b`), debianRDMA,
		"rdma keeps a pointer to the name of the process in a buffer that is gone, and prints what is there by then: of an SRQ its QPs",
		withoutComm, withoutComm,
	},
	{
		regexp.MustCompile(`\b(show|list) cq\b`), "",
		"rdma has the words for poll contexts in the order of older kernels",
		rightPollContext, unchanged,
	},
}

var pollContexts = strings.NewReplacer("UNBOUND_WORKQUEUE", "DIRECT", "WORKQUEUE", "UNBOUND_WORKQUEUE", "SOFTIRQ", "WORKQUEUE", "DIRECT", "SOFTIRQ")

func rightPollContext(o output) output {
	o.Out = pollContexts.Replace(o.Out)
	return o
}

var commOf = regexp.MustCompile(`(comm |"comm": ?)\S+`)

func withoutComm(o output) output {
	o.Out = commOf.ReplaceAllString(o.Out, "$1")
	return o
}

// TestResourceWhereRdmaIsWrong: filters that rdma takes but does not heed. Were
// it to mend its ways, this fails, and the list is to be cut.
func TestResourceWhereRdmaIsWrong(t *testing.T) {
	only612(t)
	resourceState(t)
	for _, test := range []struct{ reason, line, keep string }{
		{"a QP that has no path-mig-state passes as MIGRATED", "res show qp path-mig-state migrated", "path-mig-state MIGRATED"},
		{"a process's CQ has no poll-ctx, and passes as DIRECT", "res show cq poll-ctx direct", "poll-ctx DIRECT"},
		{"rdma calls ib_mad's poll-ctx WORKQUEUE", "res show cq poll-ctx unbound_workqueue", "poll-ctx UNBOUND_WORKQUEUE"},
		{"rkey is no filter, though it is taken", "res show mr rkey 0", "rkey 0x0 "},
	} {
		rdma, got := iproute2(t, test.line), rdmalink(t, test.line)
		var want strings.Builder
		for line := range strings.Lines(rightPollContext(iproute2(t, "res "+strings.Join(strings.Fields(test.line)[1:3], " "))).Out) {
			if strings.Contains(line, test.keep) {
				want.WriteString(line)
			}
		}
		if diff := cmp.Diff(want.String(), got.Out); diff != "" || got.Code != 0 {
			t.Errorf("%s, exit code %d (-want +got):\n%s", test.line, got.Code, diff)
		}
		if rdma == got {
			t.Errorf("%s: rdma prints the same; no longer true: %s", test.line, test.reason)
		}
	}
}
