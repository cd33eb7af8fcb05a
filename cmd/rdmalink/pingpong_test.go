package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPingpongLine is about the command line as a whole; its options are package
// pingpong's.
func TestPingpongLine(t *testing.T) {
	tool, _, nets := machine()
	want := result{Code: 2, Err: "rdmalink: -P is for memory that is paged in on demand: -o\n" +
		"Usage: rdmalink pingpong rc [OPTIONS] [HOST] (rdmalink pingpong rc -h tells more)\n"}
	if diff := cmp.Diff(want, tool.runLine("pingpong rc -P", nets)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestPingpongHelp: -h may stand anywhere.
func TestPingpongHelp(t *testing.T) {
	for _, kind := range []string{"rc", "uc", "ud", "srq"} {
		tool, _, nets := machine()
		want := tool.runLine("pingpong "+kind+" -h", nets)
		tool, _, nets = machine()
		got := tool.runLine("pingpong "+kind+" -p 1 --help", nets)
		if got.Code != 0 || cmp.Diff(want, got) != "" || !strings.Contains(got.Out, "--ib-dev") {
			t.Errorf("%+v", got)
		}
	}
}
