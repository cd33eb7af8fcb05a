//go:build vm

package netlink

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/test/kit"
)

// rdmaDifference is an intended difference between the outputs of rdmalink and rdma.
// right corrects rdma's output; ours removes from rdmalink's output what rdma
// lacks. Neither may hide more than the reason names.
type rdmaDifference struct {
	line        *regexp.Regexp
	only        kit.RDMAVersion // empty: it is so in both
	reason      string
	right, ours func(kit.Output) kit.Output
}

// rdmaDifferences are applied one after the other. docs/rdma-differences.md also lists
// arguments that only one of the two accepts, and differences that no soft driver
// shows.
var rdmaDifferences = slices.Concat(wordDifferences, resourceDifferences, statDifferences)

// wordDifferences are those of dev, link, system, and of all commands.
var wordDifferences = []rdmaDifference{
	{
		regexp.MustCompile(`\bfrob\b`), "",
		"rdma says that it does not know the word, and succeeds",
		withCode(2), unchanged,
	},
	{
		regexp.MustCompile(`^link .*/-$`), "",
		"a port that makes no sense is a usage error of ours",
		withCode(2), unchanged,
	},
	{
		regexp.MustCompile(`-\w*j`), kit.NewerRDMA,
		"newer ones break the line after each object",
		compacted, compacted,
	},
	{
		regexp.MustCompile(`^(-\S+ )*de?v?\b`), kit.DebianRDMA,
		"6.1 does not show the protocol",
		unchanged, without(`protocol \w+ |"protocol":"\w+",| *"protocol": "\w+",\n`, ""),
	},
	{
		regexp.MustCompile(`-\w*d`), "",
		"rdma has no names for these yet",
		unchanged, without(`\b(FLUSH_GLOBAL|FLUSH_PERSISTENT|ATOMIC_WRITE)\b`, "UNKNOWN"),
	},
	{
		regexp.MustCompile(`-\w*j.*\bsys`), "",
		"rdma prints text of the system, whatever it is asked for",
		settingsAsJSON, compacted,
	},
	{
		regexp.MustCompile(`^(-\w+ )?(s\b|sys)`), kit.DebianRDMA,
		"6.1 does not show all the settings",
		unchanged, without(`(privileged-qkey|monitor) (on|off) |"(privileged-qkey|monitor)":(true|false),`, ""),
	},
	{
		regexp.MustCompile(`-\w*o.*\bsystem\b`), kit.NewerRDMA,
		"rdma prints the backslash behind the last setting too, in place of the end of the line",
		func(o kit.Output) kit.Output { o.Out = strings.TrimSuffix(o.Out, `\`) + "\n"; return o }, unchanged,
	},
	{
		regexp.MustCompile(`-\w*j`), "",
		"rdma prints an empty list after an error, as if there were none",
		withoutEmptyAfterError, unchanged,
	},
}

func withoutEmptyAfterError(o kit.Output) kit.Output {
	if o.Code == 0 {
		return o
	}
	return without(`(?m)^\[\s*\]\n`, "")(o)
}

func unchanged(o kit.Output) kit.Output { return o }

func withCode(code int) func(kit.Output) kit.Output {
	return func(o kit.Output) kit.Output {
		o.Code = code
		return o
	}
}

// without replaces all matches of the expression.
func without(expression, by string) func(kit.Output) kit.Output {
	e := regexp.MustCompile(expression)
	return func(o kit.Output) kit.Output {
		o.Out = e.ReplaceAllString(o.Out, by)
		return o
	}
}

// compacted removes the blanks from JSON, and returns other text unchanged.
func compacted(o kit.Output) kit.Output {
	var b bytes.Buffer
	for d := json.NewDecoder(strings.NewReader(o.Out)); d.More(); b.WriteByte('\n') {
		var v json.RawMessage
		if d.Decode(&v) != nil || json.Compact(&b, v) != nil {
			return o
		}
	}
	o.Out = b.String()
	return o
}

// settingsAsJSON turns a line of words and values into JSON.
func settingsAsJSON(o kit.Output) kit.Output {
	var b strings.Builder
	words := strings.Fields(o.Out)
	for i := 0; i+1 < len(words); i += 2 {
		value, ok := map[string]string{"on": "true", "off": "false"}[words[i+1]]
		if !ok {
			value = `"` + words[i+1] + `"`
		}
		b.WriteString(`,"` + words[i] + `":` + value)
	}
	o.Out = "[{" + strings.TrimPrefix(b.String(), ",") + "}]\n"
	return o
}

// sameAsRDMA compares what rdmalink prints with both versions.
func sameAsRDMA(t *testing.T, line string) {
	t.Helper()
	got := kit.Rdmalink(t, line)
	same(kit.DebianRDMA, t, line, got)
	same(kit.NewerRDMA, t, line, got)
}

// sameAsDebians is for lines that are too many for both, or that the newer one
// has nothing new of.
func sameAsDebians(t *testing.T, line string) {
	t.Helper()
	same(kit.DebianRDMA, t, line, kit.Rdmalink(t, line))
}

// same compares what both print, and the exit codes; errors have words of their
// own. A difference counts when rdma prints the same before and after ours: what
// moves meanwhile proves nothing.
func same(v kit.RDMAVersion, t *testing.T, line string, ours kit.Output) {
	t.Helper()
	before := v.Run(t, line)
	if diff(v, line, before, ours) == "" {
		return
	}
	if !kit.Eventually(func() bool {
		ours = kit.Rdmalink(t, line)
		after := v.Run(t, line)
		same := before == after
		before = after
		return same
	}) {
		t.Errorf("%s: never prints the same twice", line)
	}
	if diff := diff(v, line, before, ours); diff != "" {
		t.Errorf("%s (-%s +rdmalink):\n%s", line, v, diff)
	}
}

// diff compares what both printed, but for the known differences.
func diff(v kit.RDMAVersion, line string, rdma, ours kit.Output) string {
	want, got := kit.Output{Out: rdma.Out, Code: rdma.Code}, kit.Output{Out: ours.Out, Code: ours.Code}
	for _, d := range rdmaDifferences {
		if d.line.MatchString(line) && (d.only == "" || d.only == v) {
			want, got = d.right(want), d.ours(got)
		}
	}
	return cmp.Diff(want, got)
}

// resourceDifferences are those of resource.
var resourceDifferences = []rdmaDifference{
	{
		regexp.MustCompile(`\b(show|list) srq\b`), kit.DebianRDMA,
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

func rightPollContext(o kit.Output) kit.Output {
	o.Out = pollContexts.Replace(o.Out)
	return o
}

var commOf = regexp.MustCompile(`(comm |"comm": ?)\S+`)

func withoutComm(o kit.Output) kit.Output {
	o.Out = commOf.ReplaceAllString(o.Out, "$1")
	return o
}

// TestResourceWhereRdmaIsWrong tests filters that rdma accepts but ignores. If rdma starts to
// honor them, this test fails, and the list must shrink.
func TestResourceWhereRdmaIsWrong(t *testing.T) {
	kit.Only612(t)
	resourceState(t)
	for _, test := range []struct{ reason, line, keep string }{
		{"a QP that has no path-mig-state passes as MIGRATED", "res show qp path-mig-state migrated", "path-mig-state MIGRATED"},
		{"a process's CQ has no poll-ctx, and passes as DIRECT", "res show cq poll-ctx direct", "poll-ctx DIRECT"},
		{"rdma calls ib_mad's poll-ctx WORKQUEUE", "res show cq poll-ctx unbound_workqueue", "poll-ctx UNBOUND_WORKQUEUE"},
		{"rkey is no filter, though it is taken", "res show mr rkey 0", "rkey 0x0 "},
	} {
		rdma, got := kit.Iproute2(t, test.line), kit.Rdmalink(t, test.line)
		var want strings.Builder
		for line := range strings.Lines(rightPollContext(kit.Iproute2(t, "res "+strings.Join(strings.Fields(test.line)[1:3], " "))).Out) {
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
