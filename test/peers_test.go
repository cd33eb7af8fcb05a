//go:build !vm

package test

import (
	_ "embed"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// peers lists rdma-core's own tests that say ok on a software device: how each
// ended on rxe under 6.12 and 7.2 and on siw under 6.12, and which of our tests
// show the same on siw and on rxe. A dash is a test that leaves itself out there.
//
//go:embed peers.tsv
var peers string

// TestPeers checks that every row names a test of ours, wherever rdma-core's says ok,
// and that this test exists.
func TestPeers(t *testing.T) {
	var names []string
	ours := ownTests(t)
	for line := range strings.Lines(peers) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		row := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(row) != 6 {
			t.Fatalf("%q: %d columns", line, len(row))
		}
		names = append(names, row[0])
		for _, ended := range row[1:4] {
			if ended != "ok" && ended != "failed" && ended != "–" {
				t.Errorf("%s: %q", row[0], ended)
			}
		}
		if row[3] == "ok" && row[4] == "–" || slices.Contains(row[1:3], "ok") && row[5] == "–" {
			t.Errorf("%s has nothing of ours beside it", row[0])
		}
		for _, test := range strings.Fields(row[4] + " " + row[5]) {
			if test != "–" && !ours[test] {
				t.Errorf("%s: there is no %s", row[0], test)
			}
		}
	}
	if distinct := len(slices.Compact(slices.Clone(names))); len(names) != 104 || distinct != 104 || !slices.IsSorted(names) {
		t.Errorf("%d rows, %d of them distinct; there are 104, in order", len(names), distinct)
	}
}

// ownTests finds the tests of the rooms.
func ownTests(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("*/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]bool)
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Test") {
				found[f.Name.Name] = true
			}
		}
	}
	return found
}
