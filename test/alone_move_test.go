//go:build vm

package test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/netlinkrdma"
)

// TestNldevMove moves devices to a namespace in exclusive mode and back, and
// loses the namespace. No driver of software lets its devices be moved, so a
// module of the rig adds the missing operation.
func TestNldevMove(t *testing.T) {
	needSiw(t) // the module is not built either
	noFabric(t)
	var here netlinkrdma.Client
	setNetnsMode(t, netlinkrdma.NetnsExclusive)
	t.Cleanup(func() { setNetnsMode(t, netlinkrdma.NetnsShared) })
	names := []string{"gvmove1", "gvmove2"}
	for _, name := range names {
		dummy(t, name)
		link(t, name, "siw", name) // rxe makes no QP 1 when it comes back
	}
	sh(t, "modprobe gvmovable devices="+strings.Join(names, ","))
	initial := must(os.Open("/proc/self/ns/net"))(t)
	closeLater(t, initial)
	sh(t, "ip netns add gvmoved")
	netns := must(os.Open("/run/netns/gvmoved"))(t)
	there := netlinkrdma.Client{Kernel: netlinkrdma.Netns{File: netns}}
	for _, name := range names {
		before := must(here.DeviceByName(name))(t)
		change(t, here.MoveDevice(before.Index, netns))
		onlyIn(t, before, &there, &here)
		change(t, there.MoveDevice(before.Index, initial))
		onlyIn(t, before, &here, &there)
	}
	sameLinks(t, len(names), 0)
	rdmalinkDoes(t, "dev set "+names[0]+" netns gvmoved")
	sh(t, "rdma dev set "+names[1]+" netns gvmoved")
	sameLinks(t, 0, len(names))
	noThreadIn(t, netns)
	change(t, netns.Close())
	sh(t, "ip netns del gvmoved")
	until(t, "the devices back", func() bool { return len(must(here.Devices())(t)) == len(names) })
	for _, name := range names {
		if p := must(here.Port(must(here.DeviceByName(name))(t).Index, 1))(t); p.NetdevName != name {
			t.Errorf("%+v", p)
		}
	}
}

// onlyIn checks that a device is in one namespace, with its index, and not in
// the other.
func onlyIn(t *testing.T, d netlinkrdma.Device, in, out *netlinkrdma.Client) {
	t.Helper()
	if diff := cmp.Diff(d, must(in.Device(d.Index))(t)); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
	if _, err := out.DeviceByName(d.Name); !errors.Is(err, netlinkrdma.ErrNotFound) {
		t.Error(err)
	}
}

// sameLinks compares what both tools list, here and there.
func sameLinks(t *testing.T, here, there int) {
	t.Helper()
	for in, want := range map[string]int{"": here, "ip netns exec gvmoved ": there} {
		rdma, ours := sh(t, in+"rdma link"), sh(t, in+rdmalinkPath(t)+" link")
		if rdma != ours || strings.Count(ours, "\n") != want {
			t.Errorf("%s, want %d, rdma:\n%srdmalink:\n%s", in, want, rdma, ours)
		}
	}
}

func rdmalinkDoes(t *testing.T, line string) {
	t.Helper()
	if got := rdmalink(t, line); got != (output{}) {
		t.Errorf("%s: %+v", line, got)
	}
}
