package devinfo

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/table"
	"github.com/goverbs/goverbs/internal/netif"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/verbs"
)

func (s *subject) port(p netlinkrdma.Port) table.Table {
	t := table.Table{{Key: "port", Value: p.Index}, {Key: "state", Value: p.State.String()}, {Key: "physical_state", Value: p.PhysState.String()}}
	attr := s.queryPort(p.Index)
	dir := path.Join(s.sysDir(), "ports", strconv.FormatUint(uint64(p.Index), 10))
	if attr != nil {
		t.Add("link_layer", attr.LinkLayer.String())
		addRate(&t, rateOf(attr.ActiveWidth, attr.ActiveSpeed))
		t.AddUnit("active_mtu", uint64(attr.ActiveMTU.Bytes()), table.Bytes)
		t.AddUnit("max_mtu", uint64(attr.MaxMTU.Bytes()), table.Bytes)
	} else {
		t.AddText("link_layer", s.Sys.Text(dir, "link_layer"))
		addRate(&t, parseRate(s.Sys.Text(dir, "rate")))
	}
	if p.NetdevIndex != 0 {
		t.Add("netdev", p.NetdevName)
		t.Add("netdev_index", p.NetdevIndex)
	}
	gids := s.gidsOf(p, dir)
	s.portGUID(&t, gids)
	s.addresses(&t, p, attr)
	portDetails(&t, s.details, attr)
	s.bandwidths(&t, p)
	t.Add("gids", table.Tables{Singular: "gid", OneLine: true, All: s.gidTables(p, gids, dir)})
	t.Add("pkeys", table.Tables{Singular: "pkey", OneLine: true, All: s.pkeys(dir)})
	return t
}

func (s *subject) queryPort(port int) *verbs.PortAttr {
	if s.dev == nil {
		return nil
	}
	attr, err := s.dev.QueryPort(port)
	if err != nil {
		s.lack(fmt.Sprintf("much of port %d", port), err)
		return nil
	}
	return attr
}

// addresses adds the addresses that a subnet manager assigns.
func (s *subject) addresses(t *table.Table, p netlinkrdma.Port, attr *verbs.PortAttr) {
	if p.InfiniBand {
		t.Add("subnet_prefix", p.SubnetPrefix.String())
		t.Add("port_lid", p.LID)
		t.Add("sm_lid", p.SMLID)
		t.Add("port_lmc", p.LMC)
	} else if attr != nil && s.details {
		t.Add("port_lid", attr.LID)
		t.Add("sm_lid", attr.SMLID)
		t.Add("port_lmc", attr.LMC)
	}
}

// portDetails adds the attributes that ibv_devinfo prints with -v.
func portDetails(t *table.Table, wanted bool, a *verbs.PortAttr) {
	if a == nil || !wanted {
		return
	}
	t.AddUnit("max_msg_sz", uint64(a.MaxMsgSize), table.Bytes)
	t.Add("port_cap_flags", fmt.Sprintf("0x%08x", a.CapFlags))
	t.Add("port_cap_flags2", fmt.Sprintf("0x%04x", a.CapFlags2))
	t.Add("max_vl_num", virtualLanes[a.MaxVLNum])
	t.Add("bad_pkey_cntr", a.BadPKeyCounter)
	t.Add("qkey_viol_cntr", a.QKeyViolationCounter)
	t.Add("sm_sl", a.SMSL)
	t.Add("pkey_tbl_len", a.PKeyTableLen)
	t.Add("gid_tbl_len", a.GIDTableLen)
	t.Add("subnet_timeout", a.SubnetTimeout)
	t.Add("init_type_reply", a.InitTypeReply)
	t.Add("grh_required", a.GRHRequired)
}

// bandwidths adds the bandwidth of the port and that of its network device. Unlike the
// rate, they need no codes of widths and speeds, which bonds and some networks lack.
func (s *subject) bandwidths(t *table.Table, p netlinkrdma.Port) {
	if !s.details {
		return
	}
	if s.dev != nil {
		speed, err := s.dev.QueryPortSpeed(p.Index)
		if err == nil {
			t.AddUnit("effective_speed", 100*speed, table.Mbps)
		} else if !errors.Is(err, verbs.ErrNotSupported) {
			s.lack(fmt.Sprintf("the effective speed of port %d", p.Index), err)
		}
	}
	// sysfs may show another network namespace, where the name is another device's.
	dir := path.Join("class/net", p.NetdevName)
	if index, err := strconv.ParseUint(s.Sys.Text(dir, "ifindex"), 10, 32); err != nil || uint32(index) != p.NetdevIndex {
		return
	}
	// The file can't be read while the device is down, and has -1 if the device has no speed.
	if mbps, err := strconv.ParseUint(s.Sys.Text(dir, "speed"), 10, 31); err == nil && mbps > 0 {
		t.AddUnit("netdev_speed", mbps, table.Mbps)
	}
}

// virtualLanes of a port by the code of their number.
//
// C: vl_str of ibv_devinfo
var virtualLanes = map[uint8]int{1: 1, 2: 2, 3: 4, 4: 8, 5: 15}

// gidsOf lists the used slots: the device's own list, or else sysfs's.
func (s *subject) gidsOf(p netlinkrdma.Port, dir string) []verbs.GIDEntry {
	gids := s.gids
	if gids == nil {
		gids = s.sysfsGIDs(p, dir)
	}
	gids = slices.DeleteFunc(slices.Clone(gids), func(e verbs.GIDEntry) bool { return e.Port != p.Index })
	slices.SortStableFunc(gids, func(a, b verbs.GIDEntry) int { return cmp.Compare(a.Index, b.Index) })
	return gids
}

