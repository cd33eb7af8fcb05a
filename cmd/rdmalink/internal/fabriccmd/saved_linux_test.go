package fabriccmd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/ib/mad"
	"github.com/goverbs/goverbs/ib/madtest"
)

// TestReplaceFile replaces files, and fails halfway.
func TestReplaceFile(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	text := func(s string) func(io.Writer) error {
		return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
	}
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("file", link); err != nil {
		t.Fatal(err)
	}
	check := func(want string) {
		t.Helper()
		b, err := os.ReadFile(path)
		if err != nil || string(b) != want {
			t.Errorf("%q, not %q: %v", b, want, err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
		if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
			t.Errorf("the link is %v, %v", info, err)
		}
		if all, err := os.ReadDir(dir); err != nil || len(all) != 2 {
			t.Errorf("the directory has %v, %v", all, err)
		}
	}
	full := errors.New("the disk is full")
	err := replaceFile(path, func(w io.Writer) error {
		return errors.Join(text(strings.Repeat("new", 10000))(w), full)
	})
	if !errors.Is(err, full) {
		t.Error(err)
	}
	check("old")
	if err := replaceFile(link, text("new")); err != nil {
		t.Error(err)
	}
	check("new")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := replaceFile(link, text("again")); err != nil {
		t.Error(err)
	}
	if err := os.Chmod(path, 0o600); err != nil { // a new file has the usual permissions
		t.Error(err)
	}
	check("again")
	if err := replaceFile("/dev/null", text("lost")); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat("/dev/null"); err != nil || info.Mode()&os.ModeDevice == 0 {
		t.Errorf("/dev/null is %v, %v", info, err)
	}
	if err := replaceFile(filepath.Join(dir, "none", "file"), text("")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestHostileSaved loads files that are no saved discoveries.
func TestHostileSaved(t *testing.T) {
	attach(t, tree(t), "h2")
	dir := t.TempDir()
	good := filepath.Join(dir, "good")
	if _, stderr, code := run(t, "", "discover", "-j", good); code != 0 {
		t.Fatalf("exit code %d, %s", code, stderr)
	}
	text, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	const invalid = "is not a discovery that rdmalink fabric discover --cache or -j has saved: "
	for name, test := range map[string]struct{ text, want string }{
		"empty":    {"", invalid + "EOF"},
		"cut":      {string(text[:len(text)/2]), invalid + "unexpected EOF"},
		"longer":   {string(text) + "{}", "data follows"},
		"object":   {"{}", "invalid GUID"},
		"topology": {"# Topology file\n", invalid},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, line := range []string{"discover --diff ", "discover --load-cache ", "links --load-cache "} {
			words := strings.Fields(line + path)
			if out, stderr, code := run(t, "", words[0], words[1:]...); code != 1 || out != "" || !strings.Contains(stderr, path) || !strings.Contains(stderr, test.want) {
				t.Errorf("%s%s: exit code %d, %s%s", line, name, code, out, stderr)
			}
		}
	}
	huge := filepath.Join(dir, "huge")
	if err := os.WriteFile(huge, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(huge, maxSaved+1); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := run(t, "", "links", "--load-cache", huge); code != 1 || !strings.Contains(stderr, "at most 1073741824") {
		t.Errorf("a huge file: exit code %d, %s", code, stderr)
	}
	for _, path := range []string{"/dev/zero", dir, filepath.Join(dir, "missing")} {
		if out, stderr, code := run(t, "", "links", "--load-cache", path); code != 1 || out != "" || !strings.Contains(stderr, path) {
			t.Errorf("%s: exit code %d, %s%s", path, code, out, stderr)
		}
	}
}

// TestOutputIsInput checks that discover refuses to overwrite a file that it reads with something else.
func TestOutputIsInput(t *testing.T) {
	attach(t, tree(t), "h2")
	dir := t.TempDir()
	saved, names := filepath.Join(dir, "saved"), filepath.Join(dir, "names")
	if err := os.WriteFile(names, []byte("# names\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := run(t, "", "discover", "--cache", saved); code != 0 {
		t.Fatal(stderr)
	}
	before, err := os.ReadFile(saved)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"--load-cache SAVED SAVED", "--diff SAVED SAVED", "--cache SAVED SAVED", "--node-name-map NAMES NAMES", "--node-name-map NAMES --cache NAMES",
	} {
		words := strings.Fields(strings.NewReplacer("SAVED", saved, "NAMES", names).Replace(line))
		if out, stderr, code := run(t, "", "discover", words...); code != 2 || out != "" || !strings.Contains(stderr, "write to another file") {
			t.Errorf("%s: exit code %d, %s%s", line, code, out, stderr)
		}
	}
	for path, want := range map[string]string{saved: string(before), names: "# names\n"} {
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s has changed: %.50q, %v", path, got, err)
		}
	}
	if _, stderr, code := run(t, "", "discover", "--diff", saved, "--cache", saved); code != 0 { // compare, then remember
		t.Error(stderr)
	}
}

// TestSavedScope prints a saved discovery: its time, the links of one node, and its problems.
func TestSavedScope(t *testing.T) {
	s := attach(t, tree(t), "h2")
	file := filepath.Join(t.TempDir(), "saved")
	s.Node("h3").SetFault(madtest.Fault{Silent: true})
	if _, stderr, code := run(t, "", "discover", "-t", "200", "--cache", file); code != 1 || !strings.Contains(stderr, "no response") {
		t.Fatalf("exit code %d, %s", code, stderr)
	}
	when := time.Date(2026, time.March, 5, 6, 7, 8, 0, time.Local)
	if err := os.Chtimes(file, when, when); err != nil {
		t.Fatal(err)
	}
	out, stderr, code := run(t, "", "discover", "--load-cache", file)
	if code != 1 || !strings.Contains(out, "generated on Thu Mar  5 06:07:08 2026") || !strings.Contains(stderr, "no response") {
		t.Errorf("exit code %d, %.100s, %s", code, out, stderr)
	}
	leaf := guid(s.Node("leaf2").Port(0).GUID())
	out, _, _ = run(t, "", "links", "--load-cache", file, "-G", leaf)
	if !strings.Contains(out, "leaf2:") || strings.Contains(out, "leaf1:") {
		t.Errorf("the links of leaf2: %s", out)
	}
	for _, test := range []struct {
		args, want string
		code       int
	}{{"-G 0x77", "has no port with GUID 0x0000000000000077", 1}, {"-G x", "invalid GUID", 2}, {"-D 0,1", "cannot be combined with a directed route", 2}} {
		if out, stderr, code := run(t, "", "links", append(strings.Fields(test.args), "--load-cache", file)...); code != test.code || out != "" || !strings.Contains(stderr, test.want) {
			t.Errorf("%s: exit code %d, %s%s", test.args, code, out, stderr)
		}
	}
	// An incomplete discovery does not replace a complete one.
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.Node("leaf2").SetFault(madtest.Fault{Alter: func(request, response mad.MAD) mad.MAD {
		cancel()
		return nil
	}})
	var stdout, notes bytes.Buffer
	tool := &cli.Tool{Output: cli.Output{Stdout: &stdout, Stderr: &notes}}
	code = tool.Run(ctx, cli.Command{Names: []string{"rdmalink"}, Sub: []cli.Command{Command()}}, []string{"fabric", "discover", "--cache", file})
	if code != 1 || !strings.Contains(notes.String(), file+" was not written, because the discovery is incomplete") {
		t.Errorf("exit code %d, %s", code, notes.String())
	}
	if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
		t.Errorf("a failed discovery changed the file: %v", err)
	}
}
