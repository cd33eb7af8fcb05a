//go:build vm

package test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/netlinkrdma"
)

// What is in this file wants the machine before any other test made a network
// namespace; tests run in the order of their files.

// TestNldevExclusive: devices belong to one namespace, and the soft ones to the
// first, wherever they are added, for so their drivers register them. There they
// stay, for the drivers can't take them from their users, until a namespace that
// ends takes their network device along.
func TestNldevExclusive(t *testing.T) {
	noFabric(t)
	var here netlinkrdma.Client
	setNetnsMode(t, netlinkrdma.NetnsExclusive)
	t.Cleanup(func() { setNetnsMode(t, netlinkrdma.NetnsShared) })
	sh(t, "ip netns add gvdies")
	netns := must(os.Open("/run/netns/gvdies"))(t)
	there := netlinkrdma.Client{Kernel: netlinkrdma.Netns{File: netns}}
	for _, typ := range linkTypes() {
		sh(t, "ip -n gvdies link add gvdies"+typ+" type dummy")
		change(t, there.AddLink("gvdies"+typ, typ, "gvdies"+typ))
	}
	dummy(t, "gvalone")
	index := link(t, "gvrxealone", "rxe", "gvalone").Index
	for _, d := range must(here.Devices())(t) {
		if p := must(here.Port(d.Index, 1))(t); (p.NetdevName != "") != (d.Index == index) {
			t.Errorf("%+v", p)
		}
		if _, err := there.Device(d.Index); !errors.Is(err, netlinkrdma.ErrNotFound) {
			t.Errorf("%s, there: %v", d.Name, err)
		}
		if err := there.DeleteLink(d.Index); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s, from there: %v", d.Name, err)
		}
		if err := here.MoveDevice(d.Index, netns); !errors.Is(err, syscall.EOPNOTSUPP) {
			t.Errorf("%s: %v", d.Name, err)
		}
	}
	for in, want := range map[string]int{"": len(linkTypes()) + 1, "ip netns exec gvdies ": 0} {
		rdma, ours := sh(t, in+"rdma link"), sh(t, in+rdmalinkPath(t)+" link")
		if rdma != ours || strings.Count(ours, "\n") != want {
			t.Errorf("%s, rdma:\n%srdmalink:\n%s", in, rdma, ours)
		}
	}
	noThreadIn(t, netns)
	change(t, netns.Close())
	sh(t, "ip netns del gvdies")
	until(t, "the others gone", func() bool { return len(must(here.Devices())(t)) == 1 })
}

// TestDoctorExclusive: the doctor says where the devices are.
func TestDoctorExclusive(t *testing.T) {
	noFabric(t)
	noRxeFabric(t)
	setNetnsMode(t, netlinkrdma.NetnsExclusive)
	t.Cleanup(func() { setNetnsMode(t, netlinkrdma.NetnsShared) })
	dummy(t, "docalone", "10.90.3.1/24")
	link(t, "gvdocalone", "rxe", "docalone")
	ill(t, doctor(t))
	sh(t, "ip netns add gvdocelse")
	t.Cleanup(func() { sh(t, "ip netns del gvdocelse") })
	ill(t, exec.Command("ip", append([]string{"netns", "exec", "gvdocelse"}, doctor(t).Args...)...),
		symptom{"devices", "there is no RDMA device in this network namespace", "move one here"})
}

// setNetnsMode waits for namespaces that are on their way out.
func setNetnsMode(t *testing.T, mode netlinkrdma.NetnsMode) {
	t.Helper()
	var c netlinkrdma.Client
	until(t, "without other namespaces", func() bool {
		err := c.SetNetnsMode(mode)
		if err != nil && !errors.Is(err, syscall.EBUSY) {
			t.Fatal(err)
		}
		return err == nil
	})
	if s := must(c.System())(t); s.NetnsMode != mode {
		t.Errorf("%+v, want %v", s, mode)
	}
}
