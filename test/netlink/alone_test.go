//go:build vm

package netlink

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/test/kit"
)

// TestExclusiveAsRdma wants the machine before any other test made a network
// namespace, as those of alone_test.go.
func TestExclusiveAsRdma(t *testing.T) {
	kit.NoFabric(t)
	kit.SetNetnsMode(t, netlinkrdma.NetnsExclusive) // when those of other tests are gone
	kit.SetNetnsMode(t, netlinkrdma.NetnsShared)
	done(t, "system set netns exclusive")
	t.Cleanup(func() { kit.SetNetnsMode(t, netlinkrdma.NetnsShared) })
	sameAsRDMA(t, "system")
	netns := otherNetns(t)
	for _, typ := range kit.LinkTypes() {
		kit.Dummy(t, typ+"alone")
		kit.Link(t, "gvalone"+typ, typ, typ+"alone")
	}
	for _, line := range []string{"dev", "-j dev", "link", "-jd link"} {
		sameAsRDMA(t, line)
		if got := kit.Sh(t, "ip netns exec gvother "+kit.RdmalinkPath(t)+" "+line); got != kit.Sh(t, "ip netns exec gvother rdma "+line) || strings.Contains(got, "gvalone") {
			t.Errorf("%s, there: %s", line, got)
		}
	}
	if kit.SinceLinux7() {
		movedAsRDMA(t, netns)
		return
	}
	// Devices of software can't be moved. The error comes after the namespace was found.
	for _, to := range []string{"gvother", netns.Name(), fmt.Sprint(os.Getpid())} {
		got := kit.Rdmalink(t, "dev set gvalonerxe netns "+to)
		if got.Code != 1 || !strings.HasPrefix(got.Err, "rdmalink: move gvalonerxe to ") || !strings.Contains(got.Err, "operation not supported") {
			t.Errorf("%s: %+v", to, got)
		}
		if newer := kit.NewerRDMA.Run(t, "dev set gvalonerxe netns "+to); newer.Code != got.Code {
			t.Errorf("%s: %+v", to, newer)
		}
	}
	sharedRefused(t)
}

func sharedRefused(t *testing.T) {
	t.Helper()
	got := kit.Rdmalink(t, "system set netns shared")
	if rdma := kit.DebianRDMA.Run(t, "system set netns shared"); got.Code != 1 || rdma.Code != 1 || !strings.Contains(got.Err, "other network namespaces exist") {
		t.Errorf("%+v, rdma %+v", got, rdma)
	}
}

// movedAsRDMA moves a device of rxe, as Linux 7.3 allows, by a name, a path and a process. It is one that
// nobody else uses, for it comes back without QP 1.
func movedAsRDMA(t *testing.T, netns *os.File) {
	kit.Dummy(t, "gvmoves")
	done(t, "link add gvmovesrxe type rxe netdev gvmoves")
	for _, to := range []string{"gvother", netns.Name()} {
		done(t, "dev set gvmovesrxe netns "+to)
		for _, line := range []string{"dev", "link"} {
			if there := kit.Sh(t, "ip netns exec gvother rdma "+line); strings.Contains(kit.Sh(t, "rdma "+line), "gvmovesrxe") || !strings.Contains(there, "gvmovesrxe") {
				t.Errorf("moved to %s: %s", to, there)
			}
			sameAsRDMA(t, line)
		}
		kit.Sh(t, fmt.Sprint("ip netns exec gvother ", kit.RdmalinkPath(t), " dev set gvmovesrxe netns ", os.Getpid()))
	}
	sharedRefused(t)
	done(t, "link delete gvmovesrxe")
}

