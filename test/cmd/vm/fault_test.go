//go:build linux && vmhost

package main

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/test/rig"
)

// inMachine names the variable with which TestFaultIsNotAFailure runs this binary
// in the guest, where three more tests do something.
const inMachine = "GOVERBS_FAULT"

func onlyInMachine(t *testing.T) {
	if os.Getenv(inMachine) == "" {
		t.Skip("runs in the guest of TestFaultIsNotAFailure")
	}
}

func TestInMachineA(t *testing.T) {
	onlyInMachine(t)
	if os.Getenv(inMachine) == "fail" {
		t.Error("fails")
	}
}

// TestInMachineB ends the machine without a report of its kernel, unless TestInMachineA is left
// out, as in the boot after that.
func TestInMachineB(t *testing.T) {
	onlyInMachine(t)
	if flag.Lookup("test.skip").Value.String() == "" && flag.Lookup("test.run").Value.String() != "^(TestInMachineB|TestInMachineC)$" {
		time.Sleep(time.Second) // the output of the test before is on its way
		unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
	}
}

func TestInMachineC(t *testing.T) { onlyInMachine(t) }

// TestFaultIsNotAFailure checks that a machine that dies by itself is booted again for the tests that had not finished,
// loudly; one that failed before stays failed.
func TestFaultIsNotAFailure(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[string]int{"pass": 0, "fail": 1} {
		var out, errs bytes.Buffer
		code := run(t.Context(), []string{"run", "--", "env", inMachine + "=" + mode, exe, "-test.v=true", "-test.run=^TestInMachine"}, &out, &errs)
		if code != want {
			t.Errorf("%s: code %d, want %d; stderr %s", mode, code, want, &errs)
		}
		if a, b, c := count(out, "--- PASS: TestInMachineA")+count(out, "--- FAIL: TestInMachineA"),
			count(out, "--- PASS: TestInMachineB"), count(out, "--- PASS: TestInMachineC"); a != 1 || b != 1 || c != 1 {
			t.Errorf("%s: ended %d, %d, %d times, want once each:\n%s", mode, a, b, c, &out)
		}
		if !strings.Contains(errs.String(), rig.FaultMark) || !strings.Contains(errs.String(), "1 tests had finished; booting again") {
			t.Errorf("%s: stderr %s", mode, &errs)
		}
	}
}

// TestTestGuests checks that vm test boots again for the tests that a machine took with it, and takes the results from
// its cache the next time.
func TestTestGuests(t *testing.T) {
	t.Setenv(inMachine, "pass")
	vm, err := filepath.Abs("../../../bin/vm")
	if err != nil {
		t.Fatal(err)
	}
	test := func(flags ...string) (out, errs bytes.Buffer) {
		cmd := exec.CommandContext(t.Context(), vm, append(append([]string{"test", "-guests", "1", "-tags", "vmhost", "-run", "^TestInMachine"}, flags...), ".")...)
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v\n%s%s", err, &out, &errs)
		}
		return out, errs
	}
	stored := testInputs(t)
	out, errs := test("-v", "-fresh")
	for _, name := range []string{"A", "B", "C"} {
		if n := count(out, "--- PASS: TestInMachine"+name); n != 1 {
			t.Errorf("TestInMachine%s passed %d times:\n%s", name, n, &out)
		}
	}
	if n := strings.Count(errs.String(), rig.FaultMark); n != 1 {
		t.Errorf("%d machine faults, want 1:\n%s", n, &errs)
	}
	// The other rows of make test install packages and build programs meanwhile, and both are
	// inputs of a test. A run is compared only with one that had the same inputs.
	for range 5 {
		before := testInputs(t)
		out, errs = test("-fresh=false")
		if strings.Contains(out.String(), "(cached)") && errs.Len() == 0 {
			return
		}
		if now := testInputs(t); stored == before && before == now {
			t.Fatalf("the second run was not cached:\n%s%s", &out, &errs)
		}
		stored = before
	}
	t.Error("the inputs changed during each of five runs")
}

func testInputs(t *testing.T) string {
	t.Helper()
	k, err := rig.Open(rig.Series[0])
	if err != nil {
		t.Fatal(err)
	}
	sum, err := inputs(k)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

func count(out bytes.Buffer, what string) int { return strings.Count(out.String(), what) }
