package madtest

import (
	"math"

	"github.com/goverbs/goverbs/ib/mad"
)

// Bits of the CapMask and the CapMask2 of performance management.
const (
	pmAllPortSelect   = 1 << 8
	pmExtendedWidth   = 1 << 9
	pmXmitWait        = 1 << 12
	pmAdditionalExt   = 1 << 1
	pmResponseTime    = 18
	counterSelect2Bit = 1
)

// measure handles a request of performance management and replaces it with the response.
func (n *Node) measure(at *Port, m mad.MAD) mad.Status {
	set := m.Method() == mad.Set
	data := m.Data()
	if m.AttrID() == mad.AttrClassPortInfo {
		if set {
			return mad.StatusBadMethodAttr
		}
		info := mad.ClassPortInfo{BaseVersion: 1, ClassVersion: 1, CapMask: pmExtendedWidth | pmXmitWait, RespTime: pmResponseTime}
		if n.sw != nil {
			info.CapMask |= pmAllPortSelect
		}
		if n.wideErrors {
			info.CapMask2 = pmAdditionalExt
		}
		return put(data, &info)
	}
	ports := n.selected(at, data[1])
	if ports == nil {
		return mad.StatusInvalid
	}
	switch m.AttrID() {
	case mad.AttrPortCounters:
		return counters(ports, set, data)
	case mad.AttrPortCountersExtended:
		return countersExtended(ports, set, n.wideErrors, data)
	case mad.AttrPortRcvErrorDetails:
		var sum mad.PortRcvErrorDetails
		if set {
			for _, p := range ports {
				p.detail().rcv = mad.PortRcvErrorDetails{}
			}
		}
		for _, p := range ports {
			d := p.detail().rcv
			sum.LocalPhysicalErrors = add(sum.LocalPhysicalErrors, d.LocalPhysicalErrors)
			sum.MalformedPktErrors = add(sum.MalformedPktErrors, d.MalformedPktErrors)
			sum.BufferOverrunErrors = add(sum.BufferOverrunErrors, d.BufferOverrunErrors)
			sum.DLIDMappingErrors = add(sum.DLIDMappingErrors, d.DLIDMappingErrors)
			sum.VLMappingErrors = add(sum.VLMappingErrors, d.VLMappingErrors)
			sum.LoopingErrors = add(sum.LoopingErrors, d.LoopingErrors)
		}
		sum.PortSelect = data[1]
		return put(data, &sum)
	case mad.AttrPortXmitDiscardDetails:
		var sum mad.PortXmitDiscardDetails
		if set {
			for _, p := range ports {
				p.detail().xmit = mad.PortXmitDiscardDetails{}
			}
		}
		for _, p := range ports {
			d := p.detail().xmit
			sum.InactiveDiscards = add(sum.InactiveDiscards, d.InactiveDiscards)
			sum.NeighborMTUDiscards = add(sum.NeighborMTUDiscards, d.NeighborMTUDiscards)
			sum.SwLifetimeLimitDiscards = add(sum.SwLifetimeLimitDiscards, d.SwLifetimeLimitDiscards)
			sum.SwHOQLifetimeLimitDiscards = add(sum.SwHOQLifetimeLimitDiscards, d.SwHOQLifetimeLimitDiscards)
		}
		sum.PortSelect = data[1]
		return put(data, &sum)
	}
	return mad.StatusBadMethodAttr
}

// CountDetails calls f to change the details of the port's received errors and discarded packets. f
// must not call methods of the subnet.
func (p *Port) CountDetails(f func(*mad.PortRcvErrorDetails, *mad.PortXmitDiscardDetails)) {
	p.node.subnet.mu.Lock()
	defer p.node.subnet.mu.Unlock()
	d := p.detail()
	f(&d.rcv, &d.xmit)
}

func (p *Port) detail() *errorDetails {
	if p.details == nil {
		p.details = new(errorDetails)
	}
	return p.details
}

// selected returns the ports that a PortSelect selects, or nil.
func (n *Node) selected(at *Port, sel uint8) []*Port {
	switch {
	case sel == mad.AllPorts && n.sw != nil:
		return n.ports[1:]
	case n.sw == nil && sel != at.num && sel != mad.AllPorts:
		return nil
	case n.sw == nil:
		return []*Port{at}
	case int(sel) >= len(n.ports):
		return nil
	}
	return []*Port{n.ports[sel]}
}

// add returns a sum. Sums of counters stay at their maximum, as counters do.
func add[T uint16 | uint64](a, b T) T {
	if a > ^T(0)-b {
		return ^T(0)
	}
	return a + b
}

// sum returns the sums of the counters of some ports.
func sum(ports []*Port) (t mad.PortCountersExtended) {
	for _, p := range ports {
		if c := p.counters; c != nil {
			for i, v := range fieldsOf(c) {
				field := fieldsOf(&t)[i]
				*field = add(*field, *v)
			}
		}
	}
	return t
}

