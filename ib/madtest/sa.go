package madtest

import (
	"bytes"
	"slices"

	"github.com/goverbs/goverbs/ib/mad"
	"github.com/goverbs/goverbs/verbs"
)

// Capabilities of subnet administration, and limits for the records that programs create.
const (
	saUDMulticast = 1 << 9
	saOptional    = 1 << 8
	saMultiPath   = 1 << 10
	saReverseRate = 0x10
	matchCapMask  = 1 << 31 // bit of the modifier: match records that have all CapMask bits of the query
	maxGroups     = 1024
	maxServices   = 1024
	maxInforms    = 1024
)

// administer returns the response to a request of subnet administration.
func (sm *subnetManager) administer(m *mad.Message) mad.MAD {
	req := m.Data
	resp := append(mad.MAD(nil), req[:mad.Size]...)
	resp.SetMethod(req.Method().Response())
	resp.SetStatus(mad.StatusOK)
	if req.ClassVersion() != mad.ClassSA.Version() {
		resp.SetStatus(mad.StatusBadVersion)
		return resp
	}
	switch req.AttrID() {
	case mad.AttrClassPortInfo:
		info := mad.ClassPortInfo{
			BaseVersion: 1, ClassVersion: 2, CapMask: saUDMulticast | saOptional | saMultiPath, RespTime: saReverseRate,
			RedirectQP: 1, RedirectQKey: mad.QKeyGSI, TrapQKey: mad.QKeyGSI,
		}
		resp.SetStatus(put(resp.Data()[:72], &info))
		return resp
	case mad.AttrInformInfo:
		resp.SetStatus(sm.inform(m))
		return resp
	}
	var records [][]byte
	var status mad.Status
	switch req.Method() {
	case mad.Get, mad.GetTable:
		records, status = sm.query(req)
	case mad.GetMulti:
		records, status = sm.multiPaths(req)
		resp.SetAttrID(mad.AttrPathRecord)
	case mad.Set:
		records, status = sm.change(req)
	case mad.Delete:
		records, status = sm.remove(req)
	default:
		status = mad.StatusBadMethod
	}
	switch {
	case status != mad.StatusOK:
	case req.Method() == mad.GetTable || req.Method() == mad.GetMulti:
		return table(resp, records)
	case len(records) == 0:
		status = mad.StatusSANoRecords
	case len(records) > 1:
		status = mad.StatusSATooManyRecords
	default:
		clear(resp.Data())
		copy(resp.Data(), records[0])
		resp.SetAttrOffset(uint16((len(records[0]) + 7) / 8))
		return resp
	}
	resp.SetStatus(status)
	clear(resp.Data())
	return resp
}

// table returns the response to GetTable, which is an RMPP message.
func table(resp mad.MAD, records [][]byte) mad.MAD {
	const headers = 56
	resp = resp[:headers]
	size := 0
	for _, r := range records {
		size = (len(r) + 7) / 8 * 8
		resp = append(resp, r...)
		resp = append(resp, make([]byte, size-len(r))...)
	}
	// The length includes the class header of each segment.
	const segment, classHeader = 200, 20
	length := len(resp) - headers
	segments := max(1, (length+segment-1)/segment)
	for len(resp) < mad.Size {
		resp = append(resp, 0)
	}
	resp.SetAttrOffset(uint16(size / 8))
	resp.SetRMPPVersion(1)
	resp.SetRMPPType(mad.RMPPData)
	resp.SetRMPPFlags(mad.RMPPActive | mad.RMPPFirst | mad.RMPPLast)
	resp.SetRMPPSegment(1)
	resp.SetRMPPLength(uint32(length + segments*classHeader))
	return resp
}

// marshal returns the bytes of a record.
func marshal(a mad.Attribute) []byte {
	b := make([]byte, (mad.LayoutOf(a).Size+7)/8*8)
	if err := mad.Marshal(b, a); err != nil {
		return nil
	}
	return b
}

