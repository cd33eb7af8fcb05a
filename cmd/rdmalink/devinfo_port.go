package main

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/uverbs"
)

func (s *subject) port(p netlinkrdma.Port) table {
	t := table{{key: "port", value: p.Index}, {key: "state", value: p.State.String()}, {key: "physical_state", value: p.PhysState.String()}}
	attr := s.queryPort(p.Index)
	dir := path.Join(s.sysDir(), "ports", strconv.FormatUint(uint64(p.Index), 10))
	if attr != nil {
		t.add("link_layer", attr.LinkLayer.String())
		t.addRate(rateOf(attr.ActiveWidth, attr.ActiveSpeed))
		t.addUnit("active_mtu", uint64(attr.ActiveMTU.Bytes()), unitBytes)
		t.addUnit("max_mtu", uint64(attr.MaxMTU.Bytes()), unitBytes)
	} else {
		t.addText("link_layer", s.Sys.Text(dir, "link_layer"))
		t.addRate(parseRate(s.Sys.Text(dir, "rate")))
	}
	if p.NetdevIndex != 0 {
		t.add("netdev", p.NetdevName)
		t.add("netdev_index", p.NetdevIndex)
	}
	gids := s.gidsOf(p, dir)
	s.portGUID(&t, gids)
	s.addresses(&t, p, attr)
	t.portDetails(s.Details > 0, attr)
	t.add("gids", tables{"gid", true, s.gidTables(gids, dir)})
	t.add("pkeys", tables{"pkey", true, s.pkeys(dir)})
	return t
}

func (s *subject) queryPort(port uint32) *uverbs.PortAttr {
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

// addresses are those that a subnet manager gives.
func (s *subject) addresses(t *table, p netlinkrdma.Port, attr *uverbs.PortAttr) {
	if p.InfiniBand {
		t.add("subnet_prefix", p.SubnetPrefix.String())
		t.add("port_lid", p.LID)
		t.add("sm_lid", p.SMLID)
		t.add("port_lmc", p.LMC)
	} else if attr != nil && s.Details > 0 {
		t.add("port_lid", attr.LID)
		t.add("sm_lid", attr.SMLID)
		t.add("port_lmc", attr.LMC)
	}
}

// portDetails are what ibv_devinfo tells with -v.
func (t *table) portDetails(wanted bool, a *uverbs.PortAttr) {
	if a == nil || !wanted {
		return
	}
	t.addUnit("max_msg_sz", uint64(a.MaxMsgSize), unitBytes)
	t.add("port_cap_flags", fmt.Sprintf("0x%08x", a.CapFlags))
	t.add("port_cap_flags2", fmt.Sprintf("0x%04x", a.CapFlags2))
	t.add("max_vl_num", virtualLanes[a.MaxVLNum])
	t.add("bad_pkey_cntr", a.BadPKeyCounter)
	t.add("qkey_viol_cntr", a.QKeyViolationCounter)
	t.add("sm_sl", a.SMSL)
	t.add("pkey_tbl_len", a.PKeyTableLen)
	t.add("gid_tbl_len", a.GIDTableLen)
	t.add("subnet_timeout", a.SubnetTimeout)
	t.add("init_type_reply", a.InitTypeReply)
	t.add("grh_required", a.GRHRequired)
}

// virtualLanes of a port by the code of their number.
//
// C: vl_str of ibv_devinfo
var virtualLanes = map[uint8]int{1: 1, 2: 2, 3: 4, 4: 8, 5: 15}

// gidsOf lists the used slots: the device's own list, or else sysfs's.
func (s *subject) gidsOf(p netlinkrdma.Port, dir string) []uverbs.GIDEntry {
	gids := s.gids
	if gids == nil {
		gids = s.sysfsGIDs(p, dir)
	}
	gids = slices.DeleteFunc(slices.Clone(gids), func(e uverbs.GIDEntry) bool { return e.Port != p.Index })
	slices.SortStableFunc(gids, func(a, b uverbs.GIDEntry) int { return cmp.Compare(a.Index, b.Index) })
	return gids
}

// portGUID is the lower half of the first GID, as ibstat has it; iWARP's has none.
func (s *subject) portGUID(t *table, gids []uverbs.GIDEntry) {
	if s.NodeType != netlinkrdma.NodeRNIC && len(gids) > 0 && gids[0].Index == 0 {
		t.add("port_guid", netlinkrdma.GUID(binary.BigEndian.Uint64(gids[0].GID[8:])).String())
	}
}

func (s *subject) gidTables(gids []uverbs.GIDEntry, dir string) (all []table) {
	for _, e := range gids {
		t := table{{key: "index", value: e.Index}, {key: "gid", value: e.GID.String()}}
		if s.NodeType != netlinkrdma.NodeRNIC { // iWARP has one kind, which has no name
			t.add("type", e.Type.String())
		}
		t.addText("netdev", cmp.Or(s.netdevs[e.NetdevIndex], s.Sys.Text(dir, "gid_attrs/ndevs", strconv.FormatUint(uint64(e.Index), 10))))
		all = append(all, t)
	}
	return all
}

func (s *subject) sysfsGIDs(p netlinkrdma.Port, dir string) (all []uverbs.GIDEntry) {
	sys := s.Sys
	for _, slot := range sys.List(path.Join(dir, "gids")) {
		index, err := strconv.ParseUint(slot, 10, 32)
		raw, err2 := hex.DecodeString(strings.ReplaceAll(sys.Text(dir, "gids", slot), ":", ""))
		if err != nil || err2 != nil || len(raw) != 16 || uverbs.GID(raw) == (uverbs.GID{}) {
			continue
		}
		e := uverbs.GIDEntry{GID: uverbs.GID(raw), Port: p.Index, Index: uint32(index)}
		switch sys.Text(dir, "gid_attrs/types", slot) {
		case "RoCE v2":
			e.Type = uverbs.GIDTypeRoCEv2
		case "IB/RoCE v1":
			if s.Protocol == "roce" {
				e.Type = uverbs.GIDTypeRoCEv1
			}
		}
		all = append(all, e)
	}
	return all
}

// pkeys lists the used slots; the kernel shows them in sysfs only.
func (s *subject) pkeys(dir string) (all []table) {
	sys := s.Sys
	for _, slot := range sys.List(path.Join(dir, "pkeys")) {
		index, err := strconv.ParseUint(slot, 10, 32)
		key := sys.Text(dir, "pkeys", slot)
		if err == nil && key != "" && key != "0x0000" {
			all = append(all, table{{key: "index", value: index}, {key: "pkey", value: key}})
		}
	}
	slices.SortFunc(all, func(a, b table) int { return cmp.Compare(a[0].value.(uint64), b[0].value.(uint64)) })
	return all
}
