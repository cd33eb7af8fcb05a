package cli

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestCheckOutput checks that an input is found by every path that leads to it.
func TestCheckOutput(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.WriteFile(path("in"), []byte("kept"), 0o600), os.WriteFile(path("other"), nil, 0o600),
		os.Link(path("in"), path("hard")), os.Symlink("in", path("soft")), os.Symlink(dir, path("dir")), os.Symlink("new", path("dangling"))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"in", "hard", "soft", "dir/in", "./in"} {
		var usage UsageError
		if err := CheckOutput(path(name), "", path("none"), path("in")); !errors.As(err, &usage) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"other", "new", "dangling", "dir"} { // a directory is refused when it is opened
		if err := CheckOutput(path(name), path("in"), path("other2"), path("new"), path("dir")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := CheckOutput(os.DevNull, os.DevNull); err != nil {
		t.Error(err)
	}
}
