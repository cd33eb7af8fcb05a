package fabriccmd

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPage checks that docs/fabric.md lists the commands, the C programs that they replace, and the
// differences.
func TestPage(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/fabric.md")
	if err != nil {
		t.Fatal(err)
	}
	var commands, differ []string
	for _, p := range programs() {
		var names []string
		for name, words := range aliases {
			if words[0] == p.name {
				names = append(names, "`"+name+"`")
			}
		}
		slices.Sort(names)
		commands = append(commands, fmt.Sprintf("| `fabric %s` | %s | %s |", p.name, strings.Join(names, ", "), p.summary))
	}
	for _, d := range differences {
		tool := d.tool
		if tool == "" {
			tool = "all"
		}
		differ = append(differ, fmt.Sprintf("| %s | %s |", tool, d.text))
	}
	_, list, _ := strings.Cut(string(text), "## Differences from C's programs\n")
	list, _, _ = strings.Cut(list, "\n## ")
	var gotCommands, gotDiffer []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "| `fabric ") {
			gotCommands = append(gotCommands, strings.TrimSpace(line))
		}
	}
	for line := range strings.Lines(list) {
		if strings.HasPrefix(line, "| ") {
			gotDiffer = append(gotDiffer, strings.TrimSpace(line))
		}
	}
	if diff := cmp.Diff(commands, gotCommands); diff != "" {
		t.Errorf("docs/fabric.md has other commands: %s\n%s", diff, strings.Join(commands, "\n"))
	}
	if diff := cmp.Diff(differ, gotDiffer[min(len(gotDiffer), 1):]); diff != "" {
		t.Errorf("docs/fabric.md has other differences: %s\n%s", diff, strings.Join(differ, "\n"))
	}
}
