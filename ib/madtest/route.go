package madtest

import (
	"time"

	"github.com/goverbs/goverbs/ib/mad"
	"github.com/goverbs/goverbs/verbs"
)

// maxHops ends loops in the forwarding tables. On hardware the life time of packets does.
const maxHops = 64

// packetWords is the length of a packet with a MAD in words of 4 bytes.
const packetWords = 72

// send carries a MAD from a port to its destination, and carries back the response of a node's own
// agents. Programs send their responses later. The subnet is locked. send reports whether the MAD and
// an immediate response have arrived.
func (s *Subnet) send(from *Port, m *mad.Message) bool {
	request := !m.Data.IsResponse()
	at, via := from, from
	var ok bool
	switch {
	case m.Data.Class() != mad.ClassDirected:
		smp := m.Data.Class() == mad.ClassLID
		at, via, ok = s.byLID(from, m.Addr.LID, func(out *Port) *Port { return s.cross(out, smp) })
	case request:
		at, via, ok = s.directed(from, m)
	default:
		at, ok = s.directedBack(from, m)
		via = at
	}
	if !ok {
		return false
	}
	received := &mad.Message{Addr: mad.Addr{LID: from.owner().info.LID, QPN: 1, QKey: mad.QKeyGSI, SL: m.Addr.SL, PKeyIndex: m.Addr.PKeyIndex}, Data: m.Data}
	if m.Data.Class().SubnetManagement() {
		received.Addr.QPN, received.Addr.QKey = 0, 0
	}
	if m.Data.Class() == mad.ClassDirected {
		received.Addr.LID = mad.PermissiveLID
	}
	if m.Addr.GRH != nil {
		grh := *m.Addr.GRH
		grh.GID = from.gid()
		received.Addr.GRH = &grh
	}
	if !request {
		for _, h := range at.hosts {
			if h.response(received) {
				return true
			}
		}
		return false
	}
	return s.arrive(at, via, received)
}

// arrive passes a request to the agents of a node, then to the programs of the port. via is the port
// that received it.
func (s *Subnet) arrive(at, via *Port, m *mad.Message) bool {
	n := at.node
	if n.fault.Silent {
		return false
	}
	answer := n.answer(at, via, m)
	if answer == nil {
		for _, h := range at.hosts {
			if h.request(m) {
				return true
			}
		}
		return false
	}
	if n.fault.Alter != nil {
		if answer = n.fault.Alter(m.Data, answer); answer == nil {
			return false
		}
	}
	back := &mad.Message{Addr: m.Addr, Data: answer}
	if n.fault.Delay == 0 {
		return s.send(at, back)
	}
	time.AfterFunc(n.fault.Delay, func() {
		s.mu.Lock()
		defer s.unlock()
		s.send(at, back)
	})
	return true
}

// cross carries a MAD over the link of a port and returns the port at the other end, or nil if the MAD
// is lost. A link that no subnet manager has activated carries only subnet management.
func (s *Subnet) cross(out *Port, smp bool) *Port {
	in := out.peer
	if in == nil || out.info.PhysLinkState != verbs.PhysLinkUp || in.info.PhysLinkState != verbs.PhysLinkUp {
		return nil
	}
	if !smp && (out.info.LinkState < verbs.PortArmed || in.info.LinkState < verbs.PortArmed) {
		out.count().XmitDiscards++
		return nil
	}
	out.count().XmitPkts++
	out.counters.XmitData += packetWords
	out.counters.UnicastXmitPkts++
	if out.loss > 0 && s.random.Float64() < out.loss {
		in.count().RcvErrors++
		return nil
	}
	in.count().RcvPkts++
	in.counters.RcvData += packetWords
	in.counters.UnicastRcvPkts++
	return in
}

// crossSMP carries a MAD of subnet management over the link of a port.
func (s *Subnet) crossSMP(out *Port) *Port { return s.cross(out, true) }