// Widths in bits of the components of records, in the order of the bits of a component mask.
var (
	portInfoWidths = []int{64, 64, 16, 16, 32, 16, 16, 8, 8, 8, 8, 4, 4, 4, 4, 2, 3, 3, 4, 4, 4, 4, 4, 4, 8, 8, 8, 4, 4, 3, 5, 4, 1, 1, 1, 1, 16, 16, 16, 8}

	recordWidths = map[mad.AttrID][]int{
		mad.AttrNodeRecord:       {16, 16, 8, 8, 8, 8, 64, 64, 64, 16, 16, 32, 8, 24, 512},
		mad.AttrPortInfoRecord:   append([]int{16, 8, 8}, portInfoWidths...),
		mad.AttrSwitchInfoRecord: {16, 16, 16, 16, 16, 16, 8, 8, 8, 5, 1, 2, 16, 16},
		mad.AttrLFTRecord:        {16, 16, 32, 512},
		mad.AttrMFTRecord:        {16, 4, 3, 9, 32, 512},
		mad.AttrSL2VLTableRecord: {16, 8, 8, 32},
		mad.AttrVLArbTableRecord: {16, 8, 8, 32, 512},
		mad.AttrPKeyTableRecord:  {16, 16, 8, 24, 512},
		mad.AttrGUIDInfoRecord:   {16, 8, 8, 32},
		mad.AttrSMInfoRecord:     {16, 16, 64, 64, 32, 4, 4},
		mad.AttrLinkRecord:       {16, 8, 8, 16},
		mad.AttrServiceRecord:    {64, 128, 16, 16, 32, 128, 512},
		mad.AttrMCMemberRecord:   {128, 128, 32, 16, 2, 6, 8, 16, 2, 6, 2, 6, 4, 20, 8, 4, 4, 1},
		mad.AttrInformInfoRecord: {128, 16},
	}
)

// matches reports whether a record and a query are equal in the components that a mask selects.
func matches(record, query []byte, mask mad.ComponentMask, widths []int) bool {
	bit := 0
	for i, w := range widths {
		if mask&(1<<i) != 0 && !equalBits(record, query, bit, w) {
			return false
		}
		bit += w
	}
	return true
}

func equalBits(a, b []byte, bit, width int) bool {
	if bit%8 == 0 && width%8 == 0 {
		return bytes.Equal(a[bit/8:(bit+width)/8], b[bit/8:(bit+width)/8])
	}
	for i := bit; i < bit+width; i++ {
		if (a[i/8]^b[i/8])&(0x80>>(i%8)) != 0 {
			return false
		}
	}
	return true
}

// query returns the records that a Get or a GetTable selects.
func (sm *subnetManager) query(req mad.MAD) ([][]byte, mad.Status) {
	attr, mask := req.AttrID(), req.ComponentMask()
	if attr == mad.AttrPathRecord {
		return sm.paths(req)
	}
	widths, ok := recordWidths[attr]
	if !ok {
		return nil, mad.StatusBadMethodAttr
	}
	want := append(bytes.Clone(req.Data()), make([]byte, 128)...)
	byCapMask := attr == mad.AttrPortInfoRecord && req.Modifier()&matchCapMask != 0 && mask&mad.MaskPortInfoCapMask != 0
	if byCapMask {
		mask &^= mad.MaskPortInfoCapMask
	}
	var records [][]byte
	sm.records(attr, want, mask, func(a mad.Attribute) {
		r := marshal(a)
		if r == nil || !matches(r, want, mask, widths) {
			return
		}
		if byCapMask {
			const capMask = 4 + 20
			for i := range 4 {
				if r[capMask+i]&want[capMask+i] != want[capMask+i] {
					return
				}
			}
		}
		records = append(records, r)
	})
	return records, mad.StatusOK
}

// records calls yield with the records of an attribute. If the mask selects by LID, it skips other LIDs.
func (sm *subnetManager) records(attr mad.AttrID, want []byte, mask mad.ComponentMask, yield func(mad.Attribute)) {
	switch attr {
	case mad.AttrServiceRecord:
		for i := range sm.services {
			yield(&sm.services[i])
		}
		return
	case mad.AttrMCMemberRecord:
		sm.memberships(mask, yield)
		return
	case mad.AttrInformInfoRecord:
		for i := range sm.informs {
			yield(&mad.InformInfoRecord{SubscriberGID: sm.informs[i].gid, Enum: uint16(i), InformInfo: sm.informs[i].info})
		}
		return
	}
	ports := sm.byLID
	if mask&mad.MaskLID != 0 {
		lid := int(want[0])<<8 | int(want[1])
		if lid >= len(ports) {
			return
		}
		ports = ports[lid : lid+1]
	}
	for _, p := range ports {
		if p != nil {
			sm.portRecords(attr, p, yield)
		}
	}
}

