package abi

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/internal/abi/gen/headers"
)

// TestGeneratedIsCurrent runs the generator and compares its output with the committed files.
func TestGeneratedIsCurrent(t *testing.T) {
	if os.Getenv("CI") == "" {
		t.Skip("make abi runs it")
	}
	if _, err := headers.Dir(); err != nil {
		missing(t, err)
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		missing(t, err)
	}
	readAll(t, "gen/*.*") // a change of these files invalidates the cached result
	dir := t.TempDir()
	if out, err := exec.Command("go", "run", "./gen", "-o", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if diff := cmp.Diff(readAll(t, filepath.Join(dir, "z*.go")), readAll(t, "z*.go")); diff != "" {
		t.Errorf("run `go generate ./internal/abi` (-generated +committed):\n%s", diff)
	}
}

func readAll(t *testing.T, pattern string) map[string]string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts[filepath.Base(name)] = string(text)
	}
	return texts
}
