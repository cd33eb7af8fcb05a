package main

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/rdmatest"
)

// TestPage runs the tests that the table of docs/second-hour.md names, on all kinds of devices,
// and checks that the table has all tests of faults_test.go.
func TestPage(t *testing.T) {
	const child = "GOVERBS_TEST_PAGE"
	if os.Getenv(child) != "" {
		t.Skip("this is the page's command")
	}
	var names []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(Test\\w+)` \\|").FindAllStringSubmatch(text(t, "../../docs/second-hour.md"), -1) {
		names = append(names, m[1])
	}
	var faults []string
	for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(text(t, "faults_test.go"), -1) {
		faults = append(faults, m[1])
	}
	if !slices.Equal(names, faults) {
		t.Errorf("the table has %v, faults_test.go %v", names, faults)
	}
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.v")
	c.Env = append(os.Environ(), child+"=1")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for _, name := range names {
		for _, kind := range rdmatest.Kinds {
			if !strings.Contains(string(out), "--- PASS: "+name+"/"+kind.String()+" ") {
				t.Errorf("%s does not run on %s", name, kind)
			}
		}
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
