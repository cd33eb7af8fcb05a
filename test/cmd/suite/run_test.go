//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// makefile stands in for the project's: lint passes, unit prints what go test does, rig fails without a test, vm prints
// its arguments, of peers and vmlong a test fails the first time, of arm64 a test ends the program the first time, of abi one
// fails always, and of fabric four.
const makefile = `
lint:
	@echo vetted
unit:
	@echo '{"Action":"pass","Package":"p","Test":"TestA","Elapsed":1.5}'
peers:
	@if mkdir seldom 2>/dev/null; then echo '{"Action":"output","Package":"p","Test":"TestSeldom","Output":"    seldom_test.go:1: first\n"}'; \
		echo '{"Action":"fail","Package":"p","Test":"TestSeldom"}'; exit 1; \
	else echo '{"Action":"pass","Package":"p","Test":"TestSeldom"}'; fi
abi:
	@echo '{"Action":"fail","Package":"p/q","Test":"TestA/x"}'; echo '{"Action":"fail","Package":"p/q","Test":"TestA"}'; exit 1
fabric:
	@for t in A B C D; do echo '{"Action":"fail","Package":"p","Test":"Test'$$t'"}'; done; exit 1
arm64:
	@if mkdir ended 2>/dev/null; then echo '{"Action":"output","Package":"p","Test":"TestDies","Output":"panic: once"}'; \
		echo '{"Action":"fail","Package":"p","Test":"TestDies"}'; exit 1; fi
	@echo '{"Action":"output","Package":"p","Test":"TestK","Output":"    k_test.go:1: $(TESTFLAGS)"}'
	@echo '{"Action":"skip","Package":"p","Test":"TestK"}'
vmlong:
	@if mkdir seldom 2>/dev/null; then echo '{"Action":"pass","Package":"p","Test":"TestB"}'; \
		echo '{"Action":"fail","Package":"p","Test":"TestA/x"}'; echo '{"Action":"fail","Package":"p","Test":"TestA"}'; exit 1; \
	else test "$(TESTFLAGS)" = "-json -run '^(TestA)$$'" && echo '{"Action":"pass","Package":"p","Test":"TestA"}'; fi
rig:
	@echo no emulator >&2; exit 1
vm:
	@echo '{"Action":"output","Package":"p","Test":"TestK","Output":"    k_test.go:1: $(KERNELS) $(TESTFLAGS) [$(READY)]\n"}'
	@echo '{"Action":"skip","Package":"p","Test":"TestK"}'
`

// inMake runs the suite where that Makefile is.
func inMake(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("Makefile", []byte(makefile), 0o666); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	code = run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestRunPasses(t *testing.T) {
	t.Setenv("CI", "")
	code, out, errs := inMake(t, "-hogs", "1", "-shuffle", "-flags", "-run Dial", "lint", "unit", "vm-6.1")
	if code != 0 || errs != "" {
		t.Errorf("code %d, stderr %q", code, errs)
	}
	for _, want := range []string{"ok unit", "\nunit    ok", "  A 1.5\n", "vm-6.1 skipped 1: 6.1 -json -run Dial -shuffle on []\n", "\n1 passed, 0 failed, 1 skipped\nok in "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
}

// TestFresh checks that CI takes no result from an earlier run.
func TestFresh(t *testing.T) {
	t.Setenv("CI", "true")
	cache := t.TempDir()
	t.Setenv("GOCACHE", cache)
	begin := time.Now().UnixNano()
	_, _, errs := inMake(t, "unit")
	text, err := os.ReadFile(filepath.Join(cache, "testexpire.txt"))
	if expired, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err != nil || expired < begin || errs != "" {
		t.Errorf("%q, %v, %s", text, err, errs)
	}
}

// TestAgain checks that a row in which one test fails runs a second time, and the table names the test; and that a row
// fails if the test fails again, many tests fail, or the command fails without a test. Of a row without a cache only the failed
// tests run again, unless the program died.
func TestAgain(t *testing.T) {
	code, out, _ := inMake(t, "peers")
	if code != 0 {
		t.Errorf("code %d", code)
	}
	for _, want := range []string{"seldom_test.go:1: first", "   peers        runs again\n", "\npeers  ok, 2nd run  ", "\npeers failed in the first run: p TestSeldom\n", "\n1 passed, 0 failed, 0 skipped\nok in "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	for target, want := range map[string]string{"vmlong": "\n2 passed, 0 failed, 0 skipped\nok in ", "arm64": "skipped 1: -json\n"} {
		if code, out, _ := inMake(t, target); code != 0 || !strings.Contains(out, want) {
			t.Errorf("%s: code %d, no %q:\n%s", target, code, want, out)
		}
	}
	for target, runs := range map[string]int{"abi": 2, "fabric": 1, "rig": 1} {
		code, out, _ := inMake(t, target)
		if code != 1 || strings.Contains(out, "ok,") || strings.Count(out, "FAIL "+target+" after") != runs {
			t.Errorf("%s: code %d, want %d runs:\n%s", target, code, runs, out)
		}
	}
}

// TestStress checks that every run of a row appends a line, and the summary counts those of earlier runs too.
func TestStress(t *testing.T) {
	before := `{"Time":"2026-01-02T03:04:05Z","Row":"rig","Seconds":7200,"Failed":["exit status 2"],"Faults":1}` + "\n"
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"Makefile": makefile, "file": before} {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{"-for", "3s", "-file", "file", "rig", "unit"}, &out, &errs)
	text, err := os.ReadFile("file")
	if code != 1 || err != nil || errs.Len() > 0 {
		t.Fatalf("code %d, %v, %s", code, err, &errs)
	}
	rigs, units := strings.Count(string(text), `"Row":"rig"`), strings.Count(string(text), `"Row":"unit"`)
	if rigs < 2 || units < 1 || !strings.HasPrefix(string(text), before) {
		t.Errorf("the file:\n%s", text)
	}
	for _, want := range []string{"== round 1, 0 busy loops\n", "file: since 2026-01-02T03:04:05Z ", " in 2h0m", " 1 kinds of failure, 1 machine faults\n",
		fmt.Sprintf("\n%d of %d  rig  exit status 2\n", rigs, rigs)} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, &out)
		}
	}
}

func TestRunFails(t *testing.T) {
	code, out, _ := inMake(t, "unit", "rig")
	if code != 1 {
		t.Errorf("code %d", code)
	}
	for _, want := range []string{"FAIL rig after", "no emulator", "rig   FAIL", "bin/logs/rig.1.log"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	if text, err := os.ReadFile("bin/logs/rig.1.log"); err != nil || !strings.Contains(string(text), "no emulator") {
		t.Errorf("the log: %q, %v", text, err)
	}
}

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		want string
	}{{"-h", 0, "usage: suite"}, {"-frob", 2, "-frob"}, {"vm-5.10", 2, `no row "vm-5.10"`}} {
		if code, _, errs := inMake(t, c.args); code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("%s: code %d, want %d; stderr %q", c.args, code, c.code, errs)
		}
	}
}