func (sm *subnetManager) portRecords(attr mad.AttrID, p *Port, yield func(mad.Attribute)) {
	n, lid := p.node, p.info.LID
	each := func(f func(*Port)) { // calls f for the ports with the LID of p
		if n.sw == nil {
			f(p)
			return
		}
		for _, q := range n.ports {
			f(q)
		}
	}
	switch attr {
	case mad.AttrNodeRecord:
		info := n.info
		info.PortGUID, info.LocalPort = p.guid, p.num
		yield(&mad.NodeRecord{LID: lid, NodeInfo: info, Description: mad.NodeDescription{Text: n.desc}})
	case mad.AttrPortInfoRecord:
		each(func(q *Port) {
			info := q.info
			info.LocalPort = q.num
			yield(&mad.PortInfoRecord{LID: lid, PortNum: q.num, PortInfo: info})
		})
	case mad.AttrSMInfoRecord:
		if p.smInfo != nil {
			yield(&mad.SMInfoRecord{LID: lid, SMInfo: *p.smInfo})
		}
	case mad.AttrGUIDInfoRecord:
		r := mad.GUIDInfoRecord{LID: lid}
		copy(r.GUIDInfo.GUIDs[:], p.guids)
		r.GUIDInfo.GUIDs[0] = p.guid
		yield(&r)
	case mad.AttrPKeyTableRecord:
		r := mad.PKeyTableRecord{LID: lid, PortNum: p.num}
		copy(r.Table.PKeys[:], p.pkeys)
		yield(&r)
	case mad.AttrLinkRecord:
		each(func(q *Port) {
			if q.num != 0 && q.peer != nil && q.info.PhysLinkState == verbs.PhysLinkUp {
				yield(&mad.LinkRecord{FromLID: lid, FromPort: q.num, ToPort: q.peer.num, ToLID: q.peer.owner().info.LID})
			}
		})
	case mad.AttrSL2VLTableRecord, mad.AttrVLArbTableRecord:
		each(func(q *Port) {
			if q.num == 0 && n.sw != nil {
				return
			}
			sm.arbitration(attr, lid, q, yield)
		})
	}
	if n.sw == nil {
		return
	}
	switch attr {
	case mad.AttrSwitchInfoRecord:
		yield(&mad.SwitchInfoRecord{LID: lid, SwitchInfo: n.sw.info})
	case mad.AttrLFTRecord:
		for first := 0; first < len(n.sw.lft); first += 64 {
			r := mad.LFTRecord{LID: lid, Block: uint16(first / 64)}
			copy(r.Table.Ports[:], n.sw.lft[first:])
			yield(&r)
		}
	case mad.AttrMFTRecord:
		keys := make([]mftBlock, 0, len(n.sw.mft))
		for k := range n.sw.mft {
			keys = append(keys, k)
		}
		slices.SortFunc(keys, func(a, b mftBlock) int {
			return int(a.block)*16 + int(a.position) - int(b.block)*16 - int(b.position)
		})
		for _, k := range keys {
			yield(&mad.MFTRecord{LID: lid, Block: k.block, Position: k.position, Table: mad.MulticastForwardingTable{Ports: n.sw.mft[k]}})
		}
	}
}

// arbitration yields the tables of virtual lanes. It reads them from the port's own agent.
func (sm *subnetManager) arbitration(attr mad.AttrID, lid uint16, p *Port, yield func(mad.Attribute)) {
	var data [64]byte
	if attr == mad.AttrVLArbTableRecord {
		for block := uint32(1); block <= 3; block += 2 {
			r := mad.VLArbTableRecord{LID: lid, OutPort: p.num, Block: uint8(block)}
			if p.node.vlArbTable(p, false, block<<16|uint32(p.num), data[:]) == mad.StatusOK && mad.Unmarshal(data[:], &r.Table) == nil {
				yield(&r)
			}
		}
		return
	}
	ins := 1
	if p.node.sw != nil {
		ins = len(p.node.ports)
	}
	for in := range ins {
		r := mad.SL2VLTableRecord{LID: lid, InPort: uint8(in), OutPort: p.num}
		if p.node.sw == nil {
			r.OutPort = 0
		}
		if p.node.sl2vlTable(p, false, uint32(in)<<8|uint32(p.num), data[:]) == mad.StatusOK && mad.Unmarshal(data[:], &r.Table) == nil {
			yield(&r)
		}
	}
}