// fieldsOf returns the counters in the order of the bits of CounterSelect in PortCounters. XmitWait,
// QP1Dropped and those that only PortCountersExtended has follow.
func fieldsOf(c *mad.PortCountersExtended) [22]*uint64 {
	return [22]*uint64{
		&c.SymbolErrors, &c.LinkErrorRecoveries, &c.LinkDowned, &c.RcvErrors, &c.RcvRemotePhysicalErrors, &c.RcvSwitchRelayErrors,
		&c.XmitDiscards, &c.XmitConstraintErrors, &c.RcvConstraintErrors, &c.LocalLinkIntegrityErrors, &c.ExcessiveBufferOverrunErrors,
		&c.VL15Dropped, &c.XmitData, &c.RcvData, &c.XmitPkts, &c.RcvPkts,
		&c.XmitWait, &c.QP1Dropped, &c.UnicastXmitPkts, &c.UnicastRcvPkts, &c.MulticastXmitPkts, &c.MulticastRcvPkts,
	}
}

// Indexes of fieldsOf.
const (
	fieldXmitWait = 16
	fieldUnicast  = 18
)

func counters(ports []*Port, set bool, data []byte) mad.Status {
	var c mad.PortCounters
	if mad.Unmarshal(data, &c) != nil {
		return mad.StatusInvalid
	}
	if set {
		// A Set writes the values of the MAD to the selected counters. In practice the values are 0, so
		// this agent clears the counters.
		for _, p := range ports {
			for i, v := range fieldsOf(p.count()) {
				if i < 16 && c.CounterSelect&(1<<i) != 0 || i == fieldXmitWait && c.CounterSelect2&counterSelect2Bit != 0 {
					*v = 0
				}
			}
		}
	}
	t := sum(ports)
	return put(data, &mad.PortCounters{
		PortSelect: c.PortSelect, CounterSelect: c.CounterSelect, CounterSelect2: c.CounterSelect2,
		SymbolErrors: up16(t.SymbolErrors), LinkErrorRecoveries: up8(t.LinkErrorRecoveries), LinkDowned: up8(t.LinkDowned),
		RcvErrors: up16(t.RcvErrors), RcvRemotePhysicalErrors: up16(t.RcvRemotePhysicalErrors), RcvSwitchRelayErrors: up16(t.RcvSwitchRelayErrors),
		XmitDiscards: up16(t.XmitDiscards), XmitConstraintErrors: up8(t.XmitConstraintErrors), RcvConstraintErrors: up8(t.RcvConstraintErrors),
		LocalLinkIntegrityErrors: uint8(min(t.LocalLinkIntegrityErrors, 15)), ExcessiveBufferOverrunErrors: uint8(min(t.ExcessiveBufferOverrunErrors, 15)),
		QP1Dropped: up16(t.QP1Dropped), VL15Dropped: up16(t.VL15Dropped),
		XmitData: up32(t.XmitData), RcvData: up32(t.RcvData), XmitPkts: up32(t.XmitPkts), RcvPkts: up32(t.RcvPkts), XmitWait: up32(t.XmitWait),
	})
}

func countersExtended(ports []*Port, set, wide bool, data []byte) mad.Status {
	var c mad.PortCountersExtended
	if mad.Unmarshal(data, &c) != nil {
		return mad.StatusInvalid
	}
	if set {
		for _, p := range ports {
			fields := fieldsOf(p.count())
			for bit := range 8 {
				if c.CounterSelect&(1<<bit) != 0 {
					i := 12 + bit
					if bit >= 4 {
						i = fieldUnicast + bit - 4
					}
					*fields[i] = 0
				}
			}
			for bit := range 14 { // SymbolErrors … VL15Dropped, XmitWait, QP1Dropped
				if wide && c.CounterSelect2&(1<<bit) != 0 {
					i := bit
					if bit >= 12 {
						i = fieldXmitWait + bit - 12
					}
					*fields[i] = 0
				}
			}
		}
	}
	t := sum(ports)
	if !wide {
		t = mad.PortCountersExtended{
			XmitData: t.XmitData, RcvData: t.RcvData, XmitPkts: t.XmitPkts, RcvPkts: t.RcvPkts,
			UnicastXmitPkts: t.UnicastXmitPkts, UnicastRcvPkts: t.UnicastRcvPkts, MulticastXmitPkts: t.MulticastXmitPkts, MulticastRcvPkts: t.MulticastRcvPkts,
		}
		c.CounterSelect2 = 0
	}
	t.PortSelect, t.CounterSelect, t.CounterSelect2 = c.PortSelect, c.CounterSelect, c.CounterSelect2
	return put(data, &t)
}

func up8(v uint64) uint8   { return uint8(min(v, math.MaxUint8)) }
func up16(v uint64) uint16 { return uint16(min(v, math.MaxUint16)) }
func up32(v uint64) uint32 { return uint32(min(v, math.MaxUint32)) }
