//go:build vm

package rxe

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// gidLink is an rxe link on an interface of its own, whose addresses a test may
// change. Each address becomes a GID before the next is added: the kernel scans a
// new link beside the work that earlier addresses left, so that the order of
// addresses that were there before the link is open.
func gidLink(t *testing.T) (d *uverbs.Device, local string) {
	t.Helper()
	kit.Dummy(t, "rxegid0")
	netdev := kit.Must(net.InterfaceByName("rxegid0"))(t)
	local = linkLocal(netdev.HardwareAddr).String()
	kit.Link(t, "gvgid", "rxe", "rxegid0")
	d = kit.Must(uverbs.Open("gvgid"))(t)
	kit.CloseLater(t, d)
	gidsBecome(t, d, map[uint32]string{0: local})
	kit.Sh(t, "ip addr add 10.87.0.1/24 dev rxegid0")
	gidsBecome(t, d, map[uint32]string{0: local, 1: "10.87.0.1"})
	kit.Sh(t, "ip addr add fd87::1/64 dev rxegid0 nodad")
	gidsBecome(t, d, map[uint32]string{0: local, 1: "10.87.0.1", 2: "fd87::1"})
	return d, local
}

// gids are the addresses of a device's GIDs by index.
func gids(t *testing.T, d *uverbs.Device) map[uint32]string {
	t.Helper()
	all := make(map[uint32]string)
	for _, e := range kit.Must(d.GIDTable())(t) {
		all[e.Index] = e.GID.Addr().String()
	}
	return all
}

// gidsBecome waits for the kernel to make GIDs of addresses, which it does in the
// background.
func gidsBecome(t *testing.T, d *uverbs.Device, want map[uint32]string) {
	t.Helper()
	var diff string
	if !kit.Eventually(func() bool { diff = cmp.Diff(want, gids(t, d)); return diff == "" }) {
		t.Fatalf("(-want +got):\n%s", diff)
	}
}

// TestRxeGID compares the table with rdma-core's and each entry with the table,
// and has it follow the interface.
func TestRxeGID(t *testing.T) {
	d, local := gidLink(t)
	netdev := kit.Must(net.InterfaceByName("rxegid0"))(t)
	info := kit.Devinfo(t, "gvgid")
	for _, e := range kit.Must(d.GIDTable())(t) {
		if e.Type != verbs.GIDTypeRoCEv2 || e.Port != 1 || e.NetdevIndex != uint32(netdev.Index) {
			t.Errorf("%+v", e)
		}
		if theirs := info["GID[  "+string(rune('0'+e.Index))+"]"]; theirs != e.GID.String()+", RoCE v2" {
			t.Errorf("%v, ibv_devinfo says %s", e.GID, theirs)
		}
		if diff := cmp.Diff(&e, kit.Must(d.QueryGID(1, e.Index))(t)); diff != "" {
			t.Errorf("(-table +entry):\n%s", diff)
		}
	}
	for at, want := range map[[2]uint32]error{
		{1, 3}: syscall.ENODATA, {1, 1023}: syscall.ENODATA, // empty slots
		{1, 1024}: syscall.EINVAL, {0, 0}: syscall.EINVAL, {2, 0}: syscall.EINVAL, {1, 1 << 31}: syscall.EINVAL,
	} {
		if e, err := d.QueryGID(int(at[0]), at[1]); !errors.Is(err, want) {
			t.Errorf("port %d index %d: %+v, %v, want %v", at[0], at[1], e, err, want)
		}
	}
	// A slot that became free is the next one's.
	kit.Sh(t, "ip addr del 10.87.0.1/24 dev rxegid0")
	gidsBecome(t, d, map[uint32]string{0: local, 2: "fd87::1"})
	kit.Sh(t, "ip addr add fd87::2/64 dev rxegid0 nodad")
	gidsBecome(t, d, map[uint32]string{0: local, 1: "fd87::2", 2: "fd87::1"})
	kit.Sh(t, "ip addr add 10.87.0.9/24 dev rxegid0")
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
	kit.Sh(t, "ip addr add 10.87.0.2/24 dev rxegid0")
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

	kit.Sh(t, "ip addr add 10.87.0.3/24 dev rxegid0")
	gidsBecome(t, d, map[uint32]string{0: local, 1: "10.87.0.1", 2: "fd87::1", 3: "10.87.0.2", 4: "10.87.0.3"})
	kit.Sh(t, "ip addr del fd87::1/64 dev rxegid0")
	gidsBecome(t, d, map[uint32]string{0: local, 1: "10.87.0.1", 3: "10.87.0.2", 4: "10.87.0.3"})
	chosen(addr("10.87.0.3"), 4)
	chosen(&uverbs.GIDChoice{IPv6: true}, 0) // the link-local one
	kit.Sh(t, "ip addr flush dev rxegid0")
	gidsBecome(t, d, map[uint32]string{0: local})
	chosen(nil, 0)
	refused(addr("10.87.0.2"), "the port has GIDs 0 "+local)
	refused(&uverbs.GIDChoice{IPv4: true}, "add an address to rxegid0")
}

