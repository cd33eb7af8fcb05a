package main

import (
	"strings"
	"testing"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/perfcmd"
	"github.com/goverbs/goverbs/internal/perftest"
)

// TestPerfCommands: each program has its command, and help with its options.
func TestPerfCommands(t *testing.T) {
	tool, _, nets := machine()
	for v := perftest.Send; v <= perftest.Atomic; v++ {
		for _, latency := range []bool{true, false} {
			k := perfcmd.Kind{Verb: v, Latency: latency}
			r := tool.runLine("perf "+v.String()+" "+k.Name()+" -n 10 -h", nets)
			if r.Code != 0 || !strings.Contains(r.Out, k.Program()) || !strings.Contains(r.Out, "-n, --iters=N") || strings.Contains(r.Out, "--report_gbits") == latency {
				t.Errorf("%+v", r)
			}
		}
	}
}
