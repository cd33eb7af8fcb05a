package madtest

import (
	"encoding/binary"

	"github.com/goverbs/goverbs/ib/mad"
	"github.com/goverbs/goverbs/verbs"
)

// answer returns the response of a node's own agents to a request. It returns nil if there is none,
// or if the request is for a program. It may overwrite the request.
func (n *Node) answer(at, via *Port, m *mad.Message) mad.MAD {
	req := m.Data
	method := req.Method()
	var agent func(resp mad.MAD) mad.Status
	switch req.Class() {
	case mad.ClassLID, mad.ClassDirected:
		if method != mad.Get && method != mad.Set {
			if method == mad.Trap && n.subnet.sm.at(at) {
				n.subnet.sm.trap(m)
			}
			return nil
		}
		if req.AttrID() == mad.AttrSMInfo && at.smInfo == nil {
			return nil // for a program, which may be the subnet manager
		}
		if !at.checkMKey(req) {
			return nil
		}
		agent = func(resp mad.MAD) mad.Status { return n.manage(at, via, resp) }
	case mad.ClassPerf:
		if method != mad.Get && method != mad.Set {
			return nil
		}
		agent = func(resp mad.MAD) mad.Status { return n.measure(at, resp) }
	case mad.ClassCC:
		if method != mad.Get && method != mad.Set || !at.congested().allows(req) {
			return nil
		}
		agent = func(resp mad.MAD) mad.Status { return n.congestion(at, resp) }
	case mad.ClassSA:
		if !n.subnet.sm.at(at) || method.IsResponse() || method == mad.Report {
			return nil // reports are for programs
		}
		return n.subnet.sm.administer(m)
	default:
		return nil
	}
	resp := append(mad.MAD(nil), req...)
	if n.fault.Busy > 0 {
		n.fault.Busy--
		resp.SetStatus(mad.StatusBusy)
	} else if req.ClassVersion() != req.Class().Version() {
		resp.SetStatus(mad.StatusBadVersion)
	} else {
		resp.SetStatus(agent(resp))
	}
	resp.SetMethod(method.Response())
	if req.Class() == mad.ClassDirected {
		resp.SetReturning(true)
	}
	return resp
}

// checkMKey reports whether a request has the M_Key that it needs for the port. It counts violations.
func (p *Port) checkMKey(req mad.MAD) bool {
	key := p.info.MKey
	if key == 0 || req.MKey() == key || req.Method() == mad.Get && p.info.ProtectBits < 2 {
		return true
	}
	if p.info.MKeyViolations < 0xffff {
		p.info.MKeyViolations++
	}
	p.node.trap(p, mad.TrapBadMKey, func(details []byte) {
		binary.BigEndian.PutUint16(details[2:], p.owner().info.LID)
		details[6] = byte(req.Method())
		binary.BigEndian.PutUint16(details[8:], uint16(req.AttrID()))
		binary.BigEndian.PutUint32(details[10:], req.Modifier())
		binary.BigEndian.PutUint64(details[14:], req.MKey())
	})
	return false
}

// manage handles a request of subnet management and replaces it with the response.
func (n *Node) manage(at, via *Port, m mad.MAD) mad.Status {
	set := m.Method() == mad.Set
	data, modifier := m.Data(), m.Modifier()
	switch m.AttrID() {
	case mad.AttrNodeDescription:
		if set {
			return mad.StatusBadMethodAttr
		}
		clear(data)
		copy(data, n.desc)
		return mad.StatusOK
	case mad.AttrNodeInfo:
		if set {
			return mad.StatusBadMethodAttr
		}
		info := n.info
		info.LocalPort, info.PortGUID = via.num, at.guid
		return put(data, &info)
	case mad.AttrSwitchInfo:
		return n.switchInfo(set, data)
	case mad.AttrPortInfo:
		return n.portInfo(at, via, m, set)
	case mad.AttrMlnxExtPortInfo:
		return n.mlnxExtPortInfo(at, m, set)
	case mad.AttrGUIDInfo:
		return at.guidInfo(set, modifier, data)
	case mad.AttrPKeyTable:
		return n.pkeyTable(at, set, modifier, data)
	case mad.AttrSL2VLTable:
		return n.sl2vlTable(at, set, modifier, data)
	case mad.AttrVLArbTable:
		return n.vlArbTable(at, set, modifier, data)
	case mad.AttrLinearForwardingTable:
		return n.linearTable(set, modifier, data)
	case mad.AttrMulticastForwardingTable:
		return n.multicastTable(set, modifier, data)
	case mad.AttrSMInfo:
		if set {
			return mad.StatusBadMethodAttr
		}
		at.smInfo.Activity++
		return put(data, at.smInfo)
	}
	return mad.StatusBadMethodAttr
}