// portGUID returns the lower half of the first GID, as ibstat does. iWARP has none.
func (s *subject) portGUID(t *table.Table, gids []verbs.GIDEntry) {
	if s.NodeType != verbs.NodeRNIC && len(gids) > 0 && gids[0].Index == 0 {
		t.Add("port_guid", verbs.GUID(binary.BigEndian.Uint64(gids[0].GID[8:])).String())
	}
}

func (s *subject) gidTables(p netlinkrdma.Port, gids []verbs.GIDEntry, dir string) (all []table.Table) {
	for _, e := range gids {
		t := table.Table{{Key: "index", Value: e.Index}, {Key: "gid", Value: e.GID.String()}}
		if s.NodeType != verbs.NodeRNIC { // iWARP has one kind, which has no name
			t.Add("type", e.Type.String())
		}
		t.AddText("netdev", s.gidNetdev(p, e, dir))
		all = append(all, t)
	}
	return all
}

// gidNetdev returns the name of a GID's network device, or "" if that is not in this network namespace. A device may
// be shared by several namespaces, and neither the index nor the name of a network device says which one it is in.
func (s *subject) gidNetdev(p netlinkrdma.Port, e verbs.GIDEntry, dir string) string {
	if s.NodeType == verbs.NodeRNIC && e.NetdevIndex == p.NetdevIndex {
		return p.NetdevName // netlink names it in its own namespace only, and iWARP has no other
	}
	name := s.Sys.Text(dir, "gid_attrs/ndevs", strconv.FormatUint(uint64(e.Index), 10))
	for _, d := range s.netdevs {
		here := netif.Interface{Name: d.Name, MAC: d.MAC, Addrs: d.Addrs}
		if (d.Index == e.NetdevIndex || e.NetdevIndex == 0 && d.Name == name) && here.Has(e.GID) {
			return d.Name
		}
	}
	return ""
}

func (s *subject) sysfsGIDs(p netlinkrdma.Port, dir string) (all []verbs.GIDEntry) {
	sys := s.Sys
	for _, slot := range sys.List(path.Join(dir, "gids")) {
		index, err := strconv.ParseUint(slot, 10, 32)
		raw, err2 := hex.DecodeString(strings.ReplaceAll(sys.Text(dir, "gids", slot), ":", ""))
		if err != nil || err2 != nil || len(raw) != 16 || verbs.GID(raw) == (verbs.GID{}) {
			continue
		}
		e := verbs.GIDEntry{GID: verbs.GID(raw), Port: p.Index, Index: uint32(index)}
		switch sys.Text(dir, "gid_attrs/types", slot) {
		case "RoCE v2":
			e.Type = verbs.GIDTypeRoCEv2
		case "IB/RoCE v1":
			if s.Protocol == "roce" {
				e.Type = verbs.GIDTypeRoCEv1
			}
		}
		all = append(all, e)
	}
	return all
}

// pkeys lists the used slots; the kernel shows them in sysfs only.
func (s *subject) pkeys(dir string) (all []table.Table) {
	sys := s.Sys
	for _, slot := range sys.List(path.Join(dir, "pkeys")) {
		index, err := strconv.ParseUint(slot, 10, 32)
		key := sys.Text(dir, "pkeys", slot)
		if err == nil && key != "" && key != "0x0000" {
			all = append(all, table.Table{{Key: "index", Value: index}, {Key: "pkey", Value: key}})
		}
	}
	slices.SortFunc(all, func(a, b table.Table) int { return cmp.Compare(a[0].Value.(uint64), b[0].Value.(uint64)) })
	return all
}

// rate is the data rate of a port: lanes times speed.
type rate struct {
	lanes int
	speed string // SDR
	mbps  uint64
}

// speeds of a lane by their code, in Mb/s.
//
// C: enum ib_port_speed
var speeds = map[uint32]rate{
	1: {speed: "SDR", mbps: 2500}, 2: {speed: "DDR", mbps: 5000}, 4: {speed: "QDR", mbps: 10000}, 8: {speed: "FDR10", mbps: 10000},
	16: {speed: "FDR", mbps: 14000}, 32: {speed: "EDR", mbps: 25000}, 64: {speed: "HDR", mbps: 50000},
	128: {speed: "NDR", mbps: 100000}, 256: {speed: "XDR", mbps: 200000},
}

// lanes of a port by the code of their number.
//
// C: enum ib_port_width
var lanes = map[uint8]int{1: 1, 2: 4, 4: 8, 8: 12, 16: 2}

// rateOf decodes the rate; a code of a newer kernel has none.
func rateOf(width uint8, speed uint32) rate {
	r := speeds[speed]
	r.lanes = lanes[width]
	r.mbps *= uint64(r.lanes)
	return r
}

var sysfsRate = regexp.MustCompile(`^([0-9]+)(\.5)? Gb/sec \(([0-9]+)X ?([A-Z0-9]+)\)$`)

// parseRate reads sysfs's "2.5 Gb/sec (1X SDR)".
func parseRate(text string) (r rate) {
	parts := sysfsRate.FindStringSubmatch(text)
	if parts == nil {
		return rate{}
	}
	gbps, _ := strconv.ParseUint(parts[1], 10, 32)
	if r.mbps = 1000 * gbps; parts[2] != "" {
		r.mbps += 500
	}
	r.lanes, _ = strconv.Atoi(parts[3])
	r.speed = parts[4]
	return r
}

func addRate(t *table.Table, r rate) {
	if r.mbps == 0 {
		return
	}
	t.AddUnit("rate", r.mbps, table.Mbps)
	t.Add("active_width", fmt.Sprintf("%dX", r.lanes))
	t.Add("active_speed", r.speed)
}
