package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host/hosttest"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
)

// plainMachine is that machine without what rdma, or that of 6.1, is known to
// print otherwise (docs/rdma-differences.md).
func plainMachine() (*tool, *nltest.Kernel) {
	tool, kernel := resourceMachine()
	o := kernel.Objects[7]
	o.QP[2].Driver, o.QP[3].Subtype = nil, ""
	o.QP = o.QP[:4]
	o.CMID = o.CMID[:2]
	o.MR[0].IOVA = netlinkrdma.Opt[uint64]{}
	kernel.Objects[7] = o
	return tool, kernel
}

// anyComm is the name of an owner. rdma asks for that of process 7 of this
// machine, and 6.1 prints it from a buffer that is gone.
var anyComm = regexp.MustCompile(`comm (a reader|\S+) |,\s*"comm": ?"[^"]*"`)

// rdmaPollContexts are rdma's words, in the order of older kernels, and what they
// should be.
var rdmaPollContexts = strings.NewReplacer("UNBOUND_WORKQUEUE", "DIRECT", "WORKQUEUE", "UNBOUND_WORKQUEUE", "SOFTIRQ", "WORKQUEUE", "DIRECT", "SOFTIRQ")

// TestResourceAsIproute2 has rdma print the same, of objects such as no soft
// driver has too.
func TestResourceAsIproute2(t *testing.T) {
	r := newIproute2(t)
	var lines []string
	for _, kind := range []string{"", "mlx5_0", "qp", "cm_id", "cq", "mr", "pd", "ctx", "srq"} {
		for _, flags := range []string{"", "-d", "-j", "-jp"} {
			lines = append(lines, flags+" res show "+kind)
		}
	}
	lines = append(lines, "res show qp link mlx5_0/1", "res show qp link mlx5_0/-", "res show qp state rts,reset type rc,driver", "res show qp rqpn 18",
		"res show cm_id ps udp", "res show cm_id lqpn 17 qp-type rc", "res show cq users 2", "res show mr mrlen 4096-5000", "res show mr mrn 1",
		"res show pd pdn 2", "res show srq srqn 4", "res show srq lqpn 20-21,30", "res show srq type xrc", "res show ctx ctxn 1")
	for _, line := range lines {
		tool, kernel := plainMachine()
		want, failed := r.run(t, kernel, line)
		got := tool.runLine(line, &hosttest.Netdevs{})
		want, got.Out = rdmaPollContexts.Replace(anyComm.ReplaceAllString(want, "")), anyComm.ReplaceAllString(got.Out, "")
		if diff := cmp.Diff(want, got.Out); diff != "" || failed || got.Code != 0 || strings.TrimSpace(want) == "" {
			t.Errorf("%s, failed %t, exit code %d (-iproute2 +rdmalink):\n%s", line, failed, got.Code, diff)
		}
	}
}

// TestResourceDriverAsIproute2: numbers of a driver's own are right in rdma's
// text alone.
func TestResourceDriverAsIproute2(t *testing.T) {
	r := newIproute2(t)
	for _, line := range []string{"-dd res show qp lqpn 17", "-dd res show qp link mlx5_0/1"} {
		tool, kernel := resourceMachine()
		want, failed := r.run(t, kernel, line)
		got := tool.runLine(line, &hosttest.Netdevs{})
		want, got.Out = anyComm.ReplaceAllString(want, ""), anyComm.ReplaceAllString(got.Out, "")
		if diff := cmp.Diff(want, got.Out); diff != "" || failed || !strings.Contains(want, "drv_offset -9223372036854775808") {
			t.Errorf("%s, failed %t (-iproute2 +rdmalink):\n%s", line, failed, diff)
		}
	}
}

// TestResourceDriverLinesAsIproute2: rdma breaks the driver's part where it gets
// longer than a number of bytes.
func TestResourceDriverLinesAsIproute2(t *testing.T) {
	r := newIproute2(t)
	for length := 30; length <= 36; length++ { // two of 33 are 80 bytes
		tool, kernel := resourceMachine()
		one := netlinkrdma.DriverAttr{Name: strings.Repeat("x", length), Kind: netlinkrdma.DriverU32, Number: 1}
		kernel.Objects[7].QP[2].Driver = slices.Repeat([]netlinkrdma.DriverAttr{one}, 5)
		want, failed := r.run(t, kernel, "-dd res show qp lqpn 17")
		got := tool.runLine("-dd res show qp lqpn 17", &hosttest.Netdevs{})
		want, got.Out = anyComm.ReplaceAllString(want, ""), anyComm.ReplaceAllString(got.Out, "")
		if diff := cmp.Diff(want, got.Out); diff != "" || failed || strings.Count(want, "xx 1") != 5 {
			t.Errorf("%d letters, failed %t (-iproute2 +rdmalink):\n%s", length, failed, diff)
		}
	}
}
