//go:build vm

package netlink

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/test/kit"
)

// TestResourceAsIproute2 runs rdma and rdmalink on the same objects, of the
// kernel, of this process and of two ends of C's rping, and compares bytes.
func TestResourceAsIproute2(t *testing.T) {
	kinds := []string{"qp", "cm_id", "cq", "mr", "pd", "ctx", "srq"}
	for _, kind := range kit.FewElsewhere(kinds, 2) {
		sameAsRDMA(t, "res show "+kind) // with no link, or those of other tests
		sameAsRDMA(t, "-j res show "+kind)
	}
	links := resourceState(t)
	for i, kind := range append(kinds, "") {
		flags := []string{"-jpdd"}
		if kit.OnKernel("6.12") { // it is the programs that print
			flags = append(flags, "", "-dd")
			if i == 0 {
				flags = append(flags, "-d", "-p", "-j", "-jp")
			}
		}
		for _, f := range flags {
			sameAsRDMA(t, f+" res show "+kind)
		}
	}
	for _, line := range []string{"res", "r l c", "resource list srq", "res show frob link x", "-j res show " + links[0], "-r res show pd"} {
		sameAsRDMA(t, line)
	}
	for i, name := range kit.FewElsewhere(links, 1) {
		lines := kit.FewElsewhere(resourceLines(t, name), 8)
		if i > 0 {
			lines = lines[:12] // a filter does not depend on the driver
		}
		for _, line := range lines {
			sameAsDebians(t, line)
		}
	}
	// The checkout may lie in a home that nobody may look into.
	kit.Sh(t, "install -D -m 755 "+kit.RdmalinkPath(t)+" /tmp/everybodys/rdmalink")
	t.Cleanup(func() { kit.Sh(t, "rm -r /tmp/everybodys") })
	for _, line := range []string{"res show mr", "-j res show pd", "-jp res show qp"} {
		unprivileged := func(program string) kit.Output {
			return kit.RunCommand(t, kit.Nobody(exec.Command(program, strings.Fields(line)...)))
		}
		if diff := cmp.Diff(unprivileged("rdma"), unprivileged("/tmp/everybodys/rdmalink")); diff != "" {
			t.Errorf("%s, by nobody (-iproute2 +rdmalink):\n%s", line, diff)
		}
	}
	t.Run("elsewhere", func(t *testing.T) {
		kit.NewNetns(t) // in shared mode devices and their objects are seen from everywhere
		for _, kind := range kit.FewElsewhere(kinds, 2) {
			sameAsRDMA(t, "-j res show "+kind)
		}
	})
}

// resourceLines are filters that pick some of the objects of a link.
func resourceLines(t *testing.T, name string) []string {
	s := resourceNumbers(t, name)
	lines := []string{
		"res show qp link " + name, "res show qp link %s/", "res show qp link %s/1", "res show qp link %s/-", "res show cm_id link %s/1",
		"res show cm_id link %s/-", "res show cq dev %s", "res show mr dev %s", "res show pd dev %s", "res show ctx dev %s", "res show srq dev %s",
		"res show qp link %s state rts", "res show qp type RC,ud", "res show qp state RTS,INIT,reset type rc", "res show cm_id state LISTEN",
		"res show cm_id ps tcp qp-type rc", "res show cm_id src-addr " + s.addr, "res show cm_id dst-port 7174",
		"res show cm_id src-port 7000-8000 dst-addr " + s.addr,
		"res show qp link nosuch", "res show cq dev nosuch",
		fmt.Sprintf("res show qp pid %d", s.pid), fmt.Sprintf("res show mr pid %d,%d", s.pid, s.pid+1), fmt.Sprintf("res show cm_id pid %d", s.pid),
		fmt.Sprintf("res show qp lqpn %d", s.lqpn), fmt.Sprintf("res show qp link %s/1 lqpn %d", name, s.lqpn), fmt.Sprintf("res show qp rqpn 0-%d", s.lqpn+3),
		fmt.Sprintf("res show qp lqpn %d-%d,1", s.lqpn, s.lqpn+2), fmt.Sprintf("res show qp pdn %d", s.pdn), "res show qp lqpn 16777215", "res show qp link %s/1 lqpn 1",
		fmt.Sprintf("res show cq dev %s cqn %d", name, s.cqn), fmt.Sprintf("res show cq ctxn %d", s.ctxn), "res show cq users 1-1000",
		fmt.Sprintf("res show mr dev %s mrn %d", name, s.mrn), fmt.Sprintf("res show mr mrlen %d", s.mrlen), "res show mr mrlen 0-63",
		fmt.Sprintf("res show pd dev %s pdn %d", name, s.pdn), fmt.Sprintf("res show ctx dev %s ctxn %d", name, s.ctxn), "res show cq dev %s cqn 4000000",
		fmt.Sprintf("res show cm_id link %s/1 cm-idn %d", name, s.cmidn),
	}
	for i, line := range lines {
		lines[i] = strings.ReplaceAll(line, "%s", name)
	}
	return lines
}
