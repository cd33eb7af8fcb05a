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

// TestReadmeCode holds the READMEs to code that is compiled and run: each of their Go blocks stands verbatim in a Go file.
func TestReadmeCode(t *testing.T) {
	text := ""
	for _, page := range []string{"README.md", "README.zh.md"} {
		readme, err := os.ReadFile(filepath.Join(top, page))
		if err != nil {
			t.Fatal(err)
		}
		text += string(readme)
	}
	code := allGo(t)
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(text, -1)
	if len(blocks) < 2 {
		t.Fatalf("%d Go blocks", len(blocks))
	}
	for _, b := range blocks {
		if !strings.Contains(code, b[1]) {
			t.Errorf("not in any Go file of the module:\n%s", b[1])
		}
	}
}

// TestWorkflow checks that docs/testing.md shows the jobs of the example's workflow.
func TestWorkflow(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(top, "docs/testing.md"))
	if err != nil {
		t.Fatal(err)
	}
	workflow, err := os.ReadFile(filepath.Join(top, "examples/kv/github.yml"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) != 3 {
		t.Fatalf("%d blocks", len(blocks))
	}
	for _, b := range blocks {
		if !strings.Contains(string(workflow), b[1]) {
			t.Errorf("not in examples/kv/github.yml:\n%s", b[1])
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
