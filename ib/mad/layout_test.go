package mad

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/verbs"
)

// TestLayouts checks that no bit belongs to two fields, that names and positions are valid, and that
// each field fits its Go type.
func TestLayouts(t *testing.T) {
	room := map[memory]int{memoryBool: 1, memoryUint8: 8, memoryUint16: 16, memoryUint32: 32, memoryUint64: 64}
	for _, k := range layouts {
		l := k.layout()
		owner := make(map[int]string)
		seen := make(map[string]bool)
		for _, f := range l.Fields {
			if f.Name == "" || strings.Contains(f.Name, "%") || seen[f.Name] || f.Kind == 0 {
				t.Errorf("%s has the field %+v", l.Name, f)
			}
			seen[f.Name] = true
			if n, ok := room[f.memory]; ok && f.Width > n {
				t.Errorf("%s.%s has %d bits in a Go type of %d", l.Name, f.Name, f.Width, n)
			}
			if f.memory >= memoryBytes && (f.Bit%8 != 0 || f.Width%8 != 0) {
				t.Errorf("%s.%s has bytes at bit %d, width %d", l.Name, f.Name, f.Bit, f.Width)
			}
			for bit := f.Bit; bit < f.Bit+f.Width; bit++ {
				if o := owner[bit]; o != "" {
					t.Errorf("%s: bit %d belongs to %s and %s", l.Name, bit, o, f.Name)
				}
				owner[bit] = f.Name
				if bit >= l.Size*8 && l.Name != "Notice" {
					t.Errorf("%s.%s ends behind the attribute's %d bytes", l.Name, f.Name, l.Size)
				}
			}
		}
		if LayoutOf(l.New()) != l {
			t.Errorf("%s: New returns another attribute", l.Name)
		}
	}
}

// TestWire decodes bytes that ibsim and opensm sent, and compares with the output of C's tools.
func TestWire(t *testing.T) {
	var node NodeInfo
	wire := []byte{1, 1, 1, 2, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 1, 0, 0x40, 0, 0, 0, 0, 0, 0xa1, 1, 0, 0, 0}
	if err := Unmarshal(wire, &node); err != nil {
		t.Fatal(err)
	}
	want := NodeInfo{BaseVersion: 1, ClassVersion: 1, Type: NodeCA, NumPorts: 2, SystemGUID: 0x100000, NodeGUID: 0x100000, PortGUID: 0x100001, PartitionCap: 64, Revision: 0xa1, LocalPort: 1}
	if node != want {
		t.Errorf("%+v", node)
	}
	const dump = `BaseVers:........................1
ClassVers:.......................1
NodeType:........................Channel Adapter
NumPorts:........................2
SystemGuid:......................0x0000000000100000
Guid:............................0x0000000000100000
PortGuid:........................0x0000000000100001
PartCap:.........................64
DevId:...........................0x0000
Revision:........................0x000000a1
LocalPort:.......................1
VendorId:........................0x000000
`
	if got := Dump(&node, nil); got != dump {
		t.Errorf("got:\n%swant:\n%s", got, dump)
	}
	back := make([]byte, len(wire))
	if err := Marshal(back, &node); err != nil || !bytes.Equal(back, wire) {
		t.Errorf("% x, %v", back, err)
	}
}

