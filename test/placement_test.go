//go:build !vm

package test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table in README.md")

const (
	tableBegin = "<!-- placement: go test ./test -run Placement -update -->\n"
	tableEnd   = "<!-- end of placement -->\n"
)

// TestPlacement compares README.md's table of the kernels that each test runs on with the code.
func TestPlacement(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), tableBegin)
	old, after, closed := strings.Cut(rest, tableEnd)
	if !found || !closed {
		t.Fatalf("README.md has no %q and %q", tableBegin, tableEnd)
	}
	table := placementTable(t)
	if *update {
		if err := os.WriteFile("README.md", []byte(before+tableBegin+table+tableEnd+after), 0o666); err != nil {
			t.Fatal(err)
		}
	} else if old != table {
		t.Error("README.md's table is not that of the code: run go test ./test -run Placement -update")
	}
}

// placementTable lists the tests of each file by the kernels that they run on.
func placementTable(t *testing.T) string {
	var b strings.Builder
	b.WriteString("| file | 6.12, 6.1 and 7.3 | 6.12 and 6.1, of siw | 6.12 |\n|---|---|---|---|\n")
	var files []string
	kit := newRoom()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "_test.go") {
			files = append(files, path)
		} else if strings.HasSuffix(path, ".go") && filepath.Dir(path) == "kit" {
			kit.parse(t, path, "kit.")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	rooms := make(map[string]*room)
	for _, path := range files {
		dir := filepath.Dir(path)
		if rooms[dir] == nil {
			rooms[dir] = newRoom()
			maps.Copy(rooms[dir].funcs, kit.funcs)
		}
		rooms[dir].parse(t, path, "")
	}
	for _, path := range files {
		r := rooms[filepath.Dir(path)]
		var where [3][]string
		for _, name := range r.tests[path] {
			at := 0
			switch calls := r.calls(name, make(map[string]bool)); {
			case calls["kit.Only612"]:
				at = 2
			case calls["kit.NeedSiw"]:
				at = 1
			}
			where[at] = append(where[at], strings.TrimPrefix(name, "Test"))
		}
		if len(r.tests[path]) > 0 {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", path, strings.Join(where[0], ", "), strings.Join(where[1], ", "), strings.Join(where[2], ", "))
		}
	}
	return b.String()
}

// A room is a directory of kernel tests, with the functions of the kit.
type room struct {
	funcs map[string]*ast.FuncDecl
	tests map[string][]string // names by file
}

func newRoom() *room {
	return &room{funcs: make(map[string]*ast.FuncDecl), tests: make(map[string][]string)}
}

// parse adds the functions of a file, with a prefix to their names.
func (r *room) parse(t *testing.T, path, prefix string) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	kernel := slices.ContainsFunc(file.Comments, func(c *ast.CommentGroup) bool { return c.List[0].Text == "//go:build vm" })
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv != nil || !kernel {
			continue
		}
		r.funcs[prefix+f.Name.Name] = f
		if strings.HasPrefix(f.Name.Name, "Test") && f.Name.Name != "TestMain" {
			r.tests[path] = append(r.tests[path], f.Name.Name)
		}
	}
}

// calls returns the functions that a function calls in any case, directly or through others of
// the room or the kit. Calls under a condition, in a loop or in a subtest do not count.
func (r *room) calls(name string, seen map[string]bool) map[string]bool {
	if seen[name] {
		return seen
	}
	seen[name] = true
	f := r.funcs[name]
	if f == nil {
		return seen
	}
	prefix := name[:strings.IndexByte(name, '.')+1]
	for _, s := range f.Body.List {
		ast.Inspect(s, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncLit, *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt, *ast.SwitchStmt, *ast.SelectStmt, *ast.DeferStmt, *ast.GoStmt:
				return false
			case *ast.CallExpr:
				switch f := n.Fun.(type) {
				case *ast.Ident:
					r.calls(prefix+f.Name, seen)
				case *ast.SelectorExpr:
					if id, ok := f.X.(*ast.Ident); ok && id.Name == "kit" {
						r.calls("kit."+f.Sel.Name, seen)
					}
				}
			}
			return true
		})
	}
	return seen
}
