package madtest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/ib/mad"
	"github.com/goverbs/goverbs/verbs"
)

const smallNet = `
Switch	8 "Switch1"
[1]	"Hca1"[1]
[2]	"Hca3"[1]
[3]	"Switch2"[3]
[5]	"Switch2"[5]

Switch 8 "Switch2"
[1]	"Hca2"[1]
[2]	"Hca4"[1]

Hca	2 "Hca1"

Hca	2 "Hca2"

Hca	2 "Hca3"

Hca 	2 "Hca4"
`

func newSubnet(t testing.TB, text, sm string) *Subnet {
	t.Helper()
	top, err := ParseTopology(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewSubnet(top)
	if err != nil {
		t.Fatal(err)
	}
	if sm != "" {
		if err := s.StartSM(sm); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// program is a program with agents of some classes.
type program struct {
	t      testing.TB
	port   mad.Port
	agents map[mad.Class]mad.Agent
	retry  mad.Retry
}

func open(t testing.TB, s *Subnet, node string, port int) *program {
	t.Helper()
	p, err := s.Open(node, port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	// Nodes answer before Do waits, so a short timeout is enough except for slow nodes.
	return &program{t, p, map[mad.Class]mad.Agent{}, mad.Retry{Timeout: time.Millisecond, Tries: 1}}
}

func (p *program) agent(c mad.Class) mad.Agent {
	if p.agents[c] == nil {
		a, err := p.port.Register(mad.AgentConfig{Class: c})
		if err != nil {
			p.t.Fatal(err)
		}
		p.agents[c] = a
	}
	return p.agents[c]
}

// direct sends a request with a directed route and returns the response.
func (p *program) direct(method mad.Method, attr mad.AttrID, mod uint32, data []byte, path ...uint8) (mad.MAD, error) {
	m := mad.New(mad.ClassDirected, method, attr, mod)
	m.SetHopCount(uint8(len(path)))
	copy(m.InitialPath()[1:], path)
	m.SetDrSLID(mad.PermissiveLID)
	m.SetDrDLID(mad.PermissiveLID)
	copy(m.Data(), data)
	resp, err := p.agent(mad.ClassDirected).Do(context.Background(), &mad.Message{Addr: mad.Addr{LID: mad.PermissiveLID}, Data: m}, p.retry)
	if err != nil {
		return nil, err
	}
	return resp.Data, resp.Data.Err()
}

func (p *program) ask(class mad.Class, method mad.Method, attr mad.AttrID, mod uint32, lid uint16, fill func(mad.MAD)) (mad.MAD, error) {
	m := mad.New(class, method, attr, mod)
	if fill != nil {
		fill(m)
	}
	addr := mad.Addr{LID: lid}
	if !class.SubnetManagement() {
		addr.QPN, addr.QKey = 1, mad.QKeyGSI
	}
	resp, err := p.agent(class).Do(context.Background(), &mad.Message{Addr: addr, Data: m}, p.retry)
	if err != nil {
		return nil, err
	}
	return resp.Data, resp.Data.Err()
}

func unmarshal[T any, P interface {
	*T
	mad.Attribute
}](t testing.TB, m mad.MAD, err error) T {
	t.Helper()
	var v T
	if err != nil {
		t.Fatal(err)
	}
	if err := mad.Unmarshal(m.Data(), P(&v)); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestDirectedRoute(t *testing.T) {
	s := newSubnet(t, smallNet, "")
	p := open(t, s, "Hca1", 1)
	for _, c := range []struct {
		path []uint8
		guid verbs.GUID
		port uint8 // the port that received the request
	}{
		{nil, 0x100000, 1},
		{[]uint8{1}, 0x200000, 1},
		{[]uint8{1, 3}, 0x200001, 3},
		{[]uint8{1, 5}, 0x200001, 5},
		{[]uint8{1, 5, 2}, 0x100009, 1},
		{[]uint8{1, 5, 3}, 0x200000, 3},
	} {
		m, err := p.direct(mad.Get, mad.AttrNodeInfo, 0, nil, c.path...)
		info := unmarshal[mad.NodeInfo](t, m, err)
		if info.NodeGUID != c.guid || info.LocalPort != c.port {
			t.Errorf("path %v leads to %v by port %d, want %v by %d", c.path, info.NodeGUID, info.LocalPort, c.guid, c.port)
		}
		if !m.Returning() || m.HopPointer() != 0 {
			t.Errorf("path %v: the response has direction %v and hop pointer %d", c.path, m.Returning(), m.HopPointer())
		}
	}
	// The longest route goes to and fro between the switches.
	longest := slices.Repeat([]uint8{3}, mad.MaxHops)
	longest[0] = 1
	if m, err := p.direct(mad.Get, mad.AttrNodeInfo, 0, nil, longest...); unmarshal[mad.NodeInfo](t, m, err).NodeGUID != 0x200000 {
		t.Errorf("%d hops: %v", len(longest), m)
	}
	for _, path := range [][]uint8{append(longest, 3), {2}, {1, 4}, {1, 0}, {1, 9}, {1, 1, 1}, {1, 3, 1, 1}} {
		if _, err := p.direct(mad.Get, mad.AttrNodeInfo, 0, nil, path...); !errors.Is(err, mad.ErrTimeout) {
			t.Errorf("path %v: %v, want no response", path, err)
		}
	}
}

// TestSM checks that after a sweep any port reaches any other by LID.
func TestSM(t *testing.T) {
	s := newSubnet(t, smallNet, "Hca1")
	p := open(t, s, "Hca4", 1)
	for _, n := range s.Nodes() {
		port := n.Port(0)
		if port == nil {
			port = n.Port(1)
		}
		lid := port.Info().LID
		m, err := p.ask(mad.ClassLID, mad.Get, mad.AttrNodeInfo, 0, lid, nil)
		if info := unmarshal[mad.NodeInfo](t, m, err); info.NodeGUID != n.Info().NodeGUID {
			t.Errorf("LID %d of %s leads to %v", lid, n.Name(), info.NodeGUID)
		}
		m, err = p.ask(mad.ClassPerf, mad.Get, mad.AttrPortCounters, 0, lid, func(m mad.MAD) { m.Data()[1] = mad.AllPorts })
		if c := unmarshal[mad.PortCounters](t, m, err); c.RcvPkts == 0 {
			t.Errorf("%s counted no packet", n.Name())
		}
	}
	attr, err := p.port.Attr()
	if err != nil || attr.State != verbs.PortActive || attr.SMLID != 1 || attr.Rate != 100 || attr.RateText != "100 Gb/sec (4X EDR)" {
		t.Errorf("attributes: %+v, %v", attr, err)
	}
	m, err := p.ask(mad.ClassLID, mad.Get, mad.AttrSMInfo, 0, 1, nil)
	if info := unmarshal[mad.SMInfo](t, m, err); info.State != mad.SMMaster {
		t.Errorf("the subnet manager is in state %d", info.State)
	}
}

// TestReroute unplugs one of two cables between the switches. The other one must carry all packets.
func TestReroute(t *testing.T) {
	s := newSubnet(t, smallNet, "Hca1")
	p := open(t, s, "Hca1", 1)
	lid := s.Node("Hca4").Port(1).Info().LID
	for _, cable := range []int{3, 5} {
		s.Node("Switch1").Port(cable).Unplug()
		if _, err := p.ask(mad.ClassLID, mad.Get, mad.AttrNodeInfo, 0, lid, nil); err != nil {
			t.Errorf("without cable %d: %v", cable, err)
		}
		s.Node("Switch1").Port(cable).Plug()
		if state := s.Node("Switch2").Port(cable).Info().LinkState; state != verbs.PortActive {
			t.Errorf("cable %d is plugged again, and its port is %v", cable, state)
		}
	}
	s.Node("Switch1").Port(3).Unplug()
	s.Node("Switch1").Port(5).Unplug()
	if _, err := p.ask(mad.ClassLID, mad.Get, mad.AttrNodeInfo, 0, lid, nil); !errors.Is(err, mad.ErrTimeout) {
		t.Errorf("without both cables: %v, want no response", err)
	}
	if c := s.Node("Switch2").Port(5); c.Info().LinkState != verbs.PortDown {
		t.Errorf("without a cable the port is %v", c.Info().LinkState)
	}
}

func records[T any, P interface {
	*T
	mad.Attribute
}](t testing.TB, m mad.MAD, err error) []T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	size := int(m.AttrOffset()) * 8
	if size == 0 {
		return nil
	}
	total := int(m.RMPPLength())
	const segment = 220
	n := (total - 20*((total+segment-1)/segment)) / size
	var out []T
	for i := range n {
		var v T
		if err := mad.Unmarshal(m.Data()[i*size:], P(&v)); err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	return out
}

func TestSA(t *testing.T) {
	s := newSubnet(t, smallNet, "Hca1")
	p := open(t, s, "Hca2", 1)
	table := func(attr mad.AttrID, mod uint32, mask mad.ComponentMask, want mad.Attribute) (mad.MAD, error) {
		return p.ask(mad.ClassSA, mad.GetTable, attr, mod, 1, func(m mad.MAD) {
			m.SetComponentMask(mask)
			if want != nil {
				if err := mad.Marshal(m.Data(), want); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	m, err := table(mad.AttrNodeRecord, 0, 0, nil)
	nodes := records[mad.NodeRecord](t, m, err)
	if len(nodes) != 6 || nodes[0].Description.Text != "Hca1" {
		t.Errorf("node records: %+v", nodes)
	}
	m, err = table(mad.AttrNodeRecord, 0, mad.MaskNodeType, &mad.NodeRecord{NodeInfo: mad.NodeInfo{Type: mad.NodeSwitch}})
	if r := records[mad.NodeRecord](t, m, err); len(r) != 2 || r[0].NodeInfo.Type != mad.NodeSwitch {
		t.Errorf("switches: %+v", r)
	}
	m, err = table(mad.AttrPortInfoRecord, matchCapMask, mad.MaskPortInfoCapMask, &mad.PortInfoRecord{PortInfo: mad.PortInfo{CapMask: capIsSM}})
	if r := records[mad.PortInfoRecord](t, m, err); len(r) != 1 || r[0].LID != 1 {
		t.Errorf("subnet managers: %+v", r)
	}
	m, err = table(mad.AttrLinkRecord, 0, 0, nil)
	if r := records[mad.LinkRecord](t, m, err); len(r) != 12 {
		t.Errorf("%d link records, want 12: both ends of 6 cables", len(r))
	}
	dst := s.Node("Hca3").Port(1)
	m, err = p.ask(mad.ClassSA, mad.Get, mad.AttrPathRecord, 0, 1, func(m mad.MAD) {
		m.SetComponentMask(mad.MaskPathSLID | mad.MaskPathDLID)
		mad.Marshal(m.Data(), &mad.PathRecord{SLID: s.Node("Hca2").Port(1).Info().LID, DLID: dst.Info().LID})
	})
	path := unmarshal[mad.PathRecord](t, m, err)
	if path.DGID != dst.gid() || path.MTU != verbs.MTU4096 || path.Rate != 16 || path.PKey != 0xffff {
		t.Errorf("path: %+v", path)
	}
	_, err = p.ask(mad.ClassSA, mad.Get, mad.AttrPathRecord, 0, 1, func(m mad.MAD) {
		m.SetComponentMask(mad.MaskPathDGID)
		mad.Marshal(m.Data(), &mad.PathRecord{DGID: verbs.GID{1}})
	})
	var status *mad.StatusError
	if !errors.As(err, &status) || status.Status != mad.StatusSAInvalidGID {
		t.Errorf("a path to nobody: %v", err)
	}
}

func TestPartitions(t *testing.T) {
	s := newSubnet(t, smallNet, "Hca1")
	for key, names := range map[uint16][]string{0x8001: {"Hca2", "Hca3"}, 0x8002: {"Hca4"}, 0xffff: {"Hca1"}} {
		var ports []*Port
		for _, n := range names {
			ports = append(ports, s.Node(n).Port(1))
		}
		if err := s.SetPartition(key, ports...); err != nil {
			t.Fatal(err)
		}
	}
	p := open(t, s, "Hca2", 1)
	path := func(name string) (mad.MAD, error) {
		return p.ask(mad.ClassSA, mad.Get, mad.AttrPathRecord, 0, 1, func(m mad.MAD) {
			m.SetComponentMask(mad.MaskPathSLID | mad.MaskPathDLID)
			mad.Marshal(m.Data(), &mad.PathRecord{SLID: s.Node("Hca2").Port(1).Info().LID, DLID: s.Node(name).Port(1).Info().LID})
		})
	}
	m, err := path("Hca3")
	if r := unmarshal[mad.PathRecord](t, m, err); r.PKey != 0x8001 {
		t.Errorf("the path in a partition has P_Key %#x", r.PKey)
	}
	var status *mad.StatusError
	if _, err := path("Hca4"); !errors.As(err, &status) || status.Status != mad.StatusSANoRecords {
		t.Errorf("a path without a partition in common: %v", err)
	}
	m, err = path("Hca1")
	if r := unmarshal[mad.PathRecord](t, m, err); r.PKey&0x7fff != 0x7fff {
		t.Errorf("the path to the subnet manager has P_Key %#x", r.PKey)
	}
}

func TestMulticast(t *testing.T) {
	s := newSubnet(t, smallNet, "Hca1")
	mgid := verbs.GID{0xff, 0x12, 15: 7}
	join := func(name string, method mad.Method) error {
		port := s.Node(name).Port(1)
		_, err := open(t, s, name, 1).ask(mad.ClassSA, method, mad.AttrMCMemberRecord, 0, 1, func(m mad.MAD) {
			m.SetComponentMask(mad.MaskMulticastMGID | mad.MaskMulticastPortGID | mad.MaskMulticastJoinState | mad.MaskMulticastQKey | mad.MaskMulticastPKey)
			mad.Marshal(m.Data(), &mad.MCMemberRecord{MGID: mgid, PortGID: port.gid(), JoinState: 1, QKey: 5, PKey: 0xffff})
		})
		return err
	}
	for _, name := range []string{"Hca3", "Hca4"} {
		if err := join(name, mad.Set); err != nil {
			t.Fatal(err)
		}
	}
	mft := func(name string) uint16 {
		p := open(t, s, "Hca1", 1)
		m, err := p.ask(mad.ClassLID, mad.Get, mad.AttrMulticastForwardingTable, 0, s.Node(name).Port(0).Info().LID, nil)
		table := unmarshal[mad.MulticastForwardingTable](t, m, err)
		return table.Ports[1] // MLID 0xc001
	}
	if one, two := mft("Switch1"), mft("Switch2"); one != 1<<2|1<<3 || two != 1<<2|1<<3 {
		t.Errorf("the group leaves Switch1 by ports %#b and Switch2 by %#b, want 2 and 3 of both", one, two)
	}
	if err := join("Hca4", mad.Delete); err != nil {
		t.Fatal(err)
	}
	if one, two := mft("Switch1"), mft("Switch2"); one != 1<<2 || two != 0 {
		t.Errorf("after one left, Switch1 has ports %#b and Switch2 %#b, want 2 and none", one, two)
	}
}

func TestConfigurePort(t *testing.T) {
	s := newSubnet(t, smallNet, "Hca1")
	p := open(t, s, "Hca1", 1)
	lid := s.Node("Switch1").Port(0).Info().LID
	port := s.Node("Switch1").Port(2)
	set := func(f func(*mad.PortInfo)) error {
		m, err := p.ask(mad.ClassLID, mad.Get, mad.AttrPortInfo, 2, lid, nil)
		info := unmarshal[mad.PortInfo](t, m, err)
		info.LinkState, info.PhysLinkState = 0, 0
		f(&info)
		_, err = p.ask(mad.ClassLID, mad.Set, mad.AttrPortInfo, 2, lid, func(m mad.MAD) { mad.Marshal(m.Data(), &info) })
		return err
	}
	if err := set(func(i *mad.PortInfo) { i.LinkWidthEnabled, i.LinkSpeedExtEnabled = mad.Width1X, 1 }); err != nil {
		t.Fatal(err)
	}
	if err := set(func(i *mad.PortInfo) { i.PhysLinkState = verbs.PhysPolling }); err != nil {
		t.Fatal(err)
	}
	if i := port.Peer().Info(); i.LinkWidthActive != mad.Width1X || i.LinkSpeedExtActive != 1 || i.LinkState != verbs.PortActive {
		t.Errorf("after a change to 1X FDR the other end has width %d, speed %d, state %v", i.LinkWidthActive, i.LinkSpeedExtActive, i.LinkState)
	}
	if err := set(func(i *mad.PortInfo) { i.PhysLinkState = verbs.PhysDisabled }); err != nil {
		t.Fatal(err)
	}
	if i, o := port.Info(), port.Peer().Info(); i.PhysLinkState != verbs.PhysDisabled || o.LinkState != verbs.PortDown || o.PhysLinkState != verbs.PhysPolling {
		t.Errorf("disabled: %v, and the other end %v, %v", i.PhysLinkState, o.LinkState, o.PhysLinkState)
	}
	var status *mad.StatusError
	if err := set(func(i *mad.PortInfo) { i.LinkState = verbs.PortActive }); !errors.As(err, &status) || status.Status != mad.StatusInvalid {
		t.Errorf("activating a link that is down: %v", err)
	}
	if err := set(func(i *mad.PortInfo) { i.PhysLinkState = verbs.PhysPolling }); err != nil {
		t.Fatal(err)
	}
	if i := port.Info(); i.LinkState != verbs.PortActive {
		t.Errorf("enabled again: %v", i.LinkState)
	}
}

func TestMKey(t *testing.T) {
	s := newSubnet(t, smallNet, "")
	p := open(t, s, "Hca1", 1)
	port := s.Node("Hca2").Port(1)
	path := []uint8{1, 3, 1}
	for protect, readable := range []bool{true, true, false, false} {
		port.Change(func(i *mad.PortInfo) { i.MKey, i.ProtectBits = 0x1234, uint8(protect) })
		m, err := p.direct(mad.Get, mad.AttrPortInfo, 1, nil, path...)
		if (err == nil) != readable {
			t.Errorf("protection %d: Get ends with %v", protect, err)
		}
		if err == nil {
			if key := unmarshal[mad.PortInfo](t, m, nil).MKey; (key != 0) != (protect == 0) {
				t.Errorf("protection %d shows the key %#x", protect, key)
			}
		}
		if _, err := p.direct(mad.Set, mad.AttrPKeyTable, 0, nil, path...); !errors.Is(err, mad.ErrTimeout) {
			t.Errorf("protection %d: Set ends with %v", protect, err)
		}
	}
	if v := port.Info().MKeyViolations; v != 6 {
		t.Errorf("%d violations counted, want 6", v)
	}
}

func TestCounters(t *testing.T) {
	top, err := ParseTopology(strings.NewReader(smallNet))
	if err != nil {
		t.Fatal(err)
	}
	top.Nodes[0].WideErrors = true
	s, err := NewSubnet(top)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.StartSM("Hca1"); err != nil {
		t.Fatal(err)
	}
	p := open(t, s, "Hca1", 1)
	lid := s.Node("Switch1").Port(0).Info().LID
	s.Node("Switch1").Port(4).Count(func(c *mad.PortCountersExtended) {
		c.SymbolErrors, c.LinkDowned, c.LocalLinkIntegrityErrors, c.XmitWait = 70000, 300, 20, 7
	})
	get := func(method mad.Method, attr mad.AttrID, sel uint8, counters uint16) mad.MAD {
		m, err := p.ask(mad.ClassPerf, method, attr, 0, lid, func(m mad.MAD) {
			mad.Marshal(m.Data(), &mad.PortCounters{PortSelect: sel, CounterSelect: counters})
		})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	c := unmarshal[mad.PortCounters](t, get(mad.Get, mad.AttrPortCounters, 4, 0), nil)
	if c.SymbolErrors != 0xffff || c.LinkDowned != 0xff || c.LocalLinkIntegrityErrors != 15 || c.XmitWait != 7 {
		t.Errorf("counters don't stay at their maximum: %+v", c)
	}
	x := unmarshal[mad.PortCountersExtended](t, get(mad.Get, mad.AttrPortCountersExtended, 4, 0), nil)
	if x.SymbolErrors != 70000 || x.LinkDowned != 300 || x.XmitWait != 7 || x.QP1Dropped != 0 {
		t.Errorf("extended counters: %+v", x)
	}
	// Sums stay at their maximum, too.
	for port := 5; port <= 6; port++ {
		s.Node("Switch1").Port(port).Count(func(c *mad.PortCountersExtended) { c.MulticastRcvPkts = math.MaxUint64 - 1 })
		s.Node("Switch1").Port(port).CountDetails(func(r *mad.PortRcvErrorDetails, x *mad.PortXmitDiscardDetails) {
			r.LoopingErrors, x.InactiveDiscards = math.MaxUint16-1, math.MaxUint16-1
		})
	}
	x = unmarshal[mad.PortCountersExtended](t, get(mad.Get, mad.AttrPortCountersExtended, mad.AllPorts, 0), nil)
	rcv := unmarshal[mad.PortRcvErrorDetails](t, get(mad.Get, mad.AttrPortRcvErrorDetails, mad.AllPorts, 0), nil)
	xmit := unmarshal[mad.PortXmitDiscardDetails](t, get(mad.Get, mad.AttrPortXmitDiscardDetails, mad.AllPorts, 0), nil)
	if x.MulticastRcvPkts != math.MaxUint64 || rcv.LoopingErrors != math.MaxUint16 || xmit.InactiveDiscards != math.MaxUint16 {
		t.Errorf("sums are %d, %d, %d", x.MulticastRcvPkts, rcv.LoopingErrors, xmit.InactiveDiscards)
	}
	if all := unmarshal[mad.PortCounters](t, get(mad.Get, mad.AttrPortCounters, mad.AllPorts, 0), nil); all.SymbolErrors != 0xffff || all.RcvPkts == 0 {
		t.Errorf("counters of all ports: %+v", all)
	}
	get(mad.Set, mad.AttrPortCounters, 4, 1)
	c = unmarshal[mad.PortCounters](t, get(mad.Get, mad.AttrPortCounters, 4, 0), nil)
	if c.SymbolErrors != 0 || c.LinkDowned != 0xff {
		t.Errorf("after the reset of one counter: %+v", c)
	}
}

// TestReports has programs subscribe to traps, one of them at the subnet manager's own port. Reports have
// the port where something changed. The subscription of a program that ended ends.
func TestReports(t *testing.T) {
	s := newSubnet(t, smallNet, "")
	if err := s.Connect(s.Node("Hca3").Port(2), s.Node("Switch2").Port(8)); err != nil {
		t.Fatal(err)
	}
	if err := s.StartSM("Hca1"); err != nil {
		t.Fatal(err)
	}
	sm := s.Node("Hca1").Port(1).Info().LID
	subscribe := func(node string) (*program, mad.Agent) {
		p := open(t, s, node, 1)
		a, err := p.port.Register(mad.AgentConfig{Class: mad.ClassSA, Methods: mad.Methods(mad.Report)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.ask(mad.ClassSA, mad.Set, mad.AttrInformInfo, 0, sm, func(m mad.MAD) {
			mad.Marshal(m.Data(), &mad.InformInfo{Subscribe: 1, Generic: 1, TrapNumber: mad.TrapLocalChanges, QPN: 1})
		}); err != nil {
			t.Fatal(err)
		}
		return p, a
	}
	other, atOther := subscribe("Hca2")
	_, atSM := subscribe("Hca1")
	report := func(a mad.Agent) (n mad.Notice) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // it is there already, or never comes
		m, err := a.Receive(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return unmarshal[mad.Notice](t, m.Data, nil)
	}
	// The CapMask of port 1 changes, and then the name of the node: each port says so.
	p, err := s.Open("Hca3", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := p.OpenSM(); err != nil {
		t.Fatal(err)
	}
	s.Node("Hca3").SetDescription("new name")
	for _, want := range []struct {
		port  int
		flags byte
	}{{1, 0}, {1, nameChange}, {2, nameChange}} {
		port := s.Node("Hca3").Port(want.port)
		lid := port.Info().LID
		for _, a := range []mad.Agent{atOther, atSM} {
			n := report(a)
			capMask := binary.BigEndian.Uint32(n.Details[6:])
			if n.TrapNumber != mad.TrapLocalChanges || n.IssuerLID != lid || binary.BigEndian.Uint16(n.Details[2:]) != lid || n.IssuerGID != port.gid() ||
				n.Details[11] != want.flags || (n.Details[5] != 0) != (want.flags != 0) || capMask != port.Info().CapMask {
				t.Errorf("port %d, LID %d: %+v", want.port, lid, n)
			}
		}
	}
	if err := other.port.Close(); err != nil {
		t.Fatal(err)
	}
	s.Node("Hca4").SetDescription("another name")
	if n := report(atSM); n.IssuerGID != s.Node("Hca4").Port(1).gid() {
		t.Errorf("%+v", n)
	}
	if n := len(s.sm.informs); n != 1 {
		t.Errorf("%d subscriptions after one of two ended", n)
	}
}

// TestManyPaths asks a large subnet for the paths between all ports, of a partition that has none.
func TestManyPaths(t *testing.T) {
	top, err := FatTree(16, 3)
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewSubnet(top)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.StartSM("h1"); err != nil {
		t.Fatal(err)
	}
	p := open(t, s, "h1", 1)
	p.retry.Timeout = time.Minute
	_, err = p.ask(mad.ClassSA, mad.GetTable, mad.AttrPathRecord, 0, s.Node("h1").Port(1).Info().LID, func(m mad.MAD) {
		mad.Marshal(m.Data(), &mad.PathRecord{PKey: 0x55})
		m.SetComponentMask(mad.MaskPathPKey)
	})
	var status *mad.StatusError
	if !errors.As(err, &status) || status.Status != mad.StatusSANoResources {
		t.Errorf("%v", err)
	}
}

// TestPrograms runs two programs that ping each other with a vendor class.
func TestPrograms(t *testing.T) {
	s := newSubnet(t, smallNet, "Hca1")
	server := open(t, s, "Hca4", 1)
	config := mad.AgentConfig{Class: mad.ClassPing, OUI: mad.OUIOpenIB, Methods: mad.Methods(mad.Get)}
	a, err := server.port.Register(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := server.port.Register(config); err == nil {
		t.Error("two agents receive the same requests")
	}
	ended := make(chan error, 1)
	go func() {
		for {
			m, err := a.Receive(context.Background())
			if err != nil {
				ended <- err
				return
			}
			m.Data.SetMethod(mad.GetResp)
			copy(m.Data.Data(), "pong")
			a.Send(context.Background(), m)
		}
	}()
	client := open(t, s, "Hca1", 1)
	c, err := client.port.Register(mad.AgentConfig{Class: mad.ClassPing, OUI: mad.OUIOpenIB})
	if err != nil {
		t.Fatal(err)
	}
	req := mad.New(mad.ClassPing, mad.Get, 0, 0)
	req.SetOUI(mad.OUIOpenIB)
	addr := mad.Addr{LID: s.Node("Hca4").Port(1).Info().LID, QPN: 1, QKey: mad.QKeyGSI}
	resp, err := c.Do(context.Background(), &mad.Message{Addr: addr, Data: req}, mad.Retry{Timeout: time.Minute})
	if err != nil || !bytes.HasPrefix(resp.Data.Data(), []byte("pong")) {
		t.Errorf("ping: %v, %v", resp, err)
	}
	server.port.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Receive on a closed port: %v", err)
	}
}

func TestFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSubnet(t, smallNet, "")
		p := open(t, s, "Hca1", 1)
		p.retry.Timeout = time.Second
		n := s.Node("Switch2")
		ask := func(path ...uint8) error {
			_, err := p.direct(mad.Get, mad.AttrNodeInfo, 0, nil, path...)
			return err
		}
		n.SetFault(Fault{Silent: true})
		if err := ask(1, 3); !errors.Is(err, mad.ErrTimeout) {
			t.Errorf("a silent node: %v", err)
		}
		if err := ask(1, 3, 1); err != nil {
			t.Errorf("behind a silent node: %v", err)
		}
		n.SetFault(Fault{Delay: 900 * time.Millisecond})
		begin := time.Now()
		if err := ask(1, 3); err != nil || time.Since(begin) != 900*time.Millisecond {
			t.Errorf("a slow node: %v after %v", err, time.Since(begin))
		}
		n.SetFault(Fault{Busy: 1})
		var status *mad.StatusError
		if err := ask(1, 3); !errors.As(err, &status) || status.Status != mad.StatusBusy {
			t.Errorf("a busy node: %v", err)
		}
		if err := ask(1, 3); err != nil {
			t.Errorf("a node that was busy: %v", err)
		}
		n.SetFault(Fault{Alter: func(req, resp mad.MAD) mad.MAD { resp.Data()[3] = 255; return resp }})
		m, err := p.direct(mad.Get, mad.AttrNodeInfo, 0, nil, 1, 3)
		if info := unmarshal[mad.NodeInfo](t, m, err); info.NumPorts != 255 {
			t.Errorf("a node that lies has %d ports", info.NumPorts)
		}
		n.SetFault(Fault{})
		s.Node("Switch1").Port(3).SetLoss(1)
		if err := ask(1, 3); !errors.Is(err, mad.ErrTimeout) {
			t.Errorf("a link that loses all: %v", err)
		}
		s.Node("Switch1").Port(3).SetLoss(0.5)
		lost := 0
		for range 100 {
			if ask(1, 3) != nil {
				lost++
			}
		}
		if lost < 50 || lost > 95 { // lost on either way: 3 of 4
			t.Errorf("a link that loses half: %d of 100 lost", lost)
		}
	})
}

func TestParseTopology(t *testing.T) {
	const text = `# Topology file
vendid=0x2c9
devid=0xd2f0
sysimgguid=0x2c90300a
switchguid=0x2c903001(2c903001)
Switch	2 "S-0000000002c903001"		# "the switch" base port 0 lid 2 lmc 0
[1]	"H-1"[1](100001) 		# "Hca1" lid 1 4xHDR

caguid=0x100000
Ca	1 "H-1"		# "Hca1"
[1](100042) 	"S-0000000002c903001"[1]		# lid 1 lmc 0 "the switch" lid 2 4xHDR
`
	top, err := ParseTopology(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewSubnet(top)
	if err != nil {
		t.Fatal(err)
	}
	sw, ca := s.Nodes()[0], s.Nodes()[1]
	if i := sw.Info(); i.NodeGUID != 0x2c903001 || i.SystemGUID != 0x2c90300a || i.VendorID != 0x2c9 || i.DeviceID != 0xd2f0 || sw.desc != "the switch" {
		t.Errorf("the switch: %+v, %q", i, sw.desc)
	}
	if ca.Port(1).GUID() != 0x100042 || ca.Port(1).Peer() != sw.Port(1) {
		t.Errorf("the adapter has port GUID %v and leads to %v", ca.Port(1).GUID(), ca.Port(1).Peer())
	}
	if i := ca.Port(1).Info(); i.LinkSpeedExtActive != 4 || i.LinkWidthActive != mad.Width4X {
		t.Errorf("the link isn't 4X HDR: width %d, speed %d", i.LinkWidthActive, i.LinkSpeedExtActive)
	}
	for _, bad := range []struct{ text, want string }{
		{"", "no node"},
		{"Switch 8 \"A\"\n[1] \"B\"[1]\n", "which does not exist"},
		{"Switch 8 \"A\"\n\nSwitch 8 \"A\"\n", "duplicate"},
		{"Switch 300 \"A\"\n", "expected 1 to 254"},
		{"Switch 8 \"A\"\n[9] \"A\"[1]\n", "which has 8"},
		{"Switch 8 \"A\"\n[1] \"A\"[9]\n", "which has 8"},
		{"Switch 8 \"A\"\n[1] \"A\"[2]\n[2] \"A\"[3]\n", "and that to"},
		{"[1] \"A\"[1]\n", "before the first node"},
		{"include \"x\"\n", "neither"},
		{"Switch 8 \"A\"\n[1] \"A\"[2] w=5\n", "expected 1, 4"},
		{"caguid=x\n", "invalid number"},
		{"Switch 8 \"A\"\n[1] \"A\"[2] # 4xABC\n", `unknown speed in "4xABC"`},
		{"Switch 8 \"A\"\n[1] \"A\"[2] # \"x\" lid 1 4x???\n", `unknown speed in "4x???"`},
		{"Switch 8 \"A\"\n[1] \"A\"[2] # ??EDR s=1\n", `unknown width in "??EDR"`},
		{"Switch 8 \"A\"\n[1] \"A\"[2] # 3xEDR\n", `unknown width in "3xEDR"`},
		{"Switch 8 \"A\"\n[1] \"A\"[2] # 4xFDR10\n", "devid="},
		{"Switch 8 \"A\"\n[1](zz) \"A\"[2]\n", "expected a GUID"},
	} {
		if _, err := ParseTopology(strings.NewReader(bad.text)); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%q: %v, want %q", bad.text, err, bad.want)
		}
	}
}

func FuzzParseTopology(f *testing.F) {
	f.Add(smallNet)
	f.Add("vendid=0x2c9\nswitchguid=0x1(1)\nSwitch 2 \"S\" # \"x\"\n[1](5) \"S\"[2](7) w=4 s=2 # 4xEDR\n")
	f.Fuzz(func(t *testing.T, text string) {
		top, err := ParseTopology(strings.NewReader(text))
		if err != nil {
			return
		}
		if s, err := NewSubnet(top); err == nil {
			s.StartSM(top.Nodes[0].Name)
		}
	})
}

func TestGenerators(t *testing.T) {
	for _, c := range []struct {
		name         string
		top          func() (*Topology, error)
		nodes, hosts int
	}{
		{"fat tree 4, 2", func() (*Topology, error) { return FatTree(4, 2) }, 14, 8},
		{"fat tree 4, 3", func() (*Topology, error) { return FatTree(4, 3) }, 36, 16},
		{"dragonfly", func() (*Topology, error) { return Dragonfly(5, 2, 3) }, 40, 30},
	} {
		top, err := c.top()
		if err != nil {
			t.Fatal(err)
		}
		s, err := NewSubnet(top)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if err := s.StartSM("h1"); err != nil {
			t.Fatal(err)
		}
		if len(s.Nodes()) != c.nodes {
			t.Errorf("%s: %d nodes, want %d", c.name, len(s.Nodes()), c.nodes)
		}
		p := open(t, s, "h1", 1)
		for h := 1; h <= c.hosts; h++ {
			lid := s.Node(fmt.Sprintf("h%d", h)).Port(1).Info().LID
			if _, err := p.ask(mad.ClassPerf, mad.Get, mad.AttrClassPortInfo, 0, lid, nil); err != nil {
				t.Errorf("%s: h1 doesn't reach h%d: %v", c.name, h, err)
			}
		}
	}
	for _, bad := range []func() (*Topology, error){
		func() (*Topology, error) { return FatTree(3, 2) },
		func() (*Topology, error) { return FatTree(4, 4) },
		func() (*Topology, error) { return Dragonfly(0, 1, 1) },
		func() (*Topology, error) { return Dragonfly(300, 1, 1) },
	} {
		if _, err := bad(); err == nil {
			t.Error("a topology that can't be was made")
		}
	}
}

// TestIbsim uses the protocol as libumad2sim does: it connects, asks the server and exchanges MADs.
func TestIbsim(t *testing.T) {
	s := newSubnet(t, smallNet, "Hca1")
	name := fmt.Sprintf("madtest%d", os.Getpid())
	srv, err := s.ListenIbsim("unixgram", name)
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	client := attach(t, name, 1, "Hca2")
	info := client.call(ibsimGetNodeInfo)
	var node mad.NodeInfo
	if err := mad.Unmarshal(info, &node); err != nil || node.NodeGUID != s.Node("Hca2").Info().NodeGUID || node.LocalPort != 1 {
		t.Errorf("the client's node: %+v, %v", node, err)
	}
	req := mad.New(mad.ClassPerf, mad.Get, mad.AttrPortCounters, 0)
	req.Data()[1] = 1
	req.SetTID(0x5_0000_0007)
	status, resp := client.exchange(1, 1, req)
	if status != 0 || resp.Method() != mad.GetResp || uint32(resp.TID()) != 7 || resp.TID()>>32&0xffff != 5 {
		t.Errorf("counters of LID 1: status %d, %v, TID %#x", status, resp.Method(), resp.TID())
	}
	if status, _ := client.exchange(99, 1, req); status != ibsimTimedOut {
		t.Errorf("a request to nobody has status %d, want %d", status, ibsimTimedOut)
	}
	// A client that is a subnet manager receives requests, and its response reaches the other client.
	manager := attach(t, name, 2, "Hca3")
	binary.NativeEndian.PutUint32(manager.msg[16:], 1)
	manager.call(ibsimSetSM)
	if s.Node("Hca3").Port(1).Info().CapMask&capIsSM == 0 {
		t.Error("the port of a subnet manager lacks the bit IsSM")
	}
	ping := mad.New(mad.ClassPing, mad.Get, 0, 0)
	client.send(s.Node("Hca3").Port(1).Info().LID, 1, ping)
	from, got := manager.receive()
	if got.Class() != mad.ClassPing || from != s.Node("Hca2").Port(1).Info().LID {
		t.Fatalf("the manager got %v from LID %d", got.Class(), from)
	}
	got.SetMethod(mad.GetResp)
	manager.send(from, 1, got)
	if _, resp := client.receive(); resp.Method() != mad.GetResp {
		t.Errorf("the client got %v", resp.Method())
	}
	client.call(ibsimDisconnect)
	for i := range 3 * maxIbsimClients { // more than can be attached at a time
		attach(t, name, 10+i, "Hca4").call(ibsimDisconnect)
	}
	// Invalid messages are ignored.
	for _, b := range [][]byte{nil, {1}, make([]byte, ibsimControl), make([]byte, 400)} {
		manager.control.Write(b)
	}
	manager.call(ibsimGetPort)
}

// TestIbsimHostile runs a client that sends invalid messages and reads no MADs.
func TestIbsimHostile(t *testing.T) {
	s := newSubnet(t, smallNet, "Hca1")
	name := fmt.Sprintf("hostile%d", os.Getpid())
	srv, err := s.ListenIbsim("unixgram", name)
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	good := attach(t, name, 1, "Hca2")
	bad := attach(t, name, 2, "Hca3")
	go io.Copy(io.Discard, bad.control)
	random := rand.New(rand.NewPCG(3, 4))
	b := make([]byte, 2*ibsimRequest)
	for i := range 500 {
		for j := range b {
			b[j] = byte(random.Uint32())
		}
		if i%2 == 0 {
			binary.NativeEndian.PutUint32(b, ibsimMagic)
			binary.NativeEndian.PutUint32(b[4:], 1) // its own number
			binary.NativeEndian.PutUint32(b[8:], []uint32{ibsimGetPort, ibsimGetVendor, ibsimGetGID, ibsimGetGUID, ibsimGetNodeInfo, ibsimGetPortInfo, ibsimSetSM, ibsimGetPKeys, 11, 1 << 31}[random.IntN(10)])
		}
		bad.control.Write(b[:random.IntN(2*ibsimControl)])
		data := b[:random.IntN(len(b))]
		if i%2 == 0 {
			data = b[:ibsimRequest]
			copy(data[ibsimMAD:], []byte{1, []byte{1, 0x81, 3, 4, 0x32}[random.IntN(5)], byte(1 + random.IntN(2)), byte(1 + random.IntN(2))})
			binary.BigEndian.PutUint16(data, uint16(random.IntN(8)))
		}
		bad.data.WriteToUnix(data, bad.out)
	}
	good.call(ibsimGetPort)
	req := mad.New(mad.ClassLID, mad.Get, mad.AttrNodeInfo, 0)
	if status, resp := good.exchange(0, 0, req); status != ibsimTimedOut && resp.Method() != mad.GetResp {
		t.Errorf("status %d, %v", status, resp.Method())
	}
}

// TestIbsimDetach has clients that don't read the answers to their control messages, or that die. The
// server frees their places, and goes on answering others.
func TestIbsimDetach(t *testing.T) {
	s := newSubnet(t, smallNet, "Hca1")
	name := fmt.Sprintf("detach%d", os.Getpid())
	srv, err := s.ListenIbsim("unixgram", name)
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	good := attach(t, name, 1, "Hca2")
	for id := 2; id <= maxIbsimClients; id++ {
		bad := attach(t, name, id, "Hca3")
		if id%2 == 0 {
			binary.NativeEndian.PutUint32(bad.msg[8:], ibsimGetPort)
			for range 1000 {
				if _, err := bad.control.Write(bad.msg); err != nil {
					t.Fatal(err)
				}
			}
			continue
		}
		binary.NativeEndian.PutUint32(bad.msg[16:], 1)
		bad.call(ibsimSetSM)
		if err := errors.Join(bad.control.Close(), bad.data.Close()); err != nil {
			t.Fatal(err)
		}
		good.send(s.Node("Hca3").Port(1).Info().LID, 1, mad.New(mad.ClassPing, mad.Get, 0, 0)) // for the dead one
	}
	good.call(ibsimGetPort)
	// All places but one are free again.
	for id := range maxIbsimClients - 1 {
		attach(t, name, 20+id, "Hca4")
	}
}

// TestIbsimUnread has clients that leave answers unread, but not too many, beside one that reads each.
// The server must not take the answers that one of them has read for those of another.
func TestIbsimUnread(t *testing.T) {
	s := newSubnet(t, smallNet, "Hca1")
	name := fmt.Sprintf("unread%d", os.Getpid())
	srv, err := s.ListenIbsim("unixgram", name)
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	good, other := attach(t, name, 1, "Hca2"), attach(t, name, 2, "Hca1")
	lazy := []*ibsimProgram{attach(t, name, 3, "Hca3"), attach(t, name, 4, "Hca4")}
	ask := func(p *ibsimProgram) {
		binary.NativeEndian.PutUint32(p.msg[8:], ibsimGetPort)
		if _, err := p.control.Write(p.msg); err != nil {
			t.Fatal(err)
		}
	}
	for range 16 {
		ask(good)
		ask(lazy[0])
		ask(lazy[1])
		other.call(ibsimGetPort) // the server has sent the answers above
		if _, err := good.control.Read(good.msg); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		good.call(ibsimGetPort)
	}
	// The lazy clients are still attached, and can read the answers that they have not read.
	for _, p := range lazy {
		for range 16 {
			if _, err := p.control.Read(p.msg); err != nil {
				t.Fatal(err)
			}
		}
		p.call(ibsimGetPort)
	}
}

// TestIbsimNobody has clients that no answer or MAD can reach: one whose socket has no name, and some with an invalid port.
// The server goes on, and none of them takes a place.
func TestIbsimNobody(t *testing.T) {
	s := newSubnet(t, smallNet, "Hca1")
	name := fmt.Sprintf("nobody%d", os.Getpid())
	srv, err := s.ListenIbsim("unixgram", name)
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	connect := make([]byte, ibsimControl)
	order := binary.NativeEndian
	order.PutUint32(connect, ibsimMagic)
	order.PutUint32(connect[8:], ibsimConnect)
	nameless, err := net.DialUnix("unixgram", nil, ibsimName(name+":ctl"))
	if err != nil {
		t.Fatal(err)
	}
	defer nameless.Close()
	for range 2 * maxIbsimClients {
		if _, err := nameless.Write(connect); err != nil {
			t.Fatal(err)
		}
	}
	attach(t, name, 1, "Hca2").call(ibsimGetPort)

	udp, err := s.ListenIbsim("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	control, err := net.Dial("udp", udp.control.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer control.Close()
	if err := control.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	reply := make([]byte, ibsimControl)
	for _, port := range []uint32{0, 1 << 16, 1<<32 - 1} {
		order.PutUint32(connect[16:], port)
		if _, err := control.Write(connect); err != nil {
			t.Fatal(err)
		}
		if _, err := control.Read(reply); err != nil || order.Uint32(reply[8:]) != ibsimError {
			t.Errorf("port %d: %v, answered by %d", port, err, order.Uint32(reply[8:]))
		}
	}
}

// FuzzIbsimServer sends a server what programs send: control messages and packets. It goes on serving others.
func FuzzIbsimServer(f *testing.F) {
	order := binary.NativeEndian
	message := func(kind, num uint32, data string) []byte {
		b := append(make([]byte, 17), data...)
		order.PutUint32(b[5:], num)
		order.PutUint32(b[9:], kind)
		return append(b, make([]byte, 1+ibsimControl-len(b))...)
	}
	packet := func(m mad.MAD) []byte {
		b := make([]byte, 1+ibsimRequest)
		b[0], b[2] = 1, 1 // to LID 1
		copy(b[1+ibsimMAD:], m)
		return b
	}
	connect := message(ibsimConnect, 0, "\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00Hca3")
	for kind := range uint32(ibsimGetPKeys + 2) {
		f.Add(slices.Concat(connect, message(kind, 0, "\x01"), packet(mad.New(mad.ClassDirected, mad.Get, mad.AttrNodeInfo, 0))))
	}
	f.Add(slices.Concat(connect, connect, packet(mad.New(mad.ClassSA, mad.GetTable, mad.AttrNodeRecord, 0)), message(ibsimDisconnect, 1, "")))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := newSubnet(t, smallNet, "Hca1")
		name := fmt.Sprintf("fuzz%d", os.Getpid())
		srv, err := s.ListenIbsim("unixgram", name)
		if err != nil {
			t.Fatal(err)
		}
		defer srv.Close()
		bad, err := net.ListenUnixgram("unixgram", ibsimName(name+":ctl1"))
		if err != nil {
			t.Fatal(err)
		}
		defer bad.Close()
		for range 12 { // so many answers may stay unread
			if len(b) == 0 {
				break
			}
			kind, size, to := b[0], ibsimControl, name+":ctl"
			if kind&1 != 0 {
				size, to = ibsimRequest, fmt.Sprintf("%s:out%d", name, kind>>1)
			}
			m := make([]byte, size)
			n := copy(m, b[1:])
			b = b[1+n:]
			if size == ibsimControl {
				order.PutUint32(m, ibsimMagic)
			}
			_, _ = bad.WriteToUnix(m, ibsimName(to)) // there may be no such client
		}
		srv.detach(bad.LocalAddr().String()) // they may have all places
		good := attach(t, name, 2, "Hca2")
		good.call(ibsimGetPort)
	})
}

// FuzzMAD sends arbitrary MADs to a node of a subnet with a loop. Its agents and the subnet manager
// handle them.
func FuzzMAD(f *testing.F) {
	for _, seed := range []mad.MAD{
		mad.New(mad.ClassLID, mad.Set, mad.AttrPortInfo, 1), mad.New(mad.ClassDirected, mad.Set, mad.AttrSwitchInfo, 0), mad.New(mad.ClassLID, mad.Set, mad.AttrLinearForwardingTable, 0),
		mad.New(mad.ClassLID, mad.Set, mad.AttrMulticastForwardingTable, 0xf<<28), mad.New(mad.ClassLID, mad.Set, mad.AttrPKeyTable, 0x10001), mad.New(mad.ClassLID, mad.Set, mad.AttrVLArbTable, 0x40001),
		mad.New(mad.ClassPerf, mad.Set, mad.AttrPortCounters, 0), mad.New(mad.ClassPerf, mad.Get, mad.AttrPortCountersExtended, 0),
		mad.New(mad.ClassSA, mad.GetTable, mad.AttrNodeRecord, 0), mad.New(mad.ClassSA, mad.GetTable, mad.AttrPathRecord, 0), mad.New(mad.ClassSA, mad.Set, mad.AttrMCMemberRecord, 0), mad.New(mad.ClassSA, mad.Set, mad.AttrServiceRecord, 0),
		mad.New(mad.ClassCC, mad.Set, mad.AttrCongestionControlTable, 1), mad.New(mad.ClassCC, mad.Get, mad.AttrCongestionLog, 0), mad.New(mad.ClassSA, mad.GetMulti, mad.AttrMultiPathRecord, 0), mad.New(mad.ClassCC, mad.Set, mad.AttrSwitchPortCongestionSetting, 0),
		mad.New(mad.ClassLID, mad.Trap, mad.AttrNotice, 0), mad.New(mad.ClassSA, mad.Delete, mad.AttrMCMemberRecord, 0),
	} {
		for _, lid := range []uint16{1, 2, 3, mad.PermissiveLID} {
			f.Add(lid, []byte(seed), []byte(seed))
		}
	}
	f.Fuzz(func(t *testing.T, lid uint16, first, second []byte) {
		s := newSubnet(t, smallNet, "Hca1")
		p := open(t, s, "Hca2", 1)
		a := p.agent(mad.ClassDirected)
		// The first MAD may change the state that the second one finds.
		for _, b := range [][]byte{first, second} {
			m := &mad.Message{Addr: mad.Addr{LID: lid, QPN: 1, QKey: mad.QKeyGSI}, Data: make(mad.MAD, mad.Size)}
			copy(m.Data, b)
			a.Send(t.Context(), m)
		}
	})
}

type ibsimProgram struct {
	t             *testing.T
	control, data *net.UnixConn
	out           *net.UnixAddr // of the server, for data
	num           uint32
	msg           []byte
}

// attach attaches to a node as libumad2sim does: it opens its sockets before.
func attach(t *testing.T, server string, id int, node string) *ibsimProgram {
	t.Helper()
	p := &ibsimProgram{t: t, msg: make([]byte, ibsimControl)}
	var err error
	if p.data, err = net.ListenUnixgram("unixgram", ibsimName(fmt.Sprintf("%s:in%d", server, id))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.data.Close() })
	if p.control, err = net.DialUnix("unixgram", ibsimName(fmt.Sprintf("%s:ctl%d", server, id)), ibsimName(server+":ctl")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.control.Close() })
	for _, c := range []*net.UnixConn{p.control, p.data} {
		if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	binary.NativeEndian.PutUint32(p.msg[16:], uint32(id))
	copy(p.msg[16+12:], node)
	// The server may detach a client some time after the client has left.
	for p.try(ibsimConnect) == ibsimError {
		time.Sleep(time.Millisecond)
		binary.NativeEndian.PutUint32(p.msg[16:], uint32(id))
	}
	p.num = binary.NativeEndian.Uint32(p.msg[4:])
	p.out = ibsimName(fmt.Sprintf("%s:out%d", server, p.num))
	return p
}

func (p *ibsimProgram) try(kind uint32) uint32 {
	binary.NativeEndian.PutUint32(p.msg, ibsimMagic)
	binary.NativeEndian.PutUint32(p.msg[8:], kind)
	if _, err := p.control.Write(p.msg); err != nil {
		p.t.Fatal(err)
	}
	if _, err := p.control.Read(p.msg); err != nil {
		p.t.Fatal(err)
	}
	return binary.NativeEndian.Uint32(p.msg[8:])
}

func (p *ibsimProgram) call(kind uint32) []byte {
	p.t.Helper()
	if got := p.try(kind); got != kind {
		p.t.Fatalf("request %d is answered by %d", kind, got)
	}
	return p.msg[16:]
}

func (p *ibsimProgram) send(lid uint16, qpn uint32, m mad.MAD) {
	b := make([]byte, ibsimRequest)
	binary.BigEndian.PutUint16(b, lid)
	binary.BigEndian.PutUint32(b[8:], qpn)
	copy(b[ibsimMAD:], m)
	if _, err := p.data.WriteToUnix(b, p.out); err != nil {
		p.t.Fatal(err)
	}
}

func (p *ibsimProgram) read() []byte {
	b := make([]byte, 2*ibsimRequest)
	n, err := p.data.Read(b)
	if err != nil || n != ibsimRequest {
		p.t.Fatalf("%d bytes, %v", n, err)
	}
	return b
}

func (p *ibsimProgram) receive() (lid uint16, m mad.MAD) {
	b := p.read()
	return binary.BigEndian.Uint16(b[4:]), mad.MAD(b[ibsimMAD : ibsimMAD+mad.Size])
}

func (p *ibsimProgram) exchange(lid uint16, qpn uint32, m mad.MAD) (status uint32, resp mad.MAD) {
	p.send(lid, qpn, m)
	b := p.read()
	return binary.BigEndian.Uint32(b[16:]), mad.MAD(b[ibsimMAD : ibsimMAD+mad.Size])
}

// BenchmarkBringUp creates a fat tree of 11,271 nodes and sweeps it.
func BenchmarkBringUp(b *testing.B) {
	top, err := FatTree(34, 3)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s, err := NewSubnet(top)
		if err != nil {
			b.Fatal(err)
		}
		if err := s.StartSM("h1"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkGet reads the PortInfo of a port six hops away.
func BenchmarkGet(b *testing.B) {
	top, err := FatTree(4, 3)
	if err != nil {
		b.Fatal(err)
	}
	s, err := NewSubnet(top)
	if err != nil {
		b.Fatal(err)
	}
	p := open(b, s, "h1", 1)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.direct(mad.Get, mad.AttrPortInfo, 1, nil, 1, 3, 3, 2, 1, 1); err != nil {
			b.Fatal(err)
		}
	}
}

// TestRoute checks that packets with data go where the forwarding tables lead, over active links
// only.
func TestRoute(t *testing.T) {
	topology, err := FatTree(4, 2)
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewSubnet(topology)
	if err != nil {
		t.Fatal(err)
	}
	from, to := s.Node("h1").Port(1), s.Node("h8").Port(1)
	if from.Route(14) != nil {
		t.Error("there are no forwarding tables yet")
	}
	if err := s.StartSM("h1"); err != nil {
		t.Fatal(err)
	}
	lid := to.Info().LID
	if from.Route(lid) != to || from.Route(from.Info().LID) != from || from.Route(0) != nil || from.Route(0x4000) != nil {
		t.Error("LID", lid)
	}
	to.Peer().Change(func(i *mad.PortInfo) { i.LinkState = verbs.PortDown })
	if from.Route(lid) != nil {
		t.Error("a link that is down")
	}
}