// TestNldevMove moves devices to a namespace in exclusive mode and back, and
// loses the namespace. No driver of software lets its devices be moved, so a
// module of the rig adds the missing operation.
func TestNldevMove(t *testing.T) {
	kit.NeedSiw(t) // the module is not built either
	kit.NoFabric(t)
	var here netlinkrdma.Client
	kit.SetNetnsMode(t, netlinkrdma.NetnsExclusive)
	t.Cleanup(func() { kit.SetNetnsMode(t, netlinkrdma.NetnsShared) })
	names := []string{"gvmove1", "gvmove2"}
	for _, name := range names {
		kit.Dummy(t, name)
		kit.Link(t, name, "siw", name) // rxe makes no QP 1 when it comes back
	}
	kit.Sh(t, "modprobe gvmovable devices="+strings.Join(names, ","))
	initial := kit.Must(os.Open("/proc/self/ns/net"))(t)
	kit.CloseLater(t, initial)
	kit.Sh(t, "ip netns add gvmoved")
	netns := kit.Must(os.Open("/run/netns/gvmoved"))(t)
	there := netlinkrdma.Client{Kernel: netlinkrdma.Netns{File: netns}}
	for _, name := range names {
		before := kit.Must(here.DeviceByName(name))(t)
		change(t, here.MoveDevice(before.Index, netns))
		onlyIn(t, before, &there, &here)
		change(t, there.MoveDevice(before.Index, initial))
		onlyIn(t, before, &here, &there)
	}
	sameLinks(t, len(names), 0)
	rdmalinkDoes(t, "dev set "+names[0]+" netns gvmoved")
	kit.Sh(t, "rdma dev set "+names[1]+" netns gvmoved")
	sameLinks(t, 0, len(names))
	noThreadIn(t, netns)
	change(t, netns.Close())
	kit.Sh(t, "ip netns del gvmoved")
	kit.Until(t, "the devices back", func() bool { return len(kit.Must(here.Devices())(t)) == len(names) })
	for _, name := range names {
		if p := kit.Must(here.Port(kit.Must(here.DeviceByName(name))(t).Index, 1))(t); p.NetdevName != name {
			t.Errorf("%+v", p)
		}
	}
}

// onlyIn checks that a device is in one namespace, with its index, and not in
// the other.
func onlyIn(t *testing.T, d netlinkrdma.Device, in, out *netlinkrdma.Client) {
	t.Helper()
	if diff := cmp.Diff(d, kit.Must(in.Device(d.Index))(t)); diff != "" {
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
		rdma, ours := kit.Sh(t, in+"rdma link"), kit.Sh(t, in+kit.RdmalinkPath(t)+" link")
		if rdma != ours || strings.Count(ours, "\n") != want {
			t.Errorf("%s, want %d, rdma:\n%srdmalink:\n%s", in, want, rdma, ours)
		}
	}
}

func rdmalinkDoes(t *testing.T, line string) {
	t.Helper()
	if got := kit.Rdmalink(t, line); got != (kit.Output{}) {
		t.Errorf("%s: %+v", line, got)
	}
}

// The tests of this file need a machine on which no other test of this package has made a
// network namespace. Tests run in the order of their files, and this one is the first.

// TestNldevExclusive checks that devices belong to one namespace, and the soft ones to the first, wherever they are
// added, for because their drivers register them so. There they stay until a namespace that ends takes their network
// device along. Before Linux 7.3 no driver of software can take them from their users.
func TestNldevExclusive(t *testing.T) {
	kit.NoFabric(t)
	var here netlinkrdma.Client
	kit.SetNetnsMode(t, netlinkrdma.NetnsExclusive)
	t.Cleanup(func() { kit.SetNetnsMode(t, netlinkrdma.NetnsShared) })
	kit.Sh(t, "ip netns add gvdies")
	netns := kit.Must(os.Open("/run/netns/gvdies"))(t)
	there := netlinkrdma.Client{Kernel: netlinkrdma.Netns{File: netns}}
	for _, typ := range kit.LinkTypes() {
		kit.Sh(t, "ip -n gvdies link add gvdies"+typ+" type dummy")
		change(t, there.AddLink("gvdies"+typ, typ, "gvdies"+typ))
	}
	kit.Dummy(t, "gvalone")
	index := kit.Link(t, "gvrxealone", "rxe", "gvalone").Index
	for _, d := range kit.Must(here.Devices())(t) {
		if p := kit.Must(here.Port(d.Index, 1))(t); (p.NetdevName != "") != (d.Index == index) {
			t.Errorf("%+v", p)
		}
		if _, err := there.Device(d.Index); !errors.Is(err, netlinkrdma.ErrNotFound) {
			t.Errorf("%s, there: %v", d.Name, err)
		}
		if err := there.DeleteLink(d.Index); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s, from there: %v", d.Name, err)
		}
		if kit.SinceLinux7() {
			continue // movedAsRDMA moves one
		}
		if err := here.MoveDevice(d.Index, netns); !errors.Is(err, syscall.EOPNOTSUPP) {
			t.Errorf("%s: %v", d.Name, err)
		}
	}
	for in, want := range map[string]int{"": len(kit.LinkTypes()) + 1, "ip netns exec gvdies ": 0} {
		rdma, ours := kit.Sh(t, in+"rdma link"), kit.Sh(t, in+kit.RdmalinkPath(t)+" link")
		if rdma != ours || strings.Count(ours, "\n") != want {
			t.Errorf("%s, rdma:\n%srdmalink:\n%s", in, rdma, ours)
		}
	}
	noThreadIn(t, netns)
	change(t, netns.Close())
	kit.Sh(t, "ip netns del gvdies")
	kit.Until(t, "the others gone", func() bool { return len(kit.Must(here.Devices())(t)) == 1 })
}
