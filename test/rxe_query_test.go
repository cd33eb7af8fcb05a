//go:build vm

package test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestRxeDevices: rdma-core's list is ours, and the device opens by name and by
// index.
func TestRxeDevices(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	var theirs, ours []string
	for _, line := range strings.Split(sh(t, "ibv_devices"), "\n")[2:] {
		if name, _, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			theirs = append(theirs, strings.TrimSpace(name))
		}
	}
	for _, info := range must(uverbs.Devices())(t) {
		if ours = append(ours, info.Name); info.Name != rxeLink {
			continue
		}
		if info.Driver != verbs.DriverRXE || info.ABI != 2 || info.Ports != 1 || info.NodeType != verbs.NodeCA {
			t.Errorf("%+v", info)
		}
		for _, dev := range []*uverbs.Device{must(uverbs.Open(info.Name))(t), must(uverbs.OpenIndex(info.Index, info.NodeGUID))(t)} {
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
	if !slices.Contains(ours, rxeLink) || !slices.Equal(ours, theirs) {
		t.Errorf("%q, ibv_devices has %q", ours, theirs)
	}
	if _, err := uverbs.Open("nosuch"); !errors.Is(err, verbs.ErrNoDevice) || !strings.Contains(err.Error(), rxeLink+" (rxe, index ") {
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
	rxeFabric(t)
	noLeak(t)
	d := openRxe(t)
	info, a := devinfo(t, rxeLink), d.attr
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
	if has := a.CapFlags & newer; has != newer && (has != 0 || !onKernel("6.1")) {
		t.Errorf("of %v it has %v", newer, has)
	}
	var odp verbs.ODPCaps
	if sinceLinux7() {
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
	dummy(t, "rxeport0", "10.86.0.1/24")
	link(t, "gvport", "rxe", "rxeport0")
	noLeak(t)
	d := must(uverbs.Open("gvport"))(t)
	closeLater(t, d)
	port := must(d.QueryPort(1))(t)
	got := []any{port.State, port.PhysState, port.LinkLayer, port.MaxMTU, port.ActiveMTU, port.PKeyTableLen}
	if diff := cmp.Diff([]any{verbs.PortActive, verbs.PhysLinkUp, verbs.LinkEthernet, verbs.MTU4096, verbs.MTU1024, uint32(1)}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	sameNumbers(t, devinfo(t, "gvport"), map[string]uint64{
		"state": uint64(port.State), "phys_state": uint64(port.PhysState), "max_mtu": uint64(port.MaxMTU), "active_mtu": uint64(port.ActiveMTU),
		"max_msg_sz": uint64(port.MaxMsgSize), "port_cap_flags": uint64(port.CapFlags), "port_cap_flags2": uint64(port.CapFlags2),
		"gid_tbl_len": uint64(port.GIDTableLen), "pkey_tbl_len": uint64(port.PKeyTableLen), "port_lid": uint64(port.LID), "sm_lid": uint64(port.SMLID),
		"port_lmc": uint64(port.LMC), "max_vl_num": uint64(port.MaxVLNum), "sm_sl": uint64(port.SMSL), "subnet_timeout": uint64(port.SubnetTimeout),
		"init_type_reply": uint64(port.InitTypeReply), "active_width": uint64(port.ActiveWidth), "active_speed": uint64(port.ActiveSpeed),
		"bad_pkey_cntr": uint64(port.BadPKeyCounter), "qkey_viol_cntr": uint64(port.QKeyViolationCounter),
	})
	for _, number := range []uint32{0, 2, 255} {
		if _, err := d.QueryPort(number); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("port %d: %v", number, err)
		}
	}
	sh(t, "ip link set rxeport0 mtu 9000")
	if port := must(d.QueryPort(1))(t); port.ActiveMTU != verbs.MTU4096 {
		t.Errorf("%+v", port)
	}
	sh(t, "ip link set rxeport0 down")
	if port := must(d.QueryPort(1))(t); port.State != verbs.PortDown || port.PhysState != verbs.PhysDisabled {
		t.Errorf("%+v", port)
	}
	_, err := d.ChooseGID(1, nil)
	if !errors.Is(err, verbs.ErrNoGID) || !strings.Contains(err.Error(), "is its network device up") {
		t.Error(err)
	}
}

// TestRxePKey: there is one, the default partition's.
func TestRxePKey(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	d := openRxe(t)
	if key := must(d.QueryPKey(1, 0))(t); key != 0xffff {
		t.Errorf("%#x", key)
	}
	for at, want := range map[[2]uint32]string{
		{1, 1}:  "query P_Key 1 of port 1 of device on gvrxe0: invalid argument: the table has 1 entries",
		{1, 64}: "query P_Key 64 of port 1 of device on gvrxe0: invalid argument: the table has 1 entries",
		{0, 0}:  "query port 0 of device on gvrxe0: invalid argument: ports count from 1",
		{2, 0}:  "query port 2 of device on gvrxe0: invalid argument: ports count from 1",
	} {
		if key, err := d.QueryPKey(at[0], at[1]); !errors.Is(err, syscall.EINVAL) || err.Error() != "uverbs: "+want {
			t.Errorf("%#x, %v\nwant %s", key, err, want)
		}
	}
}