// memberships yields multicast groups. It yields each group once, unless the query selects by port.
func (sm *subnetManager) memberships(mask mad.ComponentMask, yield func(mad.Attribute)) {
	for _, g := range sm.groups {
		r := g.record
		if mask&mad.MaskMulticastPortGID == 0 {
			yield(&r)
			continue
		}
		for gid, state := range g.members {
			r.PortGID, r.JoinState = gid, state
			yield(&r)
		}
	}
}

// paths returns the paths that a PathRecord query selects.
func (sm *subnetManager) paths(req mad.MAD) ([][]byte, mad.Status) {
	var want mad.PathRecord
	if mad.Unmarshal(req.Data(), &want) != nil {
		return nil, mad.StatusSAInvalidRequest
	}
	mask := req.ComponentMask()
	pick := func(byGID, byLID bool, gid verbs.GID, lid uint16) (*Port, mad.Status) {
		var p *Port
		switch {
		case byGID:
			if p = sm.byGID(gid); p == nil {
				return nil, mad.StatusSAInvalidGID
			}
		case byLID:
			if int(lid) < len(sm.byLID) {
				p = sm.byLID[lid]
			}
			if p == nil {
				return nil, mad.StatusSANoRecords
			}
		}
		return p, mad.StatusOK
	}
	src, status := pick(mask&mad.MaskPathSGID != 0, mask&mad.MaskPathSLID != 0, want.SGID, want.SLID)
	if status != mad.StatusOK {
		return nil, status
	}
	dst, status := pick(mask&mad.MaskPathDGID != 0, mask&mad.MaskPathDLID != 0, want.DGID, want.DLID)
	if status != mad.StatusOK {
		return nil, status
	}
	if src == nil && dst == nil && req.Method() == mad.Get {
		return nil, mad.StatusSAInsufficient
	}
	srcs, dsts := []*Port{src}, []*Port{dst}
	if src == nil {
		srcs = sm.byLID
	}
	if dst == nil {
		dsts = sm.byLID
	}
	const maxPaths = 1 << 15 // fewer than fit into the 16 MiB of an RMPP message
	const maxPairs = 1 << 20 // paths between all ports of a large subnet would take minutes
	pairs := 0
	var records [][]byte
	for _, a := range srcs {
		for _, b := range dsts {
			if a == nil || b == nil {
				continue
			}
			if pairs++; pairs > maxPairs {
				return nil, mad.StatusSANoResources
			}
			if key, ok := shared(a, b); !ok || mask&mad.MaskPathPKey != 0 && key&0x7fff != want.PKey&0x7fff {
				continue
			}
			r, ok := sm.path(a, b)
			if !ok {
				continue
			}
			if records = append(records, marshal(&r)); len(records) > maxPaths {
				return nil, mad.StatusSANoResources
			}
		}
	}
	return records, mad.StatusOK
}

// multiPaths returns the paths that a MultiPathRecord query selects. There is one path between two ports.
func (sm *subnetManager) multiPaths(req mad.MAD) ([][]byte, mad.Status) {
	var want mad.MultiPathRecord
	if req.AttrID() != mad.AttrMultiPathRecord {
		return nil, mad.StatusBadMethodAttr
	}
	if req.RMPPFlags()&mad.RMPPActive == 0 || mad.Unmarshal(req.Data(), &want) != nil {
		return nil, mad.StatusSAInvalidRequest
	}
	const counts = mad.MaskMultiPathSources | mad.MaskMultiPathDestinations
	mask, sources, all := req.ComponentMask(), int(want.Sources), int(want.Sources)+int(want.Destinations)
	switch {
	case mask&counts != counts:
		return nil, mad.StatusSAInsufficient
	case sources == 0 || sources == all || all > len(want.GIDs), mask&mad.MaskMultiPathNumPaths != 0 && want.NumPaths == 0:
		return nil, mad.StatusSAInvalidRequest
	}
	var ports [mad.MaxMultiPathGIDs]*Port
	for i := range all {
		if ports[i] = sm.byGID(want.GIDs[i].GID); ports[i] == nil {
			return nil, mad.StatusSAInvalidGID
		}
	}
	var records [][]byte
	for _, a := range ports[:sources] {
		for _, b := range ports[sources:all] {
			if r, ok := sm.path(a, b); ok && (mask&mad.MaskMultiPathPKey == 0 || r.PKey&0x7fff == want.PKey&0x7fff) {
				records = append(records, marshal(&r))
			}
		}
	}
	return records, mad.StatusOK
}