// TestPositions writes fields of PortInfo that don't begin at a byte.
func TestPositions(t *testing.T) {
	data := make([]byte, 64)
	for i, test := range []struct {
		set  func(*PortInfo)
		byte int
		want byte
	}{
		{func(p *PortInfo) { p.LinkSpeedSupported = 7 }, 32, 0x70},
		{func(p *PortInfo) { p.LinkState = verbs.PortActive }, 32, 0x04},
		{func(p *PortInfo) { p.PhysLinkState = verbs.PhysLinkUp }, 33, 0x50},
		{func(p *PortInfo) { p.LMC = 5 }, 34, 0x05},
		{func(p *PortInfo) { p.ProtectBits = 3 }, 34, 0xc0},
		{func(p *PortInfo) { p.SMSL = 9 }, 36, 0x09},
		{func(p *PortInfo) { p.PartitionEnforceOutbound = true }, 43, 0x04},
		{func(p *PortInfo) { p.SubnetTimeout = 18 }, 51, 0x12},
		{func(p *PortInfo) { p.ClientReregister = true }, 51, 0x80},
		{func(p *PortInfo) { p.LinkSpeedExtActive2 = 1 }, 56, 0x20},
		{func(p *PortInfo) { p.LinkSpeedExtEnabled2 = 1 }, 56, 0x01},
		{func(p *PortInfo) { p.LinkSpeedExtSupported = 0xf }, 62, 0x0f},
		{func(p *PortInfo) { p.LinkSpeedExtEnabled = 30 }, 63, 0x1e},
		{func(p *PortInfo) { p.RoundTripLatency = 0x010203 }, 59, 0x03},
	} {
		var p PortInfo
		test.set(&p)
		if err := Marshal(data, &p); err != nil || data[test.byte] != test.want {
			t.Errorf("%d: byte %d is %#02x, not %#02x; %v", i, test.byte, data[test.byte], test.want, err)
		}
	}
}

func TestUnmarshalShort(t *testing.T) {
	for _, k := range layouts {
		l := k.layout()
		if err := Unmarshal(make([]byte, l.Size-1), l.New()); err == nil {
			t.Errorf("%s of %d bytes was accepted", l.Name, l.Size-1)
		}
		if err := Marshal(make([]byte, l.Size-1), l.New()); err == nil {
			t.Errorf("%s was written to %d bytes", l.Name, l.Size-1)
		}
	}
	n := Notice{IssuerGID: verbs.GID{1}}
	if err := Unmarshal(make([]byte, 64), &n); err != nil || n.IssuerGID != (verbs.GID{}) {
		t.Errorf("a notice without its optional field: %+v, %v", n, err)
	}
}

func TestMarshalTooLarge(t *testing.T) {
	data := make([]byte, 64)
	if err := Marshal(data, &PortInfo{LMC: 8}); err == nil || !strings.Contains(err.Error(), "LMC is 8") {
		t.Errorf("LMC 8 of three bits: %v", err)
	}
	if err := Marshal(data, &NodeDescription{strings.Repeat("x", 65)}); err == nil {
		t.Error("a description of 65 bytes was written")
	}
}

// TestMarshalKeepsReserved checks that Marshal doesn't change bits outside of fields.
func TestMarshalKeepsReserved(t *testing.T) {
	data := bytes.Repeat([]byte{0xff}, 64)
	var s SwitchInfo
	if err := Marshal(data, &s); err != nil {
		t.Fatal(err)
	}
	if data[16] != 0x07 || data[17] != 0xff || data[15] != 0 {
		t.Errorf("% x", data)
	}
}

func TestDumpWords(t *testing.T) {
	p := PortInfo{
		CapMask: 1<<1 | 1<<14, LinkWidthSupported: 3, LinkWidthEnabled: 2, LinkWidthActive: Width4X, LinkSpeedSupported: 7, LinkSpeedEnabled: 4,
		LinkSpeedExtEnabled: 30, LinkSpeedExtSupported: 3, LinkState: verbs.PortActive, PhysLinkState: verbs.PhysLinkUp, MTUCap: verbs.MTU4096, VLCap: 4,
	}
	dump := Dump(&p, nil)
	for _, want := range []string{
		"Mkey:............................<not displayed>\n",
		"CapMask:.........................0x4002\n\t\t\t\tIsSM\n\t\t\t\tIsExtendedSpeedsSupported\n",
		"LinkWidthSupported:..............1X or 4X\n", "LinkWidthEnabled:................4X\n", "LinkWidthActive:.................4X\n",
		"LinkSpeedSupported:..............2.5 Gbps or 5.0 Gbps or 10.0 Gbps\n", "LinkSpeedActive:.................Extended speed\n",
		"LinkSpeedEnabled:................10.0 Gbps (IBA extension)\n", "LinkState:.......................Active\n", "PhysLinkState:...................LinkUp\n",
		"MtuCap:..........................4096\n", "VLCap:...........................VL0-7\n", "NeighborMTU:.....................?(0)\n",
		"LinkSpeedExtSupported:...........14.0625 Gbps or 25.78125 Gbps\n", "LinkSpeedExtEnabled:.............Extended link speeds disabled\n",
	} {
		if !strings.Contains(dump, want) {
			t.Errorf("no %q in\n%s", want, dump)
		}
	}
	if s := Dump(&PortInfo{MKey: 5}, &DumpOptions{ShowKeys: true}); !strings.HasPrefix(s, "Mkey:............................0x0000000000000005\n") {
		t.Error(s)
	}
	if s := Dump(&NodeDescription{"a\x1b[2Jb\xff"}, nil); s != "NodeDesc:........................'a [2Jb '\n" {
		t.Errorf("%q", s)
	}
}

