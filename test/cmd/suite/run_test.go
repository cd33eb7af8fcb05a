//go:build linux

package main

import (
	"bytes"
	"os"
	"strings"
	"syscall"
	"testing"
)

// makefile stands in for the project's: lint passes, unit prints what go test
// does, rig fails without a test, and vm says what it was given.
const makefile = `
lint:
	@echo vetted
unit:
	@echo '{"Action":"pass","Package":"p","Test":"TestA"}'
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
	code, out, errs := inMake(t, "-n", "2", "-hogs", "1", "-shuffle", "-flags", "-run Dial", "lint", "unit", "vm-6.1")
	if code != 0 || errs != "" {
		t.Errorf("code %d, stderr %q", code, errs)
	}
	for _, want := range []string{"== run 2 of 2, 1 hogs\n", "ok unit", "\nunit    ok", "vm-6.1 skipped 1: 6.1 -json -count=1 -run Dial -shuffle on []\n",
		"\n0 kinds of failure, 0 machine faults\n", "\n2 passed, 0 failed, 2 skipped\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
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

// A guest that waits most of its time runs beside two other rows: here those end only
// when it has begun.
func TestRowsThatWait(t *testing.T) {
	const together = `
lint unit:
	@cat fifo.$@
vm:
	@echo > fifo.lint; echo > fifo.unit
`
	t.Chdir(t.TempDir())
	for name, make := range map[string]func(string) error{
		"Makefile":  func(name string) error { return os.WriteFile(name, []byte(together), 0o666) },
		"fifo.lint": mkfifo, "fifo.unit": mkfifo,
	} {
		if err := make(name); err != nil {
			t.Fatal(err)
		}
	}
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"lint", "unit", "vm-uml-6.12"}, &out, &errs); code != 0 {
		t.Errorf("code %d: %s%s", code, &out, &errs)
	}
}

func mkfifo(name string) error { return syscall.Mkfifo(name, 0o666) }