// path returns the path along the forwarding tables from one port to another.
func (sm *subnetManager) path(a, b *Port) (mad.PathRecord, bool) {
	pkey, ok := shared(a, b)
	if !ok {
		return mad.PathRecord{}, false
	}
	mtu, rate := verbs.MTU4096, 1e9
	p := a
	for range maxHops {
		if p.owner() == b {
			if a == b {
				mtu, rate = a.info.NeighborMTU, gbps(&a.info)
			}
			return mad.PathRecord{
				DGID: b.gid(), SGID: a.gid(), DLID: b.info.LID, SLID: a.info.LID, Reversible: true, PKey: pkey,
				MTUSelector: mad.Exactly, MTU: mtu, RateSelector: mad.Exactly, Rate: rateCode(rate), LifeSelector: mad.Exactly, PacketLifeTime: 18,
			}, true
		}
		out := p
		if sw := p.node.sw; sw != nil {
			num := sw.outPort(b.info.LID)
			if num == 0 || int(num) >= len(p.node.ports) {
				return mad.PathRecord{}, false
			}
			out = p.node.ports[num]
		} else if p != a {
			return mad.PathRecord{}, false
		}
		if out.peer == nil || out.info.LinkState != verbs.PortActive {
			return mad.PathRecord{}, false
		}
		mtu, rate = min(mtu, out.info.NeighborMTU), min(rate, gbps(&out.info))
		p = out.peer
	}
	return mad.PathRecord{}, false
}

// gbps returns the rate of a link in Gb/s.
func gbps(info *mad.PortInfo) float64 {
	lanes := map[mad.LinkWidth]float64{mad.Width1X: 1, mad.Width2X: 2, mad.Width4X: 4, mad.Width8X: 8, mad.Width12X: 12}[info.LinkWidthActive]
	speed := map[uint8]float64{1: 2.5, 2: 5, 4: 10}[info.LinkSpeedActive]
	if ext := map[uint8]float64{1: 14, 2: 25, 4: 50, 8: 100}[info.LinkSpeedExtActive]; ext != 0 {
		speed = ext
	}
	if info.LinkSpeedExtActive2 != 0 {
		speed = 200
	}
	return lanes * speed
}

// rateCode returns the specification's code for a rate.
func rateCode(gbps float64) uint8 {
	codes := []struct {
		gbps float64
		code uint8
	}{{2.5, 2}, {5, 5}, {10, 3}, {14, 11}, {20, 6}, {25, 15}, {28, 19}, {30, 4}, {40, 7}, {50, 20}, {56, 12}, {60, 8}, {80, 9}, {100, 16}, {112, 13}, {120, 10}, {168, 14}, {200, 17}, {300, 18}, {400, 21}, {600, 22}, {800, 23}, {1200, 24}}
	code := uint8(2)
	for _, c := range codes {
		if c.gbps <= gbps {
			code = c.code
		}
	}
	return code
}

// change handles Set, which joins a group or registers a service.
func (sm *subnetManager) change(req mad.MAD) ([][]byte, mad.Status) {
	switch req.AttrID() {
	case mad.AttrMCMemberRecord:
		return sm.join(req)
	case mad.AttrServiceRecord:
		var r mad.ServiceRecord
		if mad.Unmarshal(req.Data(), &r) != nil {
			return nil, mad.StatusSAInvalidRequest
		}
		i := slices.IndexFunc(sm.services, func(s mad.ServiceRecord) bool { return s.ID == r.ID && s.GID == r.GID && s.PKey == r.PKey })
		switch {
		case i >= 0:
			sm.services[i] = r
		case len(sm.services) == maxServices:
			return nil, mad.StatusSANoResources
		default:
			sm.services = append(sm.services, r)
		}
		return [][]byte{marshal(&r)}, mad.StatusOK
	}
	return nil, mad.StatusBadMethodAttr
}

