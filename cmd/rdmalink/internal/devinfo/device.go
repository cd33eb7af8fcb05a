package devinfo

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/table"
	"github.com/goverbs/goverbs/internal/addlink"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// inspector gathers the properties of devices from netlink, the devices themselves
// and sysfs.
type inspector struct {
	*host.Machine
	details bool
	netdevs []addlink.Netdev
}

// subject is a device of the table. dev, attr and gids are nil if the device can't
// be opened or does not report them; missing has the reasons.
type subject struct {
	*inspector
	netlinkrdma.Device
	dev     *uverbs.Device
	attr    *verbs.DeviceAttr
	gids    []verbs.GIDEntry
	missing []string
}

func (i *inspector) device(d netlinkrdma.Device) (table.Table, error) {
	ports, err := i.RDMA.Ports(d.Index)
	if err != nil {
		return nil, err
	}
	s := &subject{inspector: i, Device: d}
	s.openDevice()
	if s.dev != nil {
		defer s.dev.Close() // it has no objects
	}
	t := table.Table{{Key: "ifname", Value: d.Name}, {Key: "ifindex", Value: d.Index}}
	s.driver(&t)
	s.node(&t)
	s.place(&t)
	t.Add("char_devices", table.Tables{Singular: "char_device", OneLine: true, All: s.charDevices()})
	t.Add("phys_port_cnt", d.Ports)
	s.limits(&t)
	s.verbs(&t)
	portTables := make([]table.Table, len(ports))
	for n, p := range ports {
		portTables[n] = s.port(p)
	}
	t.Add("ports", table.Tables{Singular: "port", All: portTables})
	if s.missing != nil {
		t.Add("missing", s.missing)
	}
	return t, nil
}

// lack notes why something is not on the table.
func (s *subject) lack(what string, err error) {
	s.missing = append(s.missing, what+": "+cli.Plain(err))
}

func (s *subject) openDevice() {
	var err error
	if s.dev, err = s.Open(s.Name); err != nil {
		s.dev = nil
		s.lack("limits, capabilities, vendor, MTU", err)
		return
	}
	if s.attr, err = s.dev.QueryDevice(); err != nil {
		s.lack("limits, capabilities, vendor", err)
	}
	if s.gids, err = s.dev.GIDTable(); err != nil {
		s.lack("GIDs", err)
	}
}

// driver returns the driver of the device, and whether this build supports it.
func (s *subject) driver(t *table.Table) {
	c, err := s.RDMA.UverbsCharDev(s.Index)
	if err != nil {
		s.lack("driver, provider", err)
		return
	}
	info := uverbs.DeviceInfo{Name: s.Name, Driver: verbs.DriverID(c.DriverID), ABI: uint32(c.ABI)}
	t.Add("driver", info.Driver.String())
	t.Add("driver_abi", c.ABI)
	err = info.Provider()
	t.Add("provider", err == nil)
	if err != nil {
		s.lack("provider", err)
	}
}

// node returns the node type of a device.
func (s *subject) node(t *table.Table) {
	t.Add("node_type", s.NodeType.String())
	t.Add("transport", transport(s.NodeType))
	t.AddText("protocol", s.Protocol)
	t.AddText("fw_ver", s.FWVersion)
	t.Add("node_guid", s.NodeGUID.String())
	t.Add("sys_image_guid", s.SysImageGUID.String())
	t.AddText("parent", s.Parent)
	if s.attr != nil {
		t.Add("vendor_id", fmt.Sprintf("0x%04x", s.attr.VendorID))
		t.Add("vendor_part_id", s.attr.VendorPartID)
		t.Add("hw_ver", fmt.Sprintf("0x%X", s.attr.HWVer))
	}
}

// transport returns libibverbs's name for the transport. It is InfiniBand for RoCE
// too; only the protocol differs.
func transport(n verbs.NodeType) string {
	switch n {
	case verbs.NodeCA, verbs.NodeSwitch, verbs.NodeRouter:
		return "InfiniBand"
	case verbs.NodeRNIC:
		return "iWARP"
	case verbs.NodeUSNIC:
		return "usNIC"
	case verbs.NodeUSNICUDP:
		return "usNIC UDP"
	}
	return "unspecified"
}

