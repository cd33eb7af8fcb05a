package house

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/internal/pagetest"
)

// translated maps the pages that exist in both languages to the Chinese ones.
func translated(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{"README.md": "README.zh.md", "docs/glossary.md": "docs/zh/glossary.md",
		"docs/first-hour.md": "docs/zh/first-hour.md", "docs/second-hour.md": "docs/zh/second-hour.md", "docs/card.md": "docs/zh/card.md"}
	files, err := filepath.Glob(filepath.Join(top, "docs/concepts/*.md"))
	if err != nil || len(files) < 16 {
		t.Fatal(len(files), err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		all["docs/concepts/"+name] = "docs/zh/concepts/" + name
	}
	return all
}

var (
	levels  = regexp.MustCompile(`(?m)^(#+) `)
	fenced  = regexp.MustCompile("(?ms)^```\\w*\n.*?^```$")
	columns = regexp.MustCompile(`(?m)^\|.*$`)
	// specified matches references to specifications: RFC 5040, 5.5; IBA 9.7.5; annex A17.
	specified = regexp.MustCompile(`RFC \d+([,，、] ?\d+(\.\d+)*)?|IBA \d+(\.\d+)*|A1\d`)
)

// shape has the parts of a page that are the same in any language: the levels of its headings,
// its blocks of code and their sources, and the rows of its tables.
func shape(t *testing.T, file string) map[string][]string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(top, file))
	if err != nil {
		t.Error(err)
	}
	text := string(b)
	prose := fenced.ReplaceAllString(text, "")
	all := map[string][]string{"programs": pagetest.Directives(text), "blocks": fenced.FindAllString(text, -1)}
	for _, m := range levels.FindAllStringSubmatch(prose, -1) {
		all["headings"] = append(all["headings"], m[1])
	}
	for _, row := range columns.FindAllString(prose, -1) {
		all["tables"] = append(all["tables"], strings.Repeat("|", strings.Count(row, "|")))
	}
	for _, m := range mdID.FindAllStringSubmatch(prose, -1) {
		all["anchors"] = append(all["anchors"], m[1])
	}
	all["tests"] = append(all["tests"], regexp.MustCompile("`Test\\w+`").FindAllString(prose, -1)...)
	slices.Sort(all["tests"])
	for _, place := range specified.FindAllString(strings.Join(strings.Fields(prose), " "), -1) {
		all["specifications"] = append(all["specifications"], strings.NewReplacer("，", ", ", "、", ", ").Replace(place))
	}
	slices.Sort(all["specifications"])
	return all
}

// TestChinese checks that pages in both languages have the same headings, programs, outputs, tables and
// anchors, and name the same tests and the same specifications.
func TestChinese(t *testing.T) {
	for english, chinese := range translated(t) {
		want, got := shape(t, english), shape(t, chinese)
		for what := range want {
			if !slices.Equal(want[what], got[what]) {
				t.Errorf("%s and %s differ in their %s:\n%q\n%q", english, chinese, what, want[what], got[what])
			}
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
