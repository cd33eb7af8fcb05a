package madtest

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/goverbs/goverbs/ib/mad"
	"github.com/goverbs/goverbs/verbs"
)

// subnetManager is the subnet manager in this process. It changes the nodes directly, where a real
// one sends MADs.
type subnetManager struct {
	subnet     *Subnet
	port       *Port
	lids       map[verbs.GUID]uint16 // by port GUID
	byLID      []*Port
	byGUID     map[verbs.GUID]*Port // those of byLID
	next       uint16
	dirty      bool // a trap has arrived since the last sweep
	groups     []*group
	services   []mad.ServiceRecord
	informs    []subscription
	partitions []partition
}

type group struct {
	record  mad.MCMemberRecord // without PortGID and JoinState
	members map[verbs.GID]uint8
}

type subscription struct {
	lid  uint16
	qpn  uint32
	gid  verbs.GID
	info mad.InformInfo
}

type partition struct {
	key     uint16
	members []*Port
}

// at reports whether the subnet manager runs at a port.
func (sm *subnetManager) at(p *Port) bool { return sm != nil && sm.port == p.owner() }

// StartSM starts a subnet manager on a switch, or on the first port of another node that has a link.
// The subnet manager assigns LIDs to all ports that it reaches, fills the forwarding tables with
// shortest paths, and activates the links. It answers queries of subnet administration. When it
// receives a trap, it sweeps the subnet again.
func (s *Subnet) StartSM(node string) error {
	s.mu.Lock()
	defer s.unlock()
	n := s.byName[node]
	switch {
	case n == nil:
		return failed("start", "subnet manager", "no node is named %q", node)
	case s.sm != nil:
		return failed("start", "subnet manager", "already running on %q", s.sm.port.node.name)
	}
	p := n.ports[0]
	for _, q := range n.ports[1:] {
		if p == nil && q.info.PhysLinkState == verbs.PhysLinkUp {
			p = q
		}
	}
	if p == nil {
		return failed("start", "subnet manager", "no port of %q has a link", node)
	}
	sm := &subnetManager{subnet: s, port: p, lids: map[verbs.GUID]uint16{}, byGUID: map[verbs.GUID]*Port{}, next: 1}
	broadcast := mad.MCMemberRecord{
		MGID: verbs.GID{0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 12: 0xff, 0xff, 0xff, 0xff},
		QKey: 0x0b1b, MLID: mad.MinMulticast, MTU: verbs.MTU2048, PKey: defaultPKey, Rate: 3, PacketLifeTime: 18, Scope: 2,
		MTUSelector: mad.Exactly, RateSelector: mad.Exactly, LifeSelector: mad.Exactly,
	}
	sm.groups = []*group{{record: broadcast, members: map[verbs.GID]uint8{}}}
	p.smInfo = &mad.SMInfo{GUID: p.guid, State: mad.SMMaster}
	p.info.CapMask |= capIsSM
	s.sm, sm.dirty = sm, true
	return nil
}

// StopSM stops the subnet manager. The configuration of the subnet doesn't change.
func (s *Subnet) StopSM() {
	s.mu.Lock()
	defer s.unlock()
	if s.sm == nil {
		return
	}
	s.sm.port.smInfo = nil
	s.sm.port.info.CapMask &^= capIsSM
	s.sm = nil
}

// Sweep makes the subnet manager sweep the subnet, as it does when it receives a trap.
func (s *Subnet) Sweep() {
	s.mu.Lock()
	defer s.unlock()
	if s.sm != nil {
		s.sm.dirty = true
	}
}

// SetPartition sets the full members of a partition and writes their P_Key tables. Ports that were
// members before and are not in members leave the partition. The subnet manager returns no paths
// between ports without a common partition. Until SetPartition changes it, the default partition
// 0x7fff has all ports.
func (s *Subnet) SetPartition(key uint16, members ...*Port) error {
	s.mu.Lock()
	defer s.unlock()
	if s.sm == nil || key&0x7fff == 0 {
		return failed("set", fmt.Sprintf("partition 0x%04x", key), "it requires a nonzero key and a subnet manager (StartSM)")
	}
	sm := s.sm
	sm.partitions = slices.DeleteFunc(sm.partitions, func(p partition) bool { return p.key&0x7fff == key&0x7fff })
	sm.partitions = append(sm.partitions, partition{key | 0x8000, members})
	sm.dirty = true
	return nil
}

// unlock lets the subnet manager handle the changes that were made, then unlocks the subnet.
func (s *Subnet) unlock() {
	for range 4 { // a sweep changes port states, so switches may send further traps
		if s.sm == nil || !s.sm.dirty {
			break
		}
		s.sm.dirty = false
		s.sm.sweep()
	}
	if s.sm != nil {
		s.sm.dirty = false
	}
	s.mu.Unlock()
}

