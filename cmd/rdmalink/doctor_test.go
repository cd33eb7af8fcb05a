package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDoctorLine is about the command line and the exit code; what is found is
// package doctor's.
func TestDoctorLine(t *testing.T) {
	for line, want := range map[string]result{
		"doctor siw9":       {Code: 1, Err: "rdmalink: no such RDMA device: \"siw9\" (there are: siw0, mlx4_0)\n"},
		"doctor --selftest": {Code: 2, Err: "rdmalink: --selftest needs the device: doctor --selftest DEV\nUsage: rdmalink doctor [DEV] (rdmalink doctor -h tells more)\n"},
		"doctor siw0 x":     {Code: 2, Err: "rdmalink: \"x\" is one word too many\nUsage: rdmalink doctor [DEV] (rdmalink doctor -h tells more)\n"},
	} {
		tool, _, nets := informed()
		if diff := cmp.Diff(want, tool.runLine(line, nets)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
}
