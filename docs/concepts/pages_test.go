package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/internal/pagetest"
)

// TestPages runs each page's program, and compares its output and its code with the page,
// in both languages.
func TestPages(t *testing.T) {
	outputs := make(map[string]string)
	for page := range programs {
		var out bytes.Buffer
		if err := run(&out, page, nil); err != nil {
			t.Errorf("%s: %v", page, err)
		}
		outputs[page] = out.String()
	}
	for page := range programs {
		if page == "memory" && runtime.GOOS != "linux" {
			continue // the program uses dma-bufs only on Linux
		}
		for _, folder := range languages {
			file := filepath.Join(folder, page+".md")
			runs := pagetest.Check(t, file, "run", func(words []string) string { return outputs[words[0]] })
			code := pagetest.Check(t, file, "code", func(words []string) string { return declaration(t, words[0], words[1]) })
			if runs != 1 || code == 0 {
				t.Errorf("%s shows %d outputs and %d pieces of code", file, runs, code)
			}
		}
	}
}

// TestHours checks that the pages for the first hours show the code of the examples.
func TestHours(t *testing.T) {
	for _, folder := range languages {
		for _, page := range []string{"first-hour.md", "second-hour.md"} {
			file := filepath.Join(folder, "..", page)
			n := pagetest.Check(t, file, "code", func(words []string) string {
				return declaration(t, filepath.Join("../..", words[0]), words[1])
			})
			if n < 3 {
				t.Errorf("%s shows %d pieces of code", file, n)
			}
		}
	}
}

// TestNoPage checks that an unknown page is refused with a list of the pages.
func TestNoPage(t *testing.T) {
	if err := run(nil, "key", nil); err == nil || !strings.HasPrefix(err.Error(), "name a page: completions, connections, events, ") {
		t.Error(err)
	}
}

// declaration returns a function, type or variable of a file, with its comment.
func declaration(t *testing.T, file, name string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Error(err)
		return ""
	}
	files := token.NewFileSet()
	syntax, err := parser.ParseFile(files, file, text, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range syntax.Decls {
		from, found := d.Pos(), false
		switch d := d.(type) {
		case *ast.FuncDecl:
			if found = d.Name.Name == name; d.Doc != nil {
				from = d.Doc.Pos()
			}
		case *ast.GenDecl:
			if d.Doc != nil {
				from = d.Doc.Pos()
			}
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					found = found || s.Name.Name == name
				case *ast.ValueSpec:
					found = found || s.Names[0].Name == name
				}
			}
		}
		if found {
			return string(text[files.Position(from).Offset:files.Position(d.End()).Offset]) + "\n"
		}
	}
	t.Errorf("%s has no %s", file, name)
	return ""
}

// languages holds the directories of the English and Chinese pages.
var languages = []string{".", "../zh/concepts"}