// put encodes an attribute into data.
func put(data []byte, a mad.Attribute) mad.Status {
	clear(data)
	if err := mad.Marshal(data, a); err != nil {
		return mad.StatusInvalid
	}
	return mad.StatusOK
}

func (n *Node) switchInfo(set bool, data []byte) mad.Status {
	if n.sw == nil {
		return mad.StatusBadMethodAttr
	}
	info := &n.sw.info
	if set {
		var want mad.SwitchInfo
		if mad.Unmarshal(data, &want) != nil || want.LinearFDBTop >= info.LinearFDBCap {
			return mad.StatusInvalid
		}
		info.LinearFDBTop, info.LifeTime, info.MulticastFDBTop = want.LinearFDBTop, want.LifeTime, want.MulticastFDBTop
		info.DefaultPort, info.DefaultMulticastPrimaryPort = want.DefaultPort, want.DefaultMulticastPrimaryPort
		info.DefaultMulticastNotPrimaryPort, info.OptimizedSLtoVLMapping = want.DefaultMulticastNotPrimaryPort, want.OptimizedSLtoVLMapping
		if want.StateChange {
			info.StateChange = false
		}
	}
	return put(data, info)
}

// portOf returns the port that a modifier names, or nil. An adapter answers only for the port that
// received the request.
func (n *Node) portOf(at *Port, num uint32) *Port {
	switch {
	case n.sw == nil && (num == 0 || num == uint32(at.num)):
		return at
	case n.sw == nil || num >= uint32(len(n.ports)):
		return nil
	}
	return n.ports[num]
}

func (n *Node) portInfo(at, via *Port, m mad.MAD, set bool) mad.Status {
	num := m.Modifier() &^ mad.ExtendedSpeeds
	p := n.portOf(at, num)
	if p == nil && !set && num > 0 && num < uint32(len(n.ports)) {
		p = n.ports[num] // reading other ports of an adapter is permitted
	}
	if p == nil {
		return mad.StatusInvalid
	}
	if set {
		var want mad.PortInfo
		if mad.Unmarshal(m.Data(), &want) != nil || !p.configure(&want) {
			return mad.StatusInvalid
		}
	}
	info := p.info
	info.LocalPort = via.num
	if key := at.info.MKey; key != 0 && m.MKey() != key && at.info.ProtectBits > 0 {
		info.MKey = 0
	}
	return put(m.Data(), &info)
}

func (n *Node) mlnxExtPortInfo(at *Port, m mad.MAD, set bool) mad.Status {
	p := n.portOf(at, m.Modifier())
	if p == nil {
		return mad.StatusInvalid
	}
	if set {
		var want mad.MlnxExtPortInfo
		if mad.Unmarshal(m.Data(), &want) != nil {
			return mad.StatusInvalid
		}
		p.mlnx.StateChangeEnable, p.mlnx.LinkSpeedEnabled = want.StateChangeEnable, want.LinkSpeedEnabled
	}
	return put(m.Data(), &p.mlnx)
}

// configure applies a Set of PortInfo to the port. It reports whether the values are valid.
func (p *Port) configure(want *mad.PortInfo) bool {
	info := &p.info
	link := p.num != 0
	switch {
	case want.LinkState > verbs.PortActive || want.OperVLs > info.VLCap || want.NeighborMTU > info.MTUCap:
		return false
	case want.LID >= mad.MinMulticast:
		return false
	case link && want.LinkState == verbs.PortArmed && info.LinkState != verbs.PortInit && info.LinkState != verbs.PortArmed:
		return false
	case link && want.LinkState == verbs.PortActive && info.LinkState != verbs.PortArmed && info.LinkState != verbs.PortActive:
		return false
	case !link && (want.LinkState == verbs.PortDown || want.PhysLinkState == verbs.PhysDisabled || want.PhysLinkState == verbs.PhysPolling):
		return false
	}
	if p.num == 0 || p.node.sw == nil {
		info.LID, info.SMLID, info.LMC, info.SMSL, info.GIDPrefix = want.LID, want.SMLID, want.LMC, want.SMSL, want.GIDPrefix
		info.MKey, info.MKeyLeasePeriod, info.ProtectBits = want.MKey, want.MKeyLeasePeriod, want.ProtectBits
		info.SubnetTimeout, info.MulticastPKeyTrapSuppression, info.InitType = want.SubnetTimeout, want.MulticastPKeyTrapSuppression, want.InitType
		info.MKeyViolations, info.PKeyViolations, info.QKeyViolations = want.MKeyViolations, want.PKeyViolations, want.QKeyViolations
	}
	info.VLHighLimit, info.VLStallCount, info.HOQLife, info.LocalPhysErrors, info.OverrunErrors = want.VLHighLimit, want.VLStallCount, want.HOQLife, want.LocalPhysErrors, want.OverrunErrors
	info.PartitionEnforceInbound, info.PartitionEnforceOutbound = want.PartitionEnforceInbound, want.PartitionEnforceOutbound
	info.FilterRawInbound, info.FilterRawOutbound = want.FilterRawInbound, want.FilterRawOutbound
	if want.NeighborMTU != 0 {
		info.NeighborMTU = want.NeighborMTU
	}
	if want.OperVLs != 0 {
		info.OperVLs = want.OperVLs
	}
	if want.LinkDownDefaultState != 0 {
		info.LinkDownDefaultState = want.LinkDownDefaultState
	}
	p.enable(want)
	if !link {
		return true
	}
	switch {
	case want.PhysLinkState == verbs.PhysDisabled || want.PhysLinkState == verbs.PhysPolling || want.PhysLinkState == verbs.PhysSleep:
		info.PhysLinkState = want.PhysLinkState
		if want.PhysLinkState != verbs.PhysDisabled {
			p.retrain()
		} else {
			p.train()
		}
	case want.LinkState == verbs.PortDown:
		p.retrain()
	case want.LinkState >= verbs.PortArmed:
		info.LinkState = want.LinkState
	}
	return true
}