// Route returns the port at which a packet with data for a LID arrives: the one to which the forwarding tables of the
// switches lead over active links. It returns nil if the packet gets nowhere. No counter counts the packet.
func (p *Port) Route(lid uint16) *Port {
	p.node.subnet.mu.Lock()
	defer p.node.subnet.mu.Unlock()
	at, _, _ := p.node.subnet.byLID(p, lid, func(out *Port) *Port {
		if in := out.peer; in != nil && out.info.LinkState == verbs.PortActive && in.info.LinkState == verbs.PortActive {
			return in
		}
		return nil
	})
	return at
}

// byLID follows the forwarding tables from a port to the one with a LID. cross returns the other end of a link, or nil.
// It returns that port and the port through which the packet enters its node.
func (s *Subnet) byLID(from *Port, lid uint16, cross func(out *Port) *Port) (at, via *Port, ok bool) {
	if lid == 0 || lid >= mad.MinMulticast {
		return nil, nil, false
	}
	if own := from.owner(); own.hasLID(lid) {
		return own, own, true
	}
	p := from
	for range maxHops {
		sw := p.node.sw
		if sw != nil {
			out := sw.outPort(lid)
			switch {
			case out == 0:
				return p.node.ports[0], p, true
			case int(out) >= len(p.node.ports):
				p.count().RcvSwitchRelayErrors++
				return nil, nil, false
			}
			p = p.node.ports[out]
		}
		in := cross(p)
		switch {
		case in == nil:
			return nil, nil, false
		case in.node.sw == nil && !in.hasLID(lid):
			return nil, nil, false // an adapter doesn't forward
		case in.node.sw == nil:
			return in, in, true
		}
		p = in
	}
	return nil, nil, false
}

func (sw *switchState) outPort(lid uint16) uint8 {
	if int(lid) >= len(sw.lft) || lid > sw.info.LinearFDBTop {
		return 255
	}
	return sw.lft[lid]
}

func (p *Port) hasLID(lid uint16) bool {
	base := p.info.LID
	return base != 0 && lid >= base && lid-base < 1<<p.info.LMC
}

// directed follows the directed route of a MAD. A part that is routed by LID may precede the hops.
// directed fills in the return path.
func (s *Subnet) directed(from *Port, m *mad.Message) (at, via *Port, ok bool) {
	data := m.Data
	hops := int(data.HopCount())
	if hops > mad.MaxHops || data.HopPointer() != 0 {
		return nil, nil, false
	}
	p := from
	if m.Addr.LID != mad.PermissiveLID {
		if at, p, ok = s.byLID(from, m.Addr.LID, s.crossSMP); !ok {
			return nil, nil, false
		}
		if hops == 0 {
			return at, p, true
		}
	}
	path, back := data.InitialPath(), data.ReturnPath()
	clear(back)
	for i := 1; i <= hops; i++ {
		out := p
		switch num := path[i]; {
		case p.node.sw == nil && (i > 1 || num != p.num):
			return nil, nil, false // only the first hop leaves an adapter, through the port that was opened
		case p.node.sw != nil && (num == 0 || int(num) >= len(p.node.ports)):
			return nil, nil, false
		case p.node.sw != nil:
			out = p.node.ports[num]
		}
		in := s.cross(out, true)
		if in == nil {
			return nil, nil, false
		}
		back[i] = in.num
		p = in
	}
	data.SetHopPointer(uint8(hops))
	return p.owner(), p, true
}

// directedBack carries a response with a directed route back to the port that the route began at.
func (s *Subnet) directedBack(from *Port, m *mad.Message) (*Port, bool) {
	data := m.Data
	hops := int(data.HopCount())
	if hops > mad.MaxHops {
		return nil, false
	}
	back := data.ReturnPath()
	p := from
	for i := hops; i >= 1; i-- {
		out := p
		if p.node.sw != nil {
			if back[i] == 0 || int(back[i]) >= len(p.node.ports) {
				return nil, false
			}
			out = p.node.ports[back[i]]
		}
		in := s.cross(out, true)
		if in == nil {
			return nil, false
		}
		p = in
	}
	data.SetHopPointer(0)
	if lid := data.DrSLID(); lid != mad.PermissiveLID {
		at, _, ok := s.byLID(p, lid, s.crossSMP)
		return at, ok
	}
	return p.owner(), true
}