// trap takes a notice, reports it to the programs that subscribed, and sweeps the subnet later. The
// subscription of a program that a report doesn't reach ends, because the program has.
func (sm *subnetManager) trap(m *mad.Message) {
	var notice mad.Notice
	if mad.Unmarshal(m.Data.Data(), &notice) != nil {
		return
	}
	if notice.TrapNumber == mad.TrapLinkState {
		sm.dirty = true
	}
	if int(m.Addr.LID) < len(sm.byLID) && sm.byLID[m.Addr.LID] != nil {
		notice.IssuerGID = sm.byLID[m.Addr.LID].gid()
	}
	sm.informs = slices.DeleteFunc(sm.informs, func(sub subscription) bool {
		return (sub.info.TrapNumber == notice.TrapNumber || sub.info.TrapNumber == 0xffff) && !sm.report(sub, &notice)
	})
}

// report reports a notice to a subscriber. It fails if no program takes the report in any of the tries.
func (sm *subnetManager) report(sub subscription, notice *mad.Notice) bool {
	for range mad.DefaultTries {
		report := mad.New(mad.ClassSA, mad.Report, mad.AttrNotice, 0)
		if mad.Marshal(report.Data(), notice) != nil {
			return false
		}
		if sm.subnet.send(sm.port, &mad.Message{Addr: mad.Addr{LID: sub.lid, QPN: 1, QKey: mad.QKeyGSI}, Data: report}) {
			return true
		}
	}
	return false
}

// sweep configures all nodes that the subnet manager reaches.
func (sm *subnetManager) sweep() {
	reached := sm.reach()
	sm.byLID = sm.byLID[:0]
	clear(sm.byGUID)
	for _, n := range reached {
		for _, p := range n.ports {
			if p != nil && sm.managed(p) {
				sm.assign(p)
			}
		}
	}
	for _, n := range reached {
		for _, p := range n.ports {
			if p == nil || p.num == 0 || p.info.PhysLinkState != verbs.PhysLinkUp || p.peer == nil {
				continue
			}
			p.info.LinkState = verbs.PortActive
			p.info.NeighborMTU = min(p.info.MTUCap, p.peer.info.MTUCap)
		}
	}
	sm.partition()
	sm.route(reached)
	sm.multicast(reached)
}

// managed reports whether a port gets a LID. Port 0 of a switch does, and so do the linked ports of
// other nodes.
func (sm *subnetManager) managed(p *Port) bool {
	if p.node.sw != nil {
		return p.num == 0
	}
	return p.peer != nil && p.info.PhysLinkState == verbs.PhysLinkUp
}

func (sm *subnetManager) assign(p *Port) {
	lid, ok := sm.lids[p.guid]
	if !ok {
		lid = sm.next
		sm.next++
		sm.lids[p.guid] = lid
	}
	p.info.LID, p.info.SMLID, p.info.GIDPrefix = lid, sm.lids[sm.port.guid], sm.subnet.prefix
	for len(sm.byLID) <= int(lid) {
		sm.byLID = append(sm.byLID, nil)
	}
	sm.byLID[lid] = p
	sm.byGUID[p.guid] = p
}

// reach returns the nodes that links connect with the subnet manager's node, nearest first.
func (sm *subnetManager) reach() []*Node {
	start := sm.port.node
	seen := map[*Node]bool{start: true}
	nodes := []*Node{start}
	// The node of the subnet manager comes first, because its port gets the first LID.
	if start.sw == nil {
		sm.assign(sm.port)
	}
	for i := 0; i < len(nodes); i++ {
		n := nodes[i]
		ports := n.ports
		if n.sw == nil {
			if n != start {
				continue
			}
			ports = []*Port{sm.port}
		}
		for _, p := range ports {
			if p == nil || p.peer == nil || p.info.PhysLinkState != verbs.PhysLinkUp || seen[p.peer.node] {
				continue
			}
			seen[p.peer.node] = true
			nodes = append(nodes, p.peer.node)
		}
	}
	return nodes
}

// edge is a link from one switch to another.
type edge struct {
	port uint8
	to   int
}

