package house

import (
	"encoding/json"
	"go/ast"
	"go/build"
	"go/doc"
	"go/doc/comment"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// publicTrees are where the packages are that other modules import.
var publicTrees = []string{"msg", "mmap", "netlinkrdma", "provider", "rdmacm", "rdmatest", "rsocket", "uverbs", "valkeyrdma", "verbs"}

// public returns the documentation of each such package, as pkg.go.dev shows it.
func public(t *testing.T) map[string]*doc.Package {
	t.Helper()
	packages := make(map[string]*doc.Package)
	for _, s := range sources(t) {
		tree, _, _ := strings.Cut(s.pkg, "/")
		if packages[s.pkg] == nil && slices.Contains(publicTrees, tree) {
			packages[s.pkg] = documentation(t, s.pkg)
		}
	}
	if len(packages) < 14 {
		t.Fatalf("%d packages", len(packages))
	}
	return packages
}

func documentation(t *testing.T, pkg string) *doc.Package {
	t.Helper()
	dir := filepath.Join(top, pkg)
	b, err := build.ImportDir(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	var files []*ast.File
	for _, name := range slices.Concat(b.GoFiles, b.TestGoFiles, b.XTestGoFiles) {
		f, err := parser.ParseFile(set, filepath.Join(dir, name), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	p, err := doc.NewFromFiles(set, files, module+pkg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestDocsStartWithProgram checks that the documentation of a package has a whole program before
// its first heading, and the program compiles. One go list does all of them, which compiles
// without linking, in packages that an overlay adds to the module.
func TestDocsStartWithProgram(t *testing.T) {
	overlay := struct{ Replace map[string]string }{make(map[string]string)}
	args := []string{"list", "-export", "-overlay", filepath.Join(t.TempDir(), "overlay.json")}
	for pkg, p := range public(t) {
		program := firstProgram(p)
		if program == "" {
			t.Errorf("go doc of %s has no program before its first heading", pkg)
			continue
		}
		if good, err := format.Source([]byte(program)); err != nil || string(good) != program {
			t.Errorf("%s: the program is not as gofmt writes it: %v", pkg, err)
		}
		if !strings.Contains(program, `"`+module+pkg+`"`) || strings.Contains(program, `"`+module+"internal/") {
			t.Errorf("%s: the program doesn't import the package, or one that users can't", pkg)
		}
		file := filepath.Join(t.TempDir(), "main.go")
		if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
			t.Fatal(err)
		}
		dir, err := filepath.Abs(filepath.Join(top, "program-of", pkg))
		if err != nil {
			t.Fatal(err)
		}
		overlay.Replace[filepath.Join(dir, "main.go")] = file
		args = append(args, dir)
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(args[3], text, 0o600); err != nil {
		t.Fatal(err)
	}
	list := exec.Command("go", args...)
	list.Dir = top
	if out, err := list.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func firstProgram(p *doc.Package) string {
	for _, block := range p.Parser().Parse(p.Doc).Content {
		switch b := block.(type) {
		case *comment.Heading:
			return ""
		case *comment.Code:
			if strings.HasPrefix(b.Text, "package main\n") {
				return b.Text
			}
		}
	}
	return ""
}