// place returns the properties of a device in sysfs, except those of its ports.
func (s *subject) place(t *table.Table) {
	sys := s.Sys
	if !sys.Has(s.sysDir()) {
		s.missing = append(s.missing, "board, PCI address, NUMA node, P_Keys: /sys is not mounted here, or shows no RDMA devices of this network namespace")
		return
	}
	t.AddText("node_desc", sys.Text(s.sysDir(), "node_desc"))
	t.AddText("hca_type", sys.Text(s.sysDir(), "hca_type"))
	t.AddText("board_id", sys.Text(s.sysDir(), "board_id"))
	if sys.Link(s.sysDir(), "device/subsystem") == "pci" {
		t.Add("pci", sys.Link(s.sysDir(), "device"))
	}
	if n, err := strconv.Atoi(sys.Text(s.sysDir(), "device/numa_node")); err == nil && n >= 0 {
		t.Add("numa_node", n)
	}
}

func (s *subject) sysDir() string { return path.Join("class/infiniband", s.Name) }

// charDevices lists the char devices of verbs, from netlink, and of management
// datagrams, from sysfs, because a netlink request for those would load the module.
func (s *subject) charDevices() (all []table.Table) {
	if c, err := s.RDMA.UverbsCharDev(s.Index); err == nil {
		all = append(all, charDevice(c.Name, fmt.Sprintf("%d:%d", c.Major, c.Minor)))
	}
	sys := s.Sys
	for _, name := range sys.List("class/infiniband_mad") {
		dir := path.Join("class/infiniband_mad", name)
		if sys.Text(dir, "ibdev") == s.Name {
			all = append(all, charDevice(name, sys.Text(dir, "dev")))
		}
	}
	return all
}

func charDevice(name, number string) table.Table {
	kind := strings.TrimRight(name, "0123456789")
	return table.Table{{Key: "name", Value: name}, {Key: "type", Value: kind}, {Key: "path", Value: netlinkrdma.CharDev{Name: name}.Path()}, {Key: "dev", Value: number}}
}

// limits adds the capabilities and limits of the device.
func (s *subject) limits(t *table.Table) {
	if s.attr == nil || !s.details {
		return
	}
	a := s.attr
	t.Add("num_comp_vectors", s.dev.CompVectors())
	t.Add("max_mr_size", fmt.Sprintf("0x%x", a.MaxMRSize))
	t.Add("page_size_cap", fmt.Sprintf("0x%x", a.PageSizeCap))
	for _, l := range []struct {
		name string
		most uint32
	}{
		{"max_qp", a.MaxQP}, {"max_qp_wr", a.MaxQPWR}, {"max_sge", a.MaxSGE}, {"max_sge_rd", a.MaxSGERead},
		{"max_cq", a.MaxCQ}, {"max_cqe", a.MaxCQE}, {"max_mr", a.MaxMR}, {"max_pd", a.MaxPD}, {"max_mw", a.MaxMW}, {"max_ah", a.MaxAH},
		{"max_qp_rd_atom", a.MaxQPRDAtom}, {"max_res_rd_atom", a.MaxResRDAtom}, {"max_qp_init_rd_atom", a.MaxQPInitRDAtom},
		{"max_srq", a.MaxSRQ}, {"max_srq_wr", a.MaxSRQWR}, {"max_srq_sge", a.MaxSRQSGE},
		{"max_mcast_grp", a.MaxMcastGrp}, {"max_mcast_qp_attach", a.MaxMcastQPAttach}, {"max_total_mcast_qp_attach", a.MaxTotalMcastQPAttach},
		{"max_pkeys", uint32(a.MaxPKeys)}, {"local_ca_ack_delay", uint32(a.LocalCAAckDelay)},
	} {
		t.Add(l.name, l.most)
	}
	t.Add("atomic_cap", atomicCap(a.AtomicCap))
	t.Add("device_cap_flags", fmt.Sprintf("0x%x", uint64(a.CapFlags)))
	t.Add("device_caps", bitList(a.CapFlags))
	t.Add("general_odp_caps", bitList(a.ODP.General))
	t.Add("rc_odp_caps", bitList(a.ODP.RC))
	t.Add("uc_odp_caps", bitList(a.ODP.UC))
	t.Add("ud_odp_caps", bitList(a.ODP.UD))
	t.Add("xrc_odp_caps", bitList(a.ODP.XRC))
	t.Add("completion_timestamp_mask", fmt.Sprintf("0x%016x", a.TimestampMask))
	t.AddUnit("hca_core_clock", a.HCACoreClock, table.KHz)
	t.AddUnit("max_dm_size", a.MaxDMSize, table.Bytes)
	t.Add("max_cq_count", a.CQModerationMaxCount)
	t.AddUnit("max_cq_period", uint64(a.CQModerationMaxPeriod), table.Usec)
	t.Add("rss_supported_qp", fmt.Sprintf("0x%x", a.RSS.SupportedQPTypes))
	t.Add("max_rwq_indirection_tables", a.RSS.MaxIndirectionTables)
	t.Add("max_rwq_indirection_table_size", a.RSS.MaxIndirectionTableSize)
	t.Add("rx_hash_function", fmt.Sprintf("0x%x", a.RSS.HashFunctions))
	t.Add("rx_hash_fields_mask", fmt.Sprintf("0x%x", a.RSS.HashFields))
	t.AddUnit("max_tso", uint64(a.TSO.MaxPayload), table.Bytes)
	t.Add("tso_supported_qp", fmt.Sprintf("0x%x", a.TSO.SupportedQPTypes))
	t.AddUnit("qp_rate_limit_min", uint64(a.PacketPacing.MinRate), table.Kbps)
	t.AddUnit("qp_rate_limit_max", uint64(a.PacketPacing.MaxRate), table.Kbps)
	t.Add("packet_pacing_supported_qp", fmt.Sprintf("0x%x", a.PacketPacing.SupportedQPTypes))
	t.Add("packet_pacing_burst", a.PacketPacing.Burst)
	t.Add("max_wq_type_rq", a.MaxWQTypeRQ)
	t.Add("raw_packet_caps", fmt.Sprintf("0x%x", a.RawPacketCaps))
	if a.MaxRDMASize > 0 {
		t.AddUnit("max_rdma_size", uint64(a.MaxRDMASize), table.Bytes)
	}
	t.Add("max_num_tags", a.TagMatching.MaxTags)
	if a.TagMatching.MaxTags > 0 {
		t.AddUnit("max_rndv_hdr_size", uint64(a.TagMatching.MaxRndvHdrSize), table.Bytes)
		t.Add("tag_matching_flags", fmt.Sprintf("0x%x", a.TagMatching.Flags))
		t.Add("tag_matching_max_ops", a.TagMatching.MaxOps)
		t.Add("tag_matching_max_sge", a.TagMatching.MaxSGE)
	}
}