// enable sets the widths and speeds that the port offers when its link trains the next time. The value
// 0 means no change, and all bits mean all supported ones.
func (p *Port) enable(want *mad.PortInfo) {
	info := &p.info
	switch want.LinkWidthEnabled {
	case 0:
	case 0xff:
		info.LinkWidthEnabled = info.LinkWidthSupported
	default:
		info.LinkWidthEnabled = want.LinkWidthEnabled
	}
	switch want.LinkSpeedEnabled {
	case 0:
	case 0xf:
		info.LinkSpeedEnabled = info.LinkSpeedSupported
	default:
		info.LinkSpeedEnabled = want.LinkSpeedEnabled
	}
	switch want.LinkSpeedExtEnabled {
	case 0:
	case 0x1f:
		info.LinkSpeedExtEnabled = info.LinkSpeedExtSupported
	default:
		info.LinkSpeedExtEnabled = want.LinkSpeedExtEnabled
	}
	switch want.LinkSpeedExtEnabled2 {
	case 0:
	case 7:
		info.LinkSpeedExtEnabled2 = info.LinkSpeedExtSupported2
	default:
		info.LinkSpeedExtEnabled2 = want.LinkSpeedExtEnabled2
	}
}

// retrain takes the link down. It brings the link up again if the cable and the other end permit.
func (p *Port) retrain() {
	q := p.peer
	if q == nil {
		return
	}
	for _, end := range []*Port{p, q} {
		if end.info.PhysLinkState != verbs.PhysDisabled {
			end.info.PhysLinkState = verbs.PhysPolling
		}
	}
	p.train()
}

func (p *Port) guidInfo(set bool, block uint32, data []byte) mad.Status {
	if block > 255/8 || block*8 >= uint32(p.info.GUIDCap) {
		return mad.StatusInvalid
	}
	first := int(block) * 8
	if set {
		var want mad.GUIDInfo
		if mad.Unmarshal(data, &want) != nil {
			return mad.StatusInvalid
		}
		for len(p.guids) < first+8 {
			p.guids = append(p.guids, 0)
		}
		copy(p.guids[first:], want.GUIDs[:])
	}
	var info mad.GUIDInfo
	if first < len(p.guids) {
		copy(info.GUIDs[:], p.guids[first:])
	}
	if first == 0 {
		info.GUIDs[0] = p.guid // read-only
	}
	return put(data, &info)
}

func (n *Node) pkeyTable(at *Port, set bool, modifier uint32, data []byte) mad.Status {
	p := n.portOf(at, modifier>>16)
	first := int(modifier&0xffff) * 32
	if p == nil || first >= pkeyCap {
		return mad.StatusInvalid
	}
	if p.pkeys == nil {
		p.pkeys = []uint16{defaultPKey}
	}
	if set {
		var want mad.PKeyTable
		if mad.Unmarshal(data, &want) != nil {
			return mad.StatusInvalid
		}
		for len(p.pkeys) < first+32 {
			p.pkeys = append(p.pkeys, 0)
		}
		copy(p.pkeys[first:], want.PKeys[:])
	}
	var table mad.PKeyTable
	if first < len(p.pkeys) {
		copy(table.PKeys[:], p.pkeys[first:])
	}
	return put(data, &table)
}