func TestJSON(t *testing.T) {
	b := AppendJSON(nil, &LFTRecord{LID: 3, Block: 1, Table: LinearForwardingTable{Ports: [64]uint8{1: 7}}}, nil)
	var v struct {
		Lid, Block int
		Port       []int
	}
	if err := json.Unmarshal(b, &v); err != nil || v.Lid != 3 || v.Block != 1 || len(v.Port) != 64 || v.Port[1] != 7 {
		t.Errorf("%s: %+v, %v", b, v, err)
	}
	if b := AppendJSON(nil, &PortInfo{MKey: 5}, nil); bytes.Contains(b, []byte("Mkey")) && !bytes.Contains(b, []byte("MkeyLease")) {
		t.Errorf("%s shows a key", b)
	}
}

func TestParseJSON(t *testing.T) {
	for _, text := range []string{`{`, `[]`, `{"Lid":-1}`, `{"Lid":65536}`, `{"Lid":"1"}`, `{"LinkState":"Gone"}`, `{"CapMask":"0x100000000"}`, `{"LMC":8}`} {
		if err := ParseJSON([]byte(text), &PortInfo{}); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
	if err := ParseJSON([]byte(`{"Port":[1,2,300]}`), &LFTRecord{}); err == nil {
		t.Error("a port of 300 is accepted")
	}
	info := PortInfo{LID: 9, MKey: 5}
	if err := ParseJSON([]byte(`{"LinkState":"Active","LinkWidthSupported":"1X or 4X","Unknown":1}`), &info); err != nil ||
		!reflect.DeepEqual(info, PortInfo{LinkState: 4, LinkWidthSupported: Width1X | Width4X}) {
		t.Errorf("%+v, %v", info, err)
	}
}

func TestStatusError(t *testing.T) {
	m := New(ClassSA, GetTableResp, AttrNodeRecord, 0)
	m.SetStatus(StatusSANoRecords)
	err := m.Err()
	if want := "GetTableResp SA NodeRecord: status 0x0300 (no records)"; err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
	d := New(ClassDirected, GetResp, AttrPortInfo, 0)
	d.SetReturning(true)
	if d.Err() != nil {
		t.Errorf("the direction counts as a status: %v", d.Err())
	}
	d.SetStatus(StatusBadMethodAttr)
	if !d.Returning() || !errors.Is(d.Err(), errors.ErrUnsupported) {
		t.Errorf("%v, %v", d.Returning(), d.Err())
	}
}

func TestRoute(t *testing.T) {
	r, err := ParseRoute("0,1,3")
	if err != nil || r.String() != "DR path slid 65535; dlid 65535; 0,1,3" {
		t.Errorf("%v, %v", r, err)
	}
	m := r.SMP(Get, AttrNodeInfo, 0, 7)
	if d := m.Data; m.Addr.LID != PermissiveLID || d.HopCount() != 2 || d.InitialPath()[1] != 1 || d.InitialPath()[2] != 3 || d.MKey() != 7 || d.DrSLID() != PermissiveLID {
		t.Errorf("%+v, % x", m.Addr, d)
	}
	if m := ByLID(5).SMP(Get, AttrNodeInfo, 0, 0); m.Data.Class() != ClassLID || m.Addr.LID != 5 {
		t.Errorf("%+v", m.Addr)
	}
	if s := (Route{LID: 5, DrLID: 4, Hops: []uint8{1}}).String(); s != "Lid 5 DR path slid 4; dlid 65535; 0,1" {
		t.Error(s)
	}
	for _, bad := range []string{"", "x", "0,256", "0" + strings.Repeat(",1", 64)} {
		if _, err := ParseRoute(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestMethodMask(t *testing.T) {
	m := Methods(Get, Trap, GetTable)
	if !m.Has(Get) || !m.Has(Trap) || !m.Has(GetTable) || m.Has(Set) || m != (MethodMask{1<<1 | 1<<5 | 1<<0x12}) {
		t.Errorf("%x", m)
	}
}

// FuzzAttributes checks for all layouts that decoding and encoding preserves any bytes, and that
// any bytes can be printed as a dump and as JSON.
func FuzzAttributes(f *testing.F) {
	f.Add(0, make([]byte, 256))
	f.Add(1, bytes.Repeat([]byte{0xff}, 256))
	f.Add(4, []byte("\x01\x02short"))
	f.Add(slices.IndexFunc(layouts, func(k known) bool { return k.layout().Name == "NodeDescription" }), bytes.Repeat([]byte{0x80}, 64)) // invalid UTF-8
	f.Fuzz(func(t *testing.T, n int, data []byte) {
		l := layouts[uint(n)%uint(len(layouts))].layout()
		a, b := l.New(), l.New()
		if err := Unmarshal(data, a); err != nil {
			if len(data) >= l.Size {
				t.Fatal(err)
			}
			return
		}
		out := make([]byte, len(data))
		if err := Marshal(out, a); err != nil {
			t.Fatal(err)
		}
		if err := Unmarshal(out, b); err != nil || !reflect.DeepEqual(a, b) {
			t.Fatalf("%+v, then %+v; %v", a, b, err)
		}
		for i := range l.Fields {
			f := &l.Fields[i]
			if f.memory < memoryBytes && f.Bit+f.Width <= len(data)*8 && bits(data, f.Bit, f.Width) != bits(out, f.Bit, f.Width) {
				t.Errorf("%s.%s changed", l.Name, f.Name)
			}
		}
		if s := Dump(a, nil); strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r > '~' }) {
			t.Errorf("%q", s)
		}
		text := AppendJSON(nil, a, &DumpOptions{ShowKeys: true})
		if !json.Valid(text) {
			t.Errorf("%s", text)
		}
		c := l.New()
		if err := ParseJSON(text, c); err != nil {
			t.Errorf("%s: %v", text, err)
		} else if again := AppendJSON(nil, c, &DumpOptions{ShowKeys: true}); !bytes.Equal(text, again) && !bytes.ContainsRune(text, '\ufffd') && !bytes.Contains(text, []byte(`\ufffd`)) {
			t.Errorf("%s, then %s", text, again)
		}
		_ = ParseJSON(data, c) // must not panic
	})
}

func BenchmarkUnmarshalPortInfo(b *testing.B) {
	data := make([]byte, 64)
	var p PortInfo
	b.ReportAllocs()
	for b.Loop() {
		if err := Unmarshal(data, &p); err != nil {
			b.Fatal(err)
		}
	}
}

func TestUnmarshalAllocs(t *testing.T) {
	data := make([]byte, 64)
	var p PortInfo
	if n := testing.AllocsPerRun(100, func() {
		if Unmarshal(data, &p) != nil || Marshal(data, &p) != nil {
			t.Fatal("failed")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestLanes has each width, and what is none.
func TestLanes(t *testing.T) {
	for w, want := range map[LinkWidth]int{Width1X: 1, Width2X: 2, Width4X: 4, Width8X: 8, Width12X: 12, 0: 0, Width1X | Width4X: 0, 32: 0} {
		if got := w.Lanes(); got != want {
			t.Errorf("%v: %d lanes, not %d", w, got, want)
		}
	}
}
