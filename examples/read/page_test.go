package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/rdmatest"
)

const page = "../../docs/first-hour.md"

// broken has the rows of the page's table: the change of main.go, and the error of fetch that
// the test then reports, on all devices and on siw.
var broken = []struct {
	change, sees string
	edits        []string // pairs
	all, siw     string
}{
	{"leave out `verbs.AccessRemoteRead`", "remote access error; over siw the text, since its kernel does not look at that right",
		[]string{"verbs.AccessLocalWrite|verbs.AccessRemoteRead", "verbs.AccessLocalWrite"}, remoteAccess, ""},
	{"`rkey+1` in place of `rkey`", "remote access error; over siw, whose peer ends the connection, work request flushed",
		[]string{"RKey: rkey}", "RKey: rkey+1}"}, remoteAccess, flushed},
	{"`int(size)+4096` bytes, in the SGE and in its own region", "the same: the peer's region ends before",
		[]string{"max(int(size), 1)", "max(int(size)+4096, 1)", "mr.SGE(0, int(size))", "mr.SGE(0, int(size)+4096)"}, remoteAccess, flushed},
	{"`OpRDMAWrite` in place of `OpRDMARead`", "remote access error, for nobody may write there; over siw success, since TCP has taken the data, and a text of zeros",
		[]string{"verbs.OpRDMARead", "verbs.OpRDMAWrite"}, remoteAccess, `"(\\x00){11}\\n", <nil>`},
	{"leave out `SendSignaled`", "nothing: it waits for a completion that does not come. End it with Ctrl-C",
		[]string{"Flags: verbs.SendSignaled,", ""}, waits, waits},
}

const (
	remoteAccess = `"", complete work request .*: remote access error`
	flushed      = `"", complete work request .*: work request flushed`
	waits        = `context deadline exceeded` // of the server, if it has not listened by then
)

// TestBroken runs the test with each change of the page's table in turn, and compares the
// client's errors with the page. A client that would wait forever is given a deadline.
func TestBroken(t *testing.T) {
	const child = "GOVERBS_TEST_BROKEN"
	if os.Getenv(child) != "" {
		t.Skip("this is a change of the page")
	}
	if testing.Short() {
		t.Skip("it builds the program five times")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip(err)
	}
	main, test := text(t, "main.go"), text(t, "main_test.go")
	rows := regexp.MustCompile(`(?m)^\| (.+) \| (.+) \| \[\w+\]\(concepts/`).FindAllStringSubmatch(text(t, page), -1)
	if len(rows) != len(broken) {
		t.Fatalf("%s has %d rows", page, len(rows))
	}
	for i, b := range broken {
		if rows[i][1] != b.change || rows[i][2] != b.sees {
			t.Errorf("%s has\n%s | %s\nand here is\n%s | %s", page, rows[i][1], rows[i][2], b.change, b.sees)
		}
		out := overlaid(t, child, map[string]string{
			"main.go":      edited(t, main, b.edits...),
			"main_test.go": deadline(t, test, b.all == waits),
		})
		for _, kind := range rdmatest.Kinds {
			want := b.all
			if kind == rdmatest.SIW {
				want = b.siw
			}
			_, said, _ := strings.Cut(out, "=== RUN   TestRead/"+kind.String()+"\n")
			said, _, _ = strings.Cut(said, "=== RUN")
			said, _, _ = strings.Cut(said, "--- ")
			if want == "" && said != "" || !regexp.MustCompile(want).MatchString(said) {
				t.Errorf("%s, %s: %q, want %q\n%s", b.change, kind, said, want, out)
			}
		}
	}
}

// edited replaces the first string of each pair by the second.
func edited(t *testing.T, source string, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(source, pairs[i]) {
			t.Fatalf("nothing says %s", pairs[i])
		}
		source = strings.ReplaceAll(source, pairs[i], pairs[i+1])
	}
	return source
}

func deadline(t *testing.T, test string, wanted bool) string {
	t.Helper()
	if !wanted {
		return test
	}
	return edited(t, test, "context.WithCancel(t.Context())", "context.WithTimeout(t.Context(), time.Second)", "\t\"testing\"\n", "\t\"testing\"\n\t\"time\"\n")
}

// overlaid runs the test with some files replaced, and returns its output.
func overlaid(t *testing.T, child string, files map[string]string) string {
	t.Helper()
	dir, replace := t.TempDir(), make(map[string]string)
	for name, text := range files {
		path, err := filepath.Abs(name)
		if err != nil {
			t.Fatal(err)
		}
		replace[path] = filepath.Join(dir, name)
		write(t, replace[path], []byte(text))
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	write(t, file, overlay)
	c := exec.CommandContext(t.Context(), "go", "test", "-v", "-count=1", "-run", "^TestRead$", "-overlay", file, ".")
	c.Env = append(os.Environ(), child+"=1")
	out, _ := c.CombinedOutput() // it must fail
	if !strings.Contains(string(out), "=== RUN   TestRead\n") {
		t.Fatalf("%s", out)
	}
	return string(out)
}

func write(t *testing.T, file string, b []byte) {
	t.Helper()
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func text(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
