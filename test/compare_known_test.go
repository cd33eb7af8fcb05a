//go:build vm

package test

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// rdmaDifference is something that rdmalink prints otherwise than rdma, on
// purpose. right makes of rdma's output what it should be, ours takes from
// rdmalink's what rdma has not; neither may hide more than the reason says.
type rdmaDifference struct {
	line        *regexp.Regexp
	only        rdmaVersion // empty: it is so in both
	reason      string
	right, ours func(output) output
}

// rdmaDifferences are applied one after the other. What rdma refuses, or takes,
// and we do not, and what no soft driver shows, stands in
// docs/rdma-differences.md.
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
		regexp.MustCompile(`-\w*j`), newerRDMA,
		"newer ones break the line after each object",
		compacted, compacted,
	},
	{
		regexp.MustCompile(`^(-\S+ )*de?v?\b`), debianRDMA,
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
		regexp.MustCompile(`^(-\w+ )?(s\b|sys)`), debianRDMA,
		"6.1 does not show all the settings",
		unchanged, without(`(privileged-qkey|monitor) (on|off) |"(privileged-qkey|monitor)":(true|false),`, ""),
	},
	{
		regexp.MustCompile(`-\w*o.*\bsystem\b`), newerRDMA,
		"rdma prints the backslash behind the last setting too, in place of the end of the line",
		func(o output) output { o.Out = strings.TrimSuffix(o.Out, `\`) + "\n"; return o }, unchanged,
	},
}

func unchanged(o output) output { return o }

func withCode(code int) func(output) output {
	return func(o output) output {
		o.Code = code
		return o
	}
}

// without replaces all matches of the expression.
func without(expression, by string) func(output) output {
	e := regexp.MustCompile(expression)
	return func(o output) output {
		o.Out = e.ReplaceAllString(o.Out, by)
		return o
	}
}

// compacted removes the blanks from JSON, and returns other text unchanged.
func compacted(o output) output {
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
func settingsAsJSON(o output) output {
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
