package house

import (
	"go/doc"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// marker is in the documentation of each name that may change in any release.
const marker = "Experimental: may change in any release; see docs/stability.md."

// TestExperimental checks that docs/stability.md lists exactly the names that have the marker: packages, types, and
// functions and methods of stable packages and types.
func TestExperimental(t *testing.T) {
	var marked []string
	for path, p := range publicPackages(t) {
		if isMarked(p.Doc) {
			marked = append(marked, path)
			continue
		}
		funcs := func(all []*doc.Func) {
			for _, f := range all {
				if isMarked(f.Doc) {
					marked = append(marked, path+" "+strings.TrimPrefix(strings.TrimPrefix(f.Recv+"."+f.Name, "*"), "."))
				}
			}
		}
		funcs(p.Funcs)
		for _, typ := range p.Types {
			if isMarked(typ.Doc) {
				marked = append(marked, path+" "+typ.Name)
			}
			funcs(typ.Funcs)
			funcs(typ.Methods)
		}
	}
	slices.Sort(marked)

	var listed []string
	name := regexp.MustCompile("`([\\w.]+)`")
	_, table, _ := strings.Cut(pages(t)[filepath.Join(top, "docs/stability.md")], "## Experimental")
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if len(cells) != 2 {
			continue
		}
		for pkg := range strings.SplitSeq(cells[0], ",") {
			if pkg = strings.TrimSpace(pkg); strings.HasPrefix(cells[1], "all of it") {
				listed = append(listed, pkg)
			}
			for _, m := range name.FindAllStringSubmatch(cells[1], -1) {
				listed = append(listed, pkg+" "+m[1])
			}
		}
	}
	slices.Sort(listed)
	if diff := cmp.Diff(listed, marked); diff != "" || len(listed) < 20 {
		t.Errorf("docs/stability.md and the documentation differ (-page +documentation):\n%s", diff)
	}
}

func isMarked(text string) bool {
	return strings.Contains(strings.Join(strings.Fields(text), " "), marker)
}
