package house

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const top = "../.."

// TestReadmeCode holds the README to code that is compiled and run: each of its
// Go blocks stands verbatim in a Go file.
func TestReadmeCode(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(top, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	code := allGo(t)
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	if len(blocks) < 2 {
		t.Fatalf("README has %d Go blocks", len(blocks))
	}
	for _, b := range blocks {
		if !strings.Contains(code, b[1]) {
			t.Errorf("not in any Go file of the module:\n%s", b[1])
		}
	}
}

// TestReadmeLinks checks that what the documents point at is there.
func TestReadmeLinks(t *testing.T) {
	for _, doc := range []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "test/README.md"} {
		text, err := os.ReadFile(filepath.Join(top, doc))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, m := range regexp.MustCompile(`\]\(([^)#]+)\)`).FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(top, filepath.Dir(doc), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", doc, m[1], err)
			}
		}
	}
}

// TestLibrdmacmTests checks that the tests which docs/librdmacm.md names are there.
func TestLibrdmacmTests(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(top, "docs/librdmacm.md"))
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(string(text), -1)
	if len(names) < 20 {
		t.Fatalf("it names %d tests", len(names))
	}
	code := allGo(t)
	for _, m := range names {
		if !strings.Contains(code, "func "+m[1]+"(t *testing.T)") {
			t.Errorf("there is no %s", m[1])
		}
	}
}

func allGo(t *testing.T) string {
	var all strings.Builder
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := os.ReadFile(path)
		all.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