// verbs adds which verbs work on the device, and which opcodes its QPs send.
func (s *subject) verbs(t *table.Table) {
	if s.dev == nil || !s.details {
		return
	}
	var probed, sends []table.Table
	for _, v := range uverbs.Verbs() {
		err := s.dev.Probe(v)
		row := table.Table{{Key: "name", Value: string(v)}, {Key: "works", Value: works(err)}}
		if err != nil {
			row.Add("reason", cli.Plain(err))
		}
		probed = append(probed, row)
	}
	types := []verbs.QPType{verbs.QPTypeRC, verbs.QPTypeUC, verbs.QPTypeUD, verbs.QPTypeRawPacket, verbs.QPTypeXRCInitiator}
	if s.dev.Supports(verbs.QPTypeSRD, verbs.OpSend) { // on EFA alone
		types = append(types, verbs.QPTypeSRD)
	}
	for _, typ := range types {
		ops := table.Names{}
		for op := verbs.OpRDMAWrite; op <= verbs.OpAtomicWrite; op++ {
			if s.dev.Supports(typ, op) {
				ops = append(ops, op.String())
			}
		}
		sends = append(sends, table.Table{{Key: "qp_type", Value: typ.String()}, {Key: "opcodes", Value: ops}})
	}
	t.Add("verbs", table.Tables{Singular: "verb", OneLine: true, All: probed})
	t.Add("sends", table.Tables{Singular: "sends", OneLine: true, All: sends})
}

// works returns the answer of a probe.
func works(err error) string {
	switch {
	case err == nil:
		return "yes"
	case errors.Is(err, verbs.ErrNotSupported), errors.Is(err, verbs.ErrNoProvider):
		return "no"
	}
	return "unknown"
}

// atomicCap returns the name in C, as ibv_devinfo prints it.
func atomicCap(c verbs.AtomicCap) string {
	switch c {
	case verbs.AtomicNone:
		return "ATOMIC_NONE"
	case verbs.AtomicHCA:
		return "ATOMIC_HCA"
	case verbs.AtomicGlobal:
		return "ATOMIC_GLOB"
	}
	return c.String()
}

// bitList splits the names of a set.
func bitList(set fmt.Stringer) table.Names {
	if s := set.String(); s != "0" {
		return strings.Split(s, "|")
	}
	return table.Names{}
}