func (sm *subnetManager) join(req mad.MAD) ([][]byte, mad.Status) {
	var r mad.MCMemberRecord
	if mad.Unmarshal(req.Data(), &r) != nil || r.MGID[0] != 0xff || r.JoinState == 0 {
		return nil, mad.StatusSAInvalidRequest
	}
	if sm.byGID(r.PortGID) == nil {
		return nil, mad.StatusSAInvalidGID
	}
	i := slices.IndexFunc(sm.groups, func(g *group) bool { return g.record.MGID == r.MGID })
	if i < 0 {
		const create = mad.MaskMulticastQKey | mad.MaskMulticastPKey
		switch {
		case req.ComponentMask()&create != create:
			return nil, mad.StatusSAInsufficient
		case len(sm.groups) == maxGroups:
			return nil, mad.StatusSANoResources
		}
		rec := r
		rec.PortGID, rec.JoinState, rec.MLID = verbs.GID{}, 0, sm.freeMLID()
		if rec.MTU == 0 {
			rec.MTU = verbs.MTU2048
		}
		if rec.Rate == 0 {
			rec.Rate = 3
		}
		rec.MTUSelector, rec.RateSelector, rec.LifeSelector = mad.Exactly, mad.Exactly, mad.Exactly
		sm.groups = append(sm.groups, &group{record: rec, members: map[verbs.GID]uint8{}})
		i = len(sm.groups) - 1
	}
	g := sm.groups[i]
	g.members[r.PortGID] |= r.JoinState
	sm.dirty = true
	out := g.record
	out.PortGID, out.JoinState = r.PortGID, g.members[r.PortGID]
	return [][]byte{marshal(&out)}, mad.StatusOK
}

func (sm *subnetManager) freeMLID() uint16 {
	for mlid := mad.MinMulticast; ; mlid++ {
		if !slices.ContainsFunc(sm.groups, func(g *group) bool { return g.record.MLID == mlid }) {
			return mlid
		}
	}
}

// remove handles Delete, which leaves a group or removes a service.
func (sm *subnetManager) remove(req mad.MAD) ([][]byte, mad.Status) {
	switch req.AttrID() {
	case mad.AttrMCMemberRecord:
		var r mad.MCMemberRecord
		if mad.Unmarshal(req.Data(), &r) != nil {
			return nil, mad.StatusSAInvalidRequest
		}
		i := slices.IndexFunc(sm.groups, func(g *group) bool { return g.record.MGID == r.MGID })
		if i < 0 || sm.groups[i].members[r.PortGID] == 0 {
			return nil, mad.StatusSANoRecords
		}
		g := sm.groups[i]
		out := g.record
		out.PortGID, out.JoinState = r.PortGID, g.members[r.PortGID]
		if g.members[r.PortGID] &^= r.JoinState; g.members[r.PortGID] == 0 {
			delete(g.members, r.PortGID)
		}
		if len(g.members) == 0 && i > 0 { // the broadcast group stays
			sm.groups = slices.Delete(sm.groups, i, i+1)
		}
		sm.dirty = true
		return [][]byte{marshal(&out)}, mad.StatusOK
	case mad.AttrServiceRecord:
		var r mad.ServiceRecord
		if mad.Unmarshal(req.Data(), &r) != nil {
			return nil, mad.StatusSAInvalidRequest
		}
		i := slices.IndexFunc(sm.services, func(s mad.ServiceRecord) bool { return s.ID == r.ID && s.GID == r.GID && s.PKey == r.PKey })
		if i < 0 {
			return nil, mad.StatusSANoRecords
		}
		out := sm.services[i]
		sm.services = slices.Delete(sm.services, i, i+1)
		return [][]byte{marshal(&out)}, mad.StatusOK
	}
	return nil, mad.StatusBadMethodAttr
}

// inform adds or removes a subscription to reports.
func (sm *subnetManager) inform(m *mad.Message) mad.Status {
	var info mad.InformInfo
	if m.Data.Method() != mad.Set || mad.Unmarshal(m.Data.Data(), &info) != nil {
		return mad.StatusBadMethodAttr
	}
	sm.informs = slices.DeleteFunc(sm.informs, func(s subscription) bool {
		return s.lid == m.Addr.LID && s.info.TrapNumber == info.TrapNumber
	})
	if info.Subscribe == 0 {
		return mad.StatusOK
	}
	if len(sm.informs) == maxInforms {
		return mad.StatusSANoResources
	}
	from := sm.port
	if int(m.Addr.LID) < len(sm.byLID) && sm.byLID[m.Addr.LID] != nil {
		from = sm.byLID[m.Addr.LID]
	}
	sm.informs = append(sm.informs, subscription{lid: m.Addr.LID, qpn: info.QPN, gid: from.gid(), info: info})
	return mad.StatusOK
}
