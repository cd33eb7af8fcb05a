//go:build linux

package rig

import (
	"errors"
	"fmt"
	"regexp"
)

// MachineFault is an error of the emulated machine, not of what ran on it. A guest of two
// CPUs has two threads in QEMU, and now and then one of them runs on into an instruction
// that the other has just patched. The kernel then dies anywhere; its report, or its
// silence, distinguishes the fault from one of ours. Guests of one CPU, as all tests have, do not
// meet it.
type MachineFault struct {
	Release string // of the kernel
	What    string // how it showed
}

func (f *MachineFault) Error() string {
	return fmt.Sprintf("%s linux %s: %s", FaultMark, f.Release, f.What)
}

// FaultMark begins each line that reports a fault of the machine. Programs that sum
// up a run count these lines.
const FaultMark = "machine fault:"

// KnownFault stands in the text of a [MachineFault] that lies in a module under test.
const KnownFault = "a known fault of the kernel's rxe"

var errDied = errors.New("the guest died before it sent an exit code")

// underTest matches a function of a module that the tests drive. The kernel writes
// the module behind each function of it.
var underTest = regexp.MustCompile(`\[(ib_\w+|iw_cm|rdma_\w+|siw|gvmovable)\b`)

// knownBug matches where a kernel dies by a fault of its own that no program of ours may
// cause: Linux 7.2's rxe now and then sends for a queue pair whose tasks are gone.
var knownBug = regexp.MustCompile(`RIP: \d+:rxe_sched_task\+`)

// onPurpose matches a crash that was asked for.
var onPurpose = regexp.MustCompile(`sysrq`)

// blame reports whether the machine is to blame for its kernel's reports, or for
// an end without a report. A report that names a module under test is a failure:
// it may be our doing.
func (c *console) blame(died bool) (what string, machine bool) {
	if c.faults == 0 {
		return errDied.Error() + ", and its kernel did not report why", died
	}
	if c.known != "" && died {
		return KnownFault + ": " + c.known, true
	}
	if c.ours {
		return "", false
	}
	return c.report[0], true
}