func (n *Node) sl2vlTable(at *Port, set bool, modifier uint32, data []byte) mad.Status {
	p := at
	if n.sw != nil {
		if p = n.portOf(at, modifier&0xff); p == nil || modifier>>8&0xff >= uint32(len(n.ports)) {
			return mad.StatusInvalid
		}
	} else {
		modifier = 0
	}
	key := uint16(modifier)
	table, ok := p.sl2vl[key]
	if set {
		if mad.Unmarshal(data, &table) != nil {
			return mad.StatusInvalid
		}
		if p.sl2vl == nil {
			p.sl2vl = map[uint16]mad.SL2VLTable{}
		}
		p.sl2vl[key] = table
	} else if !ok {
		for sl := range table.VL {
			table.VL[sl] = uint8(sl) % 8
		}
	}
	return put(data, &table)
}

func (n *Node) vlArbTable(at *Port, set bool, modifier uint32, data []byte) mad.Status {
	p := n.portOf(at, modifier&0xffff)
	block := modifier >> 16
	if n.sw == nil {
		p = at
	}
	if p == nil || block < 1 || block > 4 || block%2 == 0 {
		return mad.StatusInvalid // the tables have 8 entries; blocks 2 and 4 would hold those from 32 on
	}
	table, ok := p.vlarb[uint8(block)]
	if set {
		if mad.Unmarshal(data, &table) != nil {
			return mad.StatusInvalid
		}
		if p.vlarb == nil {
			p.vlarb = map[uint8]mad.VLArbTable{}
		}
		p.vlarb[uint8(block)] = table
	} else if !ok {
		for i := range 8 {
			table.Entries[i].VL = uint8(i)
			if (block == 1) == (i > 0) {
				table.Entries[i].Weight = 4
			}
		}
	}
	return put(data, &table)
}

func (n *Node) linearTable(set bool, block uint32, data []byte) mad.Status {
	first := int(block&0xffff) * 64
	if n.sw == nil || first >= int(n.sw.info.LinearFDBCap) {
		return mad.StatusBadMethodAttr
	}
	if set {
		for len(n.sw.lft) < first+64 {
			n.sw.lft = append(n.sw.lft, 255)
		}
		copy(n.sw.lft[first:first+64], data)
		return mad.StatusOK
	}
	for i := range 64 {
		data[i] = 255
	}
	if first < len(n.sw.lft) {
		copy(data[:64], n.sw.lft[first:])
	}
	return mad.StatusOK
}

func (n *Node) multicastTable(set bool, modifier uint32, data []byte) mad.Status {
	key := mftBlock{uint16(modifier & 0x1ff), uint8(modifier >> 28)}
	if n.sw == nil || int(key.block)*32 >= int(n.sw.info.MulticastFDBCap) || int(key.position)*16 >= len(n.ports) {
		return mad.StatusBadMethodAttr
	}
	table := mad.MulticastForwardingTable{Ports: n.sw.mft[key]}
	if set {
		if mad.Unmarshal(data, &table) != nil {
			return mad.StatusInvalid
		}
		n.sw.mft[key] = table.Ports
	}
	return put(data, &table)
}

// trap sends a notice to the subnet manager whose LID is in the PortInfo, if there is one. fill writes
// the notice's details.
func (n *Node) trap(from *Port, number uint16, fill func(details []byte)) {
	from = from.owner()
	if from.info.SMLID == 0 || from.info.LID == 0 {
		return
	}
	var details [54]byte
	fill(details[:])
	m := mad.New(mad.ClassLID, mad.Trap, mad.AttrNotice, 0)
	notice := mad.Notice{
		Generic: true, Type: trapType(number), ProducerType: uint32(n.info.Type), TrapNumber: number, IssuerLID: from.info.LID, Details: details,
	}
	if mad.Marshal(m.Data(), &notice) != nil {
		return
	}
	n.subnet.send(from, &mad.Message{Addr: mad.Addr{LID: from.info.SMLID, SL: from.info.SMSL}, Data: m})
}

// trapType returns the type of a notice: 1 for urgent, 2 for security, 4 for informational.
func trapType(number uint16) uint8 {
	switch number {
	case mad.TrapLinkState:
		return 1
	case mad.TrapBadMKey:
		return 2
	}
	return 4
}

// Flags of trap 144.
const (
	otherChange = 1 // in the field of local changes: the change flags say which
	nameChange  = 1 // in the change flags
)

// trapLocalChange reports to the port's subnet manager that the CapMask of the port or the description of
// its node has changed.
func (p *Port) trapLocalChange(name bool) {
	own := p.owner()
	p.node.trap(own, mad.TrapLocalChanges, func(details []byte) {
		binary.BigEndian.PutUint16(details[2:], own.info.LID)
		binary.BigEndian.PutUint32(details[6:], own.info.CapMask)
		if name {
			details[5] = otherChange
			binary.BigEndian.PutUint16(details[10:], nameChange)
		}
	})
}
