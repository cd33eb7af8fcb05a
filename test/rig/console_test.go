//go:build linux

package rig

import (
	"fmt"
	"strings"
	"testing"
)

func TestConsoleFaults(t *testing.T) {
	for line, want := range map[string]int{
		"[ 1.0] siw: loading out-of-tree module taints kernel.":                       0,
		"[ 1.0] WARNING: CPU: 0 PID: 1 at net/core/dev.c:1 f+0x1/0x2":                 1,
		"[ 1.0] WARNING: net/core/dev.c:1 at f+0x1/0x2, CPU#0: rping/77":              1,
		"[ 1.0] WARNING: Flushing system-wide workqueues will be prohibited soon.":    0,
		"[ 1.0] INFO: task rping:77 blocked in I/O wait for more than 120 seconds.":   1,
		"[ 1.0] BUG: kernel NULL pointer dereference, address: 0000000000000008":      1,
		"[ 1.0] Oops: 0000 [#1] PREEMPT SMP PTI":                                      1,
		"[ 1.0] watchdog: BUG: soft lockup - CPU#1 stuck for 26s!":                    1,
		"[ 1.0] INFO: task rping:77 blocked for more than 120 seconds.":               1,
		"[ 1.0] refcount_t: underflow; use-after-free.":                               1,
		"[ 1.0] amd_pstate: the _CPC object is not present in SBIOS or ACPI disabled": 0,
	} {
		var c console
		c.read(strings.NewReader(line + "\r\n"))
		if c.faults != want {
			t.Errorf("%q: %d faults, want %d", line, c.faults, want)
		}
	}
}

func TestConsoleKeepsTheEnd(t *testing.T) {
	var text strings.Builder
	for i := range 2 * consoleKeep {
		fmt.Fprintf(&text, "line %d\n", i)
	}
	var c console
	c.read(strings.NewReader(text.String() + "no newline"))
	if len(c.lines) != consoleKeep {
		t.Errorf("%d lines kept", len(c.lines))
	}
	if got, want := c.tail(2), "  | line 399\n  | no newline\n"; got != want {
		t.Errorf("tail %q, want %q", got, want)
	}
	if got := c.tail(1000); !strings.HasPrefix(got, "  | line 201\n") {
		t.Errorf("tail begins %.20q", got)
	}
}
