//go:build linux && vmhost

package main

import (
	"bytes"
	"flag"
	"os"
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

// TestInMachineB ends the machine without a word of its kernel's, unless tests
// are skipped, as in the boot after that.
func TestInMachineB(t *testing.T) {
	onlyInMachine(t)
	if flag.Lookup("test.skip").Value.String() == "" {
		time.Sleep(time.Second) // the output of the test before is on its way
		unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
	}
}

func TestInMachineC(t *testing.T) { onlyInMachine(t) }

// TestFaultIsNotAFailure: a machine that dies by itself is booted again for the
// tests that had not finished, loudly; one that failed before stays failed.
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

func count(out bytes.Buffer, what string) int { return strings.Count(out.String(), what) }
