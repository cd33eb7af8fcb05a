//go:build vm

package test

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// gidLink is an rxe link on an interface of its own, whose addresses a test may
// change. Each address becomes a GID before the next is added: the kernel scans a
// new link beside the work that earlier addresses left, so that the order of
// addresses that were there before the link is open.
func gidLink(t *testing.T) (d *uverbs.Device, local string) {
	t.Helper()
	dummy(t, "rxegid0")
	netdev := must(net.InterfaceByName("rxegid0"))(t)
	local = linkLocal(netdev.HardwareAddr).String()
	link(t, "gvgid", "rxe", "rxegid0")
	d = must(uverbs.Open("gvgid"))(t)
	closeLater(t, d)
	gidsBecome(t, d, map[uint32]string{0: local})
	sh(t, "ip addr add 10.87.0.1/24 dev rxegid0")
	gidsBecome(t, d, map[uint32]string{0: local, 1: "10.87.0.1"})
	sh(t, "ip addr add fd87::1/64 dev rxegid0 nodad")
	gidsBecome(t, d, map[uint32]string{0: local, 1: "10.87.0.1", 2: "fd87::1"})
	return d, local
}

// gids are the addresses of a device's GIDs by index.
func gids(t *testing.T, d *uverbs.Device) map[uint32]string {
	t.Helper()
	all := make(map[uint32]string)
	for _, e := range must(d.GIDTable())(t) {
		all[e.Index] = e.GID.Addr().String()
	}
	return all
}

// gidsBecome waits for the kernel to make GIDs of addresses, which it does in the
// background.
func gidsBecome(t *testing.T, d *uverbs.Device, want map[uint32]string) {
	t.Helper()
	var diff string
	if !eventually(func() bool { diff = cmp.Diff(want, gids(t, d)); return diff == "" }) {
		t.Fatalf("(-want +got):\n%s", diff)
	}
}

// TestRxeGID compares the table with rdma-core's and each entry with the table,
// and has it follow the interface.
func TestRxeGID(t *testing.T) {
	d, local := gidLink(t)
	netdev := must(net.InterfaceByName("rxegid0"))(t)
	info := devinfo(t, "gvgid")
	for _, e := range must(d.GIDTable())(t) {
		if e.Type != verbs.GIDTypeRoCEv2 || e.Port != 1 || e.NetdevIndex != uint32(netdev.Index) {
			t.Errorf("%+v", e)
		}
		if theirs := info["GID[  "+string(rune('0'+e.Index))+"]"]; theirs != e.GID.String()+", RoCE v2" {
			t.Errorf("%v, ibv_devinfo says %s", e.GID, theirs)
		}
		if diff := cmp.Diff(&e, must(d.QueryGID(1, e.Index))(t)); diff != "" {
			t.Errorf("(-table +entry):\n%s", diff)
		}
	}
	for at, want := range map[[2]uint32]error{
		{1, 3}: syscall.ENODATA, {1, 1023}: syscall.ENODATA, // empty slots
		{1, 1024}: syscall.EINVAL, {0, 0}: syscall.EINVAL, {2, 0}: syscall.EINVAL, {1, 1 << 31}: syscall.EINVAL,
	} {
		if e, err := d.QueryGID(at[0], at[1]); !errors.Is(err, want) {
			t.Errorf("port %d index %d: %+v, %v, want %v", at[0], at[1], e, err, want)
		}
	}
	// A slot that became free is the next one's.
	sh(t, "ip addr del 10.87.0.1/24 dev rxegid0")
	gidsBecome(t, d, map[uint32]string{0: local, 2: "fd87::1"})
	sh(t, "ip addr add fd87::2/64 dev rxegid0 nodad")
	gidsBecome(t, d, map[uint32]string{0: local, 1: "fd87::2", 2: "fd87::1"})
	sh(t, "ip addr add 10.87.0.9/24 dev rxegid0")
	gidsBecome(t, d, map[uint32]string{0: local, 1: "fd87::2", 2: "fd87::1", 3: "10.87.0.9"})
}

// linkLocal is the link-local address that rxe makes of a hardware address.
func linkLocal(mac net.HardwareAddr) netip.Addr {
	a := [16]byte{0xfe, 0x80, 8: mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]}
	return netip.AddrFrom16(a)
}

// TestRxeChooseGID chooses by family and by source address, before and after
// addresses change.
func TestRxeChooseGID(t *testing.T) {
	d, local := gidLink(t)
	sh(t, "ip addr add 10.87.0.2/24 dev rxegid0")
	gidsBecome(t, d, map[uint32]string{0: local, 1: "10.87.0.1", 2: "fd87::1", 3: "10.87.0.2"})
	chosen := func(c *uverbs.GIDChoice, want uint32) {
		t.Helper()
		if e, err := d.ChooseGID(1, c); err != nil || e.Index != want {
			t.Errorf("%+v: %+v, %v, want index %d", c, e, err, want)
		}
	}
	refused := func(c *uverbs.GIDChoice, want string) {
		t.Helper()
		e, err := d.ChooseGID(1, c)
		if !errors.Is(err, verbs.ErrNoGID) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %+v, %v, want %q", c, e, err, want)
		}
	}
	addr := func(s string) *uverbs.GIDChoice { return &uverbs.GIDChoice{Addr: netip.MustParseAddr(s)} }
	chosen(nil, 1)
	chosen(&uverbs.GIDChoice{Type: verbs.GIDTypeRoCEv2, IPv4: true}, 1)
	chosen(&uverbs.GIDChoice{IPv6: true}, 2)
	chosen(&uverbs.GIDChoice{IPv4: true, IPv6: true}, 1)
	chosen(addr("10.87.0.2"), 3)
	chosen(addr("::ffff:10.87.0.2"), 3)
	chosen(addr("fd87::1"), 2)
	chosen(addr(local), 0)
	refused(&uverbs.GIDChoice{Type: verbs.GIDTypeRoCEv1}, "1 10.87.0.1 (RoCE v2), 2 fd87::1 (RoCE v2)")
	refused(addr("10.87.0.3"), "add 10.87.0.3 to rxegid0 (`ip addr add`)")
	if _, err := d.ChooseGID(2, nil); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}

	sh(t, "ip addr add 10.87.0.3/24 dev rxegid0")
	gidsBecome(t, d, map[uint32]string{0: local, 1: "10.87.0.1", 2: "fd87::1", 3: "10.87.0.2", 4: "10.87.0.3"})
	sh(t, "ip addr del fd87::1/64 dev rxegid0")
	gidsBecome(t, d, map[uint32]string{0: local, 1: "10.87.0.1", 3: "10.87.0.2", 4: "10.87.0.3"})
	chosen(addr("10.87.0.3"), 4)
	chosen(&uverbs.GIDChoice{IPv6: true}, 0) // the link-local one
	sh(t, "ip addr flush dev rxegid0")
	gidsBecome(t, d, map[uint32]string{0: local})
	chosen(nil, 0)
	refused(addr("10.87.0.2"), "the port has 0 "+local)
	refused(&uverbs.GIDChoice{IPv4: true}, "add an address to rxegid0")
}