// route fills the forwarding tables of the switches with shortest paths. It distributes the LIDs at a
// switch evenly among paths of equal length.
func (sm *subnetManager) route(nodes []*Node) {
	index := map[*Node]int{}
	var switches []*Node
	for _, n := range nodes {
		if n.sw != nil {
			index[n] = len(switches)
			switches = append(switches, n)
		}
	}
	edges := make([][]edge, len(switches))
	behind := make([][]*Port, len(switches)) // ports with a LID, by the switch they are connected to
	ports := make([]map[*Port]uint8, len(switches))
	for i, n := range switches {
		n.sw.info.LinearFDBTop = uint16(len(sm.byLID) - 1)
		blocks := (len(sm.byLID) + 63) / 64
		n.sw.lft = slices.Repeat([]uint8{255}, blocks*64)
		n.sw.lft[n.ports[0].info.LID] = 0
		behind[i] = append(behind[i], n.ports[0])
		ports[i] = map[*Port]uint8{}
		for _, p := range n.ports[1:] {
			switch {
			case p.peer == nil || p.info.PhysLinkState != verbs.PhysLinkUp || p.peer.node == n:
			case p.peer.node.sw != nil:
				edges[i] = append(edges[i], edge{p.num, index[p.peer.node]})
			default:
				behind[i] = append(behind[i], p.peer)
				n.sw.lft[p.peer.info.LID] = p.num
			}
		}
	}
	distance := make([]int32, len(switches))
	var queue []int
	var equal []uint8
	for dest := range switches {
		for i := range distance {
			distance[i] = -1
		}
		distance[dest], queue = 0, append(queue[:0], dest)
		for q := 0; q < len(queue); q++ {
			at := queue[q]
			if at != dest {
				equal = equal[:0]
				for _, e := range edges[at] {
					if d := distance[e.to]; d >= 0 && d < distance[at] {
						equal = append(equal, e.port)
					}
				}
				for k, p := range behind[dest] {
					switches[at].sw.lft[p.info.LID] = equal[(k+at)%len(equal)]
				}
			}
			for _, e := range edges[at] {
				if distance[e.to] < 0 {
					distance[e.to] = distance[at] + 1
					queue = append(queue, e.to)
				}
			}
		}
	}
}

// partition writes the P_Key tables.
func (sm *subnetManager) partition() {
	byDefault := !slices.ContainsFunc(sm.partitions, func(p partition) bool { return p.key == defaultPKey })
	for _, p := range sm.byLID {
		if p == nil {
			continue
		}
		p.pkeys = p.pkeys[:0]
		if byDefault || p == sm.port {
			p.pkeys = append(p.pkeys, defaultPKey)
		} else {
			p.pkeys = append(p.pkeys, defaultPKey&0x7fff) // limited members can talk to the subnet manager
		}
		for _, part := range sm.partitions {
			if !slices.Contains(part.members, p) {
				continue
			}
			if part.key == defaultPKey {
				p.pkeys[0] = defaultPKey
			} else if len(p.pkeys) < pkeyCap {
				p.pkeys = append(p.pkeys, part.key)
			}
		}
	}
}

// shared returns a P_Key with which two ports can communicate. At least one of them is a full member.
func shared(a, b *Port) (uint16, bool) {
	for _, k := range slices.Backward(a.pkeys) {
		for _, l := range b.pkeys {
			if k&0x7fff == l&0x7fff && k&0x7fff != 0 && (k|l)&0x8000 != 0 {
				return k, true
			}
		}
	}
	return 0, false
}

// multicast fills the multicast forwarding tables. A group uses a tree of shortest paths from the
// first switch.
func (sm *subnetManager) multicast(nodes []*Node) {
	parent := map[*Node]*Port{} // the port of a switch that leads to the root
	var order []*Node
	for _, n := range nodes {
		if n.sw == nil {
			continue
		}
		clear(n.sw.mft)
		n.sw.info.MulticastFDBTop = 0
		if len(order) == 0 {
			order = append(order, n)
		}
	}
	for i := 0; i < len(order); i++ {
		for _, p := range order[i].ports[1:] {
			if p.peer == nil || p.info.PhysLinkState != verbs.PhysLinkUp || p.peer.node.sw == nil {
				continue
			}
			if n := p.peer.node; parent[n] == nil && n != order[0] {
				parent[n] = p.peer
				order = append(order, n)
			}
		}
	}
	for _, g := range sm.groups {
		for gid := range g.members {
			p := sm.byGID(gid)
			if p == nil {
				continue
			}
			at := p
			if p.node.sw == nil {
				at = p.peer // the port of the switch
			}
			if at == nil {
				continue
			}
			// Packets of the group leave through the port of the member, and through the ports on the
			// path between that switch and the root, in both directions.
			for hop := at; hop != nil; {
				hop.join(g.record.MLID)
				up := parent[hop.node]
				if up == nil {
					break
				}
				up.join(g.record.MLID)
				hop = up.peer
			}
		}
	}
}

// join adds the port of a switch to a group.
func (p *Port) join(mlid uint16) {
	sw := p.node.sw
	key := mftBlock{(mlid - mad.MinMulticast) / 32, p.num / 16}
	table := sw.mft[key]
	table[(mlid-mad.MinMulticast)%32] |= 1 << (p.num % 16)
	sw.mft[key] = table
	sw.info.MulticastFDBTop = max(sw.info.MulticastFDBTop, mlid)
}

func (sm *subnetManager) byGID(gid verbs.GID) *Port {
	p := sm.byGUID[verbs.GUID(binary.BigEndian.Uint64(gid[8:]))]
	if p == nil || p.gid() != gid {
		return nil
	}
	return p
}
