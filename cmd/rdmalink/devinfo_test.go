package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host/hosttest"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
)

// TestDevinfoLine is about the command line; what is printed is package devinfo's.
func TestDevinfoLine(t *testing.T) {
	for line, want := range map[string]result{
		"devinfo siw9":   {Code: 1, Err: "rdmalink: no such RDMA device: \"siw9\" (there are: siw0, mlx4_0)\n"},
		"devinfo siw0 x": {Code: 2, Err: "rdmalink: \"x\" is one word too many\nUsage: rdmalink devinfo [DEV] (rdmalink devinfo -h tells more)\n"},
	} {
		tool, _, nets := informed()
		if diff := cmp.Diff(want, tool.runLine(line, nets)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
	tool, _, nets := informed()
	terse := tool.runLine("devinfo siw0", nets)
	tool, _, nets = informed()
	if got := tool.runLine("devinfo -v siw0", nets); got.Code != 0 || terse.Code != 0 || len(got.Out) < 2*len(terse.Out) {
		t.Errorf("%+v\n%+v", terse, got)
	}
}

// informed is a tool on the machine that hosttest makes.
func informed() (*tool, *nltest.Kernel, *hosttest.Netdevs) {
	m, kernel, nets := hosttest.Informed()
	return &tool{stdin: strings.NewReader(""), Machine: m}, kernel, nets
}
