package house

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pages are the Markdown files that readers see, without their blocks of code.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/concepts/*.md", "docs/zh/*.md", "docs/zh/concepts/*.md", "test/*.md", "test/bench/*.md"} {
		files, err := filepath.Glob(filepath.Join(top, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all[file] = codeBlock.ReplaceAllString(string(text), "")
		}
	}
	if len(all) < 10 {
		t.Fatalf("%d pages", len(all))
	}
	return all
}

var (
	codeBlock = regexp.MustCompile("(?ms)^```.*?^```$")
	code      = regexp.MustCompile("`[^`\n]*`")
	mdLink    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	mdID      = regexp.MustCompile(`<a id="([^"]+)">`)
	mdHeading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
)

// anchor returns the anchor of a heading.
func anchor(heading string) string {
	heading = strings.ToLower(heading)
	heading = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(heading, "")
	return strings.ReplaceAll(heading, " ", "-")
}

// anchors returns the anchors of a page.
func anchors(text string) map[string]bool {
	all := make(map[string]bool)
	for _, m := range mdID.FindAllStringSubmatch(text, -1) {
		all[m[1]] = true
	}
	for _, m := range mdHeading.FindAllStringSubmatch(text, -1) {
		all[anchor(m[1])] = true
	}
	return all
}

// TestLinks checks that each link within the repository leads to a file and an anchor in it.
func TestLinks(t *testing.T) {
	all, links := pages(t), 0
	for file, text := range all {
		for _, m := range mdLink.FindAllStringSubmatch(code.ReplaceAllString(text, ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			links++
			path, id, _ := strings.Cut(m[1], "#")
			to := file
			if path != "" {
				to = filepath.Join(filepath.Dir(file), path)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			if id != "" && !anchors(all[to])[id] {
				t.Errorf("%s: nothing in %s is called #%s", file, to, id)
			}
		}
	}
	if links < 30 {
		t.Errorf("%d links", links)
	}
}

// term is a row of the glossary.
type term struct{ name, goNames, cNames string }

func glossary(t *testing.T) map[string]term {
	t.Helper()
	all := make(map[string]term)
	text := pages(t)[filepath.Join(top, "docs/glossary.md")]
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) < 4 || !strings.HasPrefix(line, "| <a ") {
			continue
		}
		_, name, _ := strings.Cut(cells[0], "</a>")
		for name := range strings.SplitSeq(name, ", ") {
			if _, twice := all[name]; twice {
				t.Errorf("%s stands there twice", name)
			}
			all[name] = term{name, cells[2], cells[3]}
		}
	}
	if len(all) < 50 {
		t.Fatalf("%d terms", len(all))
	}
	return all
}

// TestGlossaryNames checks that the Go names of the glossary exist.
func TestGlossaryNames(t *testing.T) {
	declared := make(map[string]bool)
	for _, s := range sources(t) {
		if s.test() || strings.Contains(s.pkg, "internal") {
			continue
		}
		for name, object := range s.syntax.Scope.Objects {
			declared[s.syntax.Name.Name+"."+name] = true
			if spec, ok := object.Decl.(*ast.TypeSpec); ok {
				if fields, ok := spec.Type.(*ast.StructType); ok {
					addFields(declared, s.syntax.Name.Name+"."+name, fields)
				}
			}
		}
		for _, d := range s.syntax.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
				if star, ok := f.Recv.List[0].Type.(*ast.StarExpr); ok {
					if of, ok := star.X.(*ast.Ident); ok {
						declared[s.syntax.Name.Name+"."+of.Name+"."+f.Name.Name] = true
					}
				}
			}
		}
	}
	names := 0
	for _, one := range glossary(t) {
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(one.goNames, -1) {
			names++
			if !declared[m[1]] {
				t.Errorf("%s: there is no %s", one.name, m[1])
			}
		}
	}
	if names < 40 {
		t.Errorf("%d names", names)
	}
}

func addFields(declared map[string]bool, of string, s *ast.StructType) {
	for _, field := range s.Fields.List {
		for _, name := range field.Names {
			declared[of+"."+name.Name] = true
		}
	}
}

// TestNamedTests checks that the tests that pages and comments name exist.
func TestNamedTests(t *testing.T) {
	tests, named := make(map[string]bool), pages(t)
	for _, s := range sources(t) {
		for name := range s.syntax.Scope.Objects {
			tests[name] = s.test() || tests[name]
		}
		for _, comment := range s.syntax.Comments {
			named[s.path] += comment.Text()
		}
	}
	n := 0
	for file, text := range named {
		for _, name := range regexp.MustCompile(`\b(Test|Fuzz)[A-Z]\w+`).FindAllString(text, -1) {
			if n++; !tests[name] && !strings.HasSuffix(file, "CHANGELOG.md") {
				t.Errorf("%s: there is no %s", file, name)
			}
		}
	}
	if n < 100 {
		t.Errorf("%d tests are named", n)
	}
}
