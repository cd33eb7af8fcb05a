//go:build vm

package tool

import (
	"os/exec"
	"testing"

	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/test/kit"
)

// TestDoctorExclusive checks that the doctor says where the devices are.
func TestDoctorExclusive(t *testing.T) {
	kit.NoFabric(t)
	kit.NoRxeFabric(t)
	kit.SetNetnsMode(t, netlinkrdma.NetnsExclusive)
	t.Cleanup(func() { kit.SetNetnsMode(t, netlinkrdma.NetnsShared) })
	kit.Dummy(t, "docalone", "10.90.3.1/24")
	kit.Link(t, "gvdocalone", "rxe", "docalone")
	ill(t, doctor(t))
	kit.Sh(t, "ip netns add gvdocelse")
	t.Cleanup(func() { kit.Sh(t, "ip netns del gvdocelse") })
	ill(t, exec.Command("ip", append([]string{"netns", "exec", "gvdocelse"}, doctor(t).Args...)...),
		symptom{"devices", "there is no RDMA device in this network namespace", "move one here"})
}