// TestRxeDevices checks that rdma-core's list is ours, and the device opens by name and by index.
func TestRxeDevices(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	var theirs, ours []string
	for _, line := range strings.Split(kit.Sh(t, "ibv_devices"), "\n")[2:] {
		if name, _, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			theirs = append(theirs, strings.TrimSpace(name))
		}
	}
	for _, info := range kit.Must(uverbs.Devices())(t) {
		if ours = append(ours, info.Name); info.Name != kit.RxeLink {
			continue
		}
		if info.Driver != verbs.DriverRXE || info.ABI != 2 || info.Ports != 1 || info.NodeType != verbs.NodeCA {
			t.Errorf("%+v", info)
		}
		for _, dev := range []*uverbs.Device{kit.Must(uverbs.Open(info.Name))(t), kit.Must(uverbs.OpenIndex(info.Index, info.NodeGUID))(t)} {
			if dev.Info() != info {
				t.Errorf("%+v, listed as %+v", dev.Info(), info)
			}
			if err := dev.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	slices.Sort(theirs)
	slices.Sort(ours)
	if !slices.Contains(ours, kit.RxeLink) || !slices.Equal(ours, theirs) {
		t.Errorf("%q, ibv_devices has %q", ours, theirs)
	}
	if _, err := uverbs.Open("nosuch"); !errors.Is(err, verbs.ErrNoDevice) || !strings.Contains(err.Error(), kit.RxeLink+" (rxe, index ") {
		t.Error(err)
	}
}

// sameNumbers compares numbers with what ibv_devinfo says, whose "1X (1)" is 1.
func sameNumbers(t *testing.T, info map[string]string, ours map[string]uint64) {
	t.Helper()
	for name, got := range ours {
		text := info[name]
		if _, code, ok := strings.Cut(text, "("); ok {
			text = strings.TrimSuffix(code, ")")
		}
		if want, err := strconv.ParseUint(text, 0, 64); err != nil || got != want {
			t.Errorf("%s is %#x, ibv_devinfo says %q", name, got, info[name])
		}
	}
}

// TestRxeDevice compares the device's attributes with rdma-core's output.
func TestRxeDevice(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	d := kit.OpenRxe(t)
	info, a := kit.Devinfo(t, kit.RxeLink), d.Attr
	sameNumbers(t, info, map[string]uint64{
		"max_qp": uint64(a.MaxQP), "max_qp_wr": uint64(a.MaxQPWR), "max_sge": uint64(a.MaxSGE), "max_sge_rd": uint64(a.MaxSGERead),
		"max_cq": uint64(a.MaxCQ), "max_cqe": uint64(a.MaxCQE), "max_mr": uint64(a.MaxMR), "max_pd": uint64(a.MaxPD), "max_mw": uint64(a.MaxMW),
		"max_qp_rd_atom": uint64(a.MaxQPRDAtom), "max_qp_init_rd_atom": uint64(a.MaxQPInitRDAtom), "max_res_rd_atom": uint64(a.MaxResRDAtom),
		"max_srq": uint64(a.MaxSRQ), "max_srq_wr": uint64(a.MaxSRQWR), "max_srq_sge": uint64(a.MaxSRQSGE), "max_ah": uint64(a.MaxAH),
		"max_mcast_grp": uint64(a.MaxMcastGrp), "max_mcast_qp_attach": uint64(a.MaxMcastQPAttach), "max_total_mcast_qp_attach": uint64(a.MaxTotalMcastQPAttach),
		"max_pkeys": uint64(a.MaxPKeys), "local_ca_ack_delay": uint64(a.LocalCAAckDelay), "phys_port_cnt": uint64(a.PhysPortCnt),
		"vendor_id": uint64(a.VendorID), "vendor_part_id": uint64(a.VendorPartID), "hw_ver": uint64(a.HWVer), "atomic_cap": uint64(a.AtomicCap),
		"max_mr_size": a.MaxMRSize, "page_size_cap": a.PageSizeCap, "device_cap_flags": uint64(uint32(a.CapFlags)), "device_cap_flags_ex": uint64(a.CapFlags),
		"num_comp_vectors": uint64(d.CompVectors()),
	})
	for name, got := range map[string]verbs.GUID{"node_guid": a.NodeGUID, "sys_image_guid": a.SysImageGUID} {
		if got.String() != info[name] {
			t.Errorf("%s %v, ibv_devinfo says %s", name, got, info[name])
		}
	}
	// Attributes that each kernel added.
	newer := verbs.DeviceCapFlushGlobal | verbs.DeviceCapFlushPersistent | verbs.DeviceCapAtomicWrite
	if has := a.CapFlags & newer; has != newer && (has != 0 || !kit.OnKernel("6.1")) {
		t.Errorf("of %v it has %v", newer, has)
	}
	var odp verbs.ODPCaps
	if kit.SinceLinux7() {
		odp.General = verbs.ODPSupport
		odp.UD = verbs.ODPSend | verbs.ODPRecv | verbs.ODPSRQRecv
		odp.RC = odp.UD | verbs.ODPWrite | verbs.ODPRead | verbs.ODPAtomic | verbs.ODPFlush | verbs.ODPAtomicWrite
	}
	if a.ODP != odp {
		t.Errorf("%+v, want %+v", a.ODP, odp)
	}
	if a.TimestampMask != 0 || a.HCACoreClock != 0 || a.MaxDMSize != 0 {
		t.Errorf("rxe has no clock and no memory: %+v", a)
	}
}

// TestRxePort compares with rdma-core, and has the port follow its interface.
func TestRxePort(t *testing.T) {
	kit.Dummy(t, "rxeport0", "10.86.0.1/24")
	kit.Link(t, "gvport", "rxe", "rxeport0")
	kit.NoLeak(t)
	d := kit.Must(uverbs.Open("gvport"))(t)
	kit.CloseLater(t, d)
	port := kit.Must(d.QueryPort(1))(t)
	got := []any{port.State, port.PhysState, port.LinkLayer, port.MaxMTU, port.ActiveMTU, port.PKeyTableLen}
	if diff := cmp.Diff([]any{verbs.PortActive, verbs.PhysLinkUp, verbs.LinkEthernet, verbs.MTU4096, verbs.MTU1024, uint32(1)}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	sameNumbers(t, kit.Devinfo(t, "gvport"), map[string]uint64{
		"state": uint64(port.State), "phys_state": uint64(port.PhysState), "max_mtu": uint64(port.MaxMTU), "active_mtu": uint64(port.ActiveMTU),
		"max_msg_sz": uint64(port.MaxMsgSize), "port_cap_flags": uint64(port.CapFlags), "port_cap_flags2": uint64(port.CapFlags2),
		"gid_tbl_len": uint64(port.GIDTableLen), "pkey_tbl_len": uint64(port.PKeyTableLen), "port_lid": uint64(port.LID), "sm_lid": uint64(port.SMLID),
		"port_lmc": uint64(port.LMC), "max_vl_num": uint64(port.MaxVLNum), "sm_sl": uint64(port.SMSL), "subnet_timeout": uint64(port.SubnetTimeout),
		"init_type_reply": uint64(port.InitTypeReply), "active_width": uint64(port.ActiveWidth), "active_speed": uint64(port.ActiveSpeed),
		"bad_pkey_cntr": uint64(port.BadPKeyCounter), "qkey_viol_cntr": uint64(port.QKeyViolationCounter),
	})
	for _, number := range []int{0, 2, 255} {
		if _, err := d.QueryPort(number); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("port %d: %v", number, err)
		}
	}
	kit.Sh(t, "ip link set rxeport0 mtu 9000")
	if port := kit.Must(d.QueryPort(1))(t); port.ActiveMTU != verbs.MTU4096 {
		t.Errorf("%+v", port)
	}
	kit.Sh(t, "ip link set rxeport0 down")
	if port := kit.Must(d.QueryPort(1))(t); port.State != verbs.PortDown || port.PhysState != verbs.PhysDisabled {
		t.Errorf("%+v", port)
	}
	_, err := d.ChooseGID(1, nil)
	if !errors.Is(err, verbs.ErrNoGID) || !strings.Contains(err.Error(), "is its network device up") {
		t.Error(err)
	}
}

// TestRxePKey checks that there is one P_Key, that of the default partition.
func TestRxePKey(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	d := kit.OpenRxe(t)
	if key := kit.Must(d.QueryPKey(1, 0))(t); key != 0xffff {
		t.Errorf("%#x", key)
	}
	for at, want := range map[[2]uint32]string{
		{1, 1}:  "query P_Key 1 of port 1 of device on gvrxe0: invalid argument: the table has 1 entries",
		{1, 64}: "query P_Key 64 of port 1 of device on gvrxe0: invalid argument: the table has 1 entries",
		{0, 0}:  "query port 0 of device on gvrxe0: invalid argument: ports are numbered from 1",
		{2, 0}:  "query port 2 of device on gvrxe0: invalid argument: ports are numbered from 1",
	} {
		if key, err := d.QueryPKey(int(at[0]), at[1]); !errors.Is(err, syscall.EINVAL) || err.Error() != want {
			t.Errorf("%#x, %v\nwant %s", key, err, want)
		}
	}
}

// TestRxeGIDNetdev checks that a VLAN has the link-local address of the device below it. The zone says whose GID is
// meant. In a network namespace with the VLAN, its GID comes first, and only that has a network device.
func TestRxeGIDNetdev(t *testing.T) {
	kit.Dummy(t, "rxegidns0", "10.88.0.1/24")
	kit.Link(t, "gidns", "rxe", "rxegidns0")
	d := kit.Must(uverbs.Open("gidns"))(t)
	kit.CloseLater(t, d)
	kit.Sh(t, "ip link add link rxegidns0 name rxegidns5 type vlan id 5 && ip link set rxegidns5 up && ip netns add gidns")
	t.Cleanup(func() { kit.Sh(t, "ip netns del gidns") })
	base, vlan := kit.Must(net.InterfaceByName("rxegidns0"))(t), kit.Must(net.InterfaceByName("rxegidns5"))(t)
	local := linkLocal(base.HardwareAddr)
	for _, ifi := range []*net.Interface{vlan, base} {
		choice := &uverbs.GIDChoice{Addr: local.WithZone(ifi.Name)}
		kit.Until(t, "with the link-local GID of "+ifi.Name, func() bool { _, err := d.ChooseGID(1, choice); return err == nil })
		if e, err := d.ChooseGID(1, choice); err != nil || e.NetdevIndex != uint32(ifi.Index) {
			t.Errorf("%v: %+v, %v", choice.Addr, e, err)
		}
	}

	kit.Sh(t, "ip link set rxegidns5 netns gidns && ip -n gidns link set rxegidns5 up && ip -n gidns addr add fd88::5/64 dev rxegidns5 nodad")
	there := netip.MustParseAddr("fd88::5")
	kit.Until(t, "with the GID of the namespace", func() bool { _, err := d.ChooseGID(1, &uverbs.GIDChoice{Addr: there}); return err == nil })
	if e, err := d.ChooseGID(1, nil); err != nil || e.GID.Addr() != netip.MustParseAddr("10.88.0.1") {
		t.Errorf("%+v, %v", e, err)
	}
	inside := make(chan string)
	go func() {
		runtime.LockOSThread() // for ever, so that no other goroutine finds itself in the namespace
		ns, err := os.Open("/run/netns/gidns")
		if err == nil {
			err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
			ns.Close()
		}
		var e *verbs.GIDEntry
		if err == nil {
			e, err = d.ChooseGID(1, nil)
		}
		inside <- fmt.Sprintf("%+v, %v", e, err)
	}()
	if got := <-inside; !strings.Contains(got, there.String()) {
		t.Errorf("chosen in the namespace: %s", got)
	}
	out := kit.Sh(t, "ip netns exec gidns "+kit.RdmalinkPath(t)+" devinfo gidns")
	for line := range strings.Lines(out) {
		if strings.Contains(line, " gid ") && strings.Contains(line, "rxegidns") != strings.Contains(line, " fd88::5 ") && !strings.Contains(line, " fe80:") {
			t.Errorf("devinfo in the namespace: %s", line)
		}
	}
	if !strings.Contains(out, "rxegidns5") || strings.Contains(out, "rxegidns0") {
		t.Errorf("devinfo in the namespace: %s", out)
	}
}
