//go:build linux

package rig

import (
	"strings"
	"testing"
)

// TestBlame checks that a report that names a module under test is never the machine's fault.
func TestBlame(t *testing.T) {
	const (
		boot  = "[ 0.1] Linux version 6.12\n[ 2.0] siw: loading out-of-tree module taints kernel.\n"
		int3  = "[ 5.1] Oops: int3: 0000 [#1] PREEMPT SMP NOPTI\n"
		sched = "[ 5.2] RIP: 0010:sched_clock_cpu+0x5/0x20\n[ 5.3] Call Trace:\n[ 5.4]  update_rq_clock+0x2b/0x180\n"
		rxe   = "[ 5.5]  rxe_completer+0x11/0x20 [rdma_rxe]\n"
		core  = "[ 5.5]  ib_uverbs_write+0x11/0x20 [ib_uverbs]\n"
		iwcm  = "[ 5.5]  cm_work_handler+0x11/0x20 [iw_cm]\n"
		known = "[ 5.1] Oops: Oops: 0000 [#1] SMP NOPTI\n[ 5.2] RIP: 0010:rxe_sched_task+0x31/0xb0 [rdma_rxe]\n"
		crash = "[ 5.0] sysrq: Trigger a crash\n[ 5.1] Kernel panic - not syncing: sysrq triggered crash\n"
	)
	for name, c := range map[string]struct {
		console       string
		died, machine bool
		what          string
	}{
		"text patched":         {boot + int3 + sched, true, true, "int3"},
		"survived":             {boot + "[ 5.0] WARNING: CPU: 0 PID: 1 at kernel/sched/clock.c:1\n" + sched, false, true, "clock.c"},
		"in rxe":               {boot + int3 + sched + rxe, true, false, ""},
		"known":                {boot + known + rxe, true, true, "known fault of the kernel's rxe"},
		"known, survived":      {boot + known + rxe, false, false, ""},
		"in uverbs":            {boot + int3 + core, true, false, ""},
		"in iw_cm":             {boot + int3 + iwcm, true, false, ""},
		"silent":               {boot, true, true, "did not report why"},
		"nothing happened":     {boot, false, false, ""},
		"asked for":            {boot + crash, true, false, ""},
		"named before, not in": {boot + rxe + int3 + sched, true, true, "int3"},
		"long":                 {boot + int3 + strings.Repeat("[ 5.6] more\n", consoleKeep) + "x [siw]\n", true, false, ""},
		"long ago":             {boot + int3 + sched + strings.Repeat("[ 5.6] more\n", 2*consoleKeep), true, true, "int3"},
	} {
		var con console
		con.read(strings.NewReader(c.console))
		what, machine := con.blame(c.died)
		if machine != c.machine || machine && !strings.Contains(what, c.what) {
			t.Errorf("%s: %q, %v", name, what, machine)
		}
	}
}
