package madtest

import (
	"github.com/goverbs/goverbs/ib/mad"
)

// Congestion is the state of congestion control at a port of an adapter, or at a switch. The settings
// have no effect, because a Subnet carries management datagrams only.
type Congestion struct {
	Key       mad.CongestionKeyInfo
	Timestamp uint32 // in units of 1.024 us; does not advance

	// Of a switch.
	Switch    mad.SwitchCongestionSetting
	Ports     []mad.SwitchPortCongestion // by number
	SwitchLog mad.CongestionLogSwitch

	// Of an adapter.
	CA    mad.CACongestionSetting
	Limit uint16 // the highest index of Table
	Table [ccTableBlocks * 64]mad.CongestionControlEntry
	CALog mad.CongestionLogCA
}

// Limits of the attributes of congestion control.
const (
	ccTableBlocks      = 2
	ccPortsPerBlock    = 48
	ccResponseTime     = 18
	ccCreditStarvation = 1
)

// ChangeCongestion calls f to change the state of congestion control at the port: port 0 of a switch, or
// a port of an adapter. f must not call methods of the subnet.
func (p *Port) ChangeCongestion(f func(*Congestion)) {
	p.node.subnet.mu.Lock()
	defer p.node.subnet.mu.Unlock()
	f(p.owner().congested())
}

func (p *Port) congested() *Congestion {
	if p.control == nil {
		p.control = &Congestion{Ports: make([]mad.SwitchPortCongestion, len(p.node.ports))}
	}
	return p.control
}

// allows reports whether a request has the CC_Key that it needs. It counts violations.
func (c *Congestion) allows(req mad.MAD) bool {
	if c.Key.Key == 0 || req.MKey() == c.Key.Key || req.Method() == mad.Get && !c.Key.ProtectBit {
		return true
	}
	if c.Key.Violations < 0xffff {
		c.Key.Violations++
	}
	return false
}

// congestion handles a request of congestion control and replaces it with the response.
func (n *Node) congestion(at *Port, m mad.MAD) mad.Status {
	c, set, data := at.congested(), m.Method() == mad.Set, m.Data()
	isSwitch := n.sw != nil
	switch m.AttrID() {
	case mad.AttrClassPortInfo:
		if set {
			return mad.StatusBadMethodAttr
		}
		return put(data, &mad.ClassPortInfo{BaseVersion: 1, ClassVersion: mad.ClassCC.Version(), RespTime: ccResponseTime})
	case mad.AttrCongestionInfo:
		if set {
			return mad.StatusBadMethodAttr
		}
		if isSwitch {
			return put(data, &mad.CongestionInfo{Info: ccCreditStarvation})
		}
		return put(data, &mad.CongestionInfo{ControlTableCap: ccTableBlocks})
	case mad.AttrCongestionKeyInfo:
		return c.keyInfo(set, m)
	case mad.AttrCongestionLog:
		return c.log(isSwitch, set, data)
	case mad.AttrCongestionTimestamp:
		if set {
			return mad.StatusBadMethodAttr
		}
		return put(data, &mad.CongestionTimestamp{Timestamp: c.Timestamp})
	}
	switch id := m.AttrID(); {
	case isSwitch && id == mad.AttrSwitchCongestionSetting:
		if set && mad.Unmarshal(data, &c.Switch) != nil {
			return mad.StatusInvalid
		}
		return put(data, &c.Switch)
	case isSwitch && id == mad.AttrSwitchPortCongestionSetting:
		return c.portSetting(set, m.Modifier(), data)
	case !isSwitch && id == mad.AttrCACongestionSetting:
		if set && mad.Unmarshal(data, &c.CA) != nil {
			return mad.StatusInvalid
		}
		return put(data, &c.CA)
	case !isSwitch && id == mad.AttrCongestionControlTable:
		return c.table(set, m.Modifier(), data)
	}
	return mad.StatusBadMethodAttr
}

func (c *Congestion) keyInfo(set bool, m mad.MAD) mad.Status {
	if set {
		var want mad.CongestionKeyInfo
		if mad.Unmarshal(m.Data(), &want) != nil {
			return mad.StatusInvalid
		}
		if want.Violations != 0 { // only 0 changes the counter
			want.Violations = c.Key.Violations
		}
		c.Key = want
		return put(m.Data(), &c.Key)
	}
	info := c.Key
	if m.MKey() != info.Key {
		info.Key = 0
	}
	return put(m.Data(), &info)
}

// log handles CongestionLog. A Set clears the log.
func (c *Congestion) log(isSwitch, set bool, data []byte) mad.Status {
	if set {
		c.SwitchLog, c.CALog = mad.CongestionLogSwitch{}, mad.CongestionLogCA{}
	}
	if isSwitch {
		log := c.SwitchLog
		log.Type, log.Now = mad.CongestionLogOfSwitch, c.Timestamp
		return put(data, &log)
	}
	log := c.CALog
	log.Type, log.Now = mad.CongestionLogOfCA, c.Timestamp
	return put(data, &log)
}

func (c *Congestion) portSetting(set bool, block uint32, data []byte) mad.Status {
	if block >= uint32(len(c.Ports)+ccPortsPerBlock-1)/ccPortsPerBlock {
		return mad.StatusInvalid
	}
	var setting mad.SwitchPortCongestionSetting
	first := int(block) * ccPortsPerBlock
	if set {
		if mad.Unmarshal(data, &setting) != nil {
			return mad.StatusInvalid
		}
		copy(c.Ports[first:], setting.Ports[:])
		clear(setting.Ports[:])
	}
	copy(setting.Ports[:], c.Ports[first:])
	return put(data, &setting)
}

func (c *Congestion) table(set bool, block uint32, data []byte) mad.Status {
	if block >= ccTableBlocks {
		return mad.StatusInvalid
	}
	entries := c.Table[block*64:][:64]
	var t mad.CongestionControlTable
	if set {
		if mad.Unmarshal(data, &t) != nil || int(t.Limit) >= len(c.Table) {
			return mad.StatusInvalid
		}
		c.Limit = t.Limit
		copy(entries, t.Entries[:])
	}
	t.Limit = c.Limit
	copy(t.Entries[:], entries)
	return put(data, &t)
}
