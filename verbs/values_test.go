package verbs_test

import (
	"math/bits"
	"net/netip"
	"testing"

	"github.com/goverbs/goverbs/verbs"
)

func TestNames(t *testing.T) {
	for _, test := range []struct{ got, want string }{
		{verbs.GUID(0x0c7680fffebfe77b).String(), "0c76:80ff:febf:e77b"},
		{verbs.NodeRNIC.String(), "rnic"},
		{verbs.NodeType(0).String(), "NodeType(0)"},
		{verbs.NodeType(27).String(), "NodeType(27)"},
		{verbs.PortActive.String(), "ACTIVE"},
		{verbs.PortState(27).String(), "PortState(27)"},
		{verbs.PhysLinkUp.String(), "LINK_UP"},
		{verbs.PhysOPATest.String(), "OPA_TEST"},
		{verbs.PhysState(27).String(), "PhysState(27)"},
		{verbs.LinkUnspecified.String(), "Unspecified"},
	} {
		if test.got != test.want {
			t.Errorf("got %s, want %s", test.got, test.want)
		}
	}
}

func TestMRAdviceString(t *testing.T) {
	for a, want := range map[verbs.MRAdvice]string{verbs.MRPrefetch: "PREFETCH", verbs.MRPrefetchWrite: "PREFETCH_WRITE",
		verbs.MRPrefetchNoFault: "PREFETCH_NO_FAULT", 27: "MRAdvice(27)"} {
		if a.String() != want {
			t.Errorf("%v, want %s", a, want)
		}
	}
}

func TestBitNames(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{verbs.Access(0).String(), "0"}, {verbs.Access(1<<30 | 1<<20 | 3).String(), "LocalWrite|RemoteWrite|RelaxedOrdering|0x40000000"},
		{verbs.DeviceCap(1<<40 | 1<<63).String(), "AtomicWrite|0x8000000000000000"}, {verbs.ODPGeneral(7).String(), "Support|Implicit|0x4"},
		{verbs.ODPTransport(1 << 8).String(), "0x100"}, {(verbs.ODPSend | verbs.ODPAtomicWrite).String(), "Send|AtomicWrite"},
		{verbs.PathMigState(3).String(), "PathMigState(3)"}, {verbs.PathMigArmed.String(), "ARMED"}, {verbs.PathMigRearm.String(), "REARM"}, {verbs.PathMigMigrated.String(), "MIGRATED"},
		{verbs.AtomicNone.String(), "none"}, {verbs.AtomicHCA.String(), "HCA"}, {verbs.AtomicGlobal.String(), "global"}, {verbs.AtomicCap(3).String(), "AtomicCap(3)"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

// TestDeviceCapNames checks that each constant has a name, at its own bit.
func TestDeviceCapNames(t *testing.T) {
	for c, name := range map[verbs.DeviceCap]string{
		verbs.DeviceCapMemWindow: "MemWindow", verbs.DeviceCapMemWindowType2A: "MemWindowType2A", verbs.DeviceCapMemWindowType2B: "MemWindowType2B",
		verbs.DeviceCapSRQResize: "SRQResize", verbs.DeviceCapAutoPathMig: "AutoPathMig", verbs.DeviceCapMemMgtExtensions: "MemMgtExtensions",
		verbs.DeviceCapFlushGlobal: "FlushGlobal", verbs.DeviceCapFlushPersistent: "FlushPersistent", verbs.DeviceCapAtomicWrite: "AtomicWrite",
		verbs.DeviceCapManagedFlowSteering: "ManagedFlowSteering", verbs.DeviceCapRawScatterFCS: "RawScatterFCS", verbs.DeviceCapXRC: "XRC",
	} {
		if bits.OnesCount64(uint64(c)) != 1 || c.String() != name {
			t.Errorf("%#x: %v, want %s", uint64(c), c, name)
		}
	}
}

func TestGIDAddr(t *testing.T) {
	for _, c := range []struct {
		addr, gid string
		multicast bool
	}{
		{"10.0.0.1", "::ffff:10.0.0.1", false}, {"2001:db8::1", "2001:db8::1", false}, {"fe80::1", "fe80::1", false},
		{"239.1.2.3", "::ffff:239.1.2.3", true}, {"ff0e::1", "ff0e::1", true},
	} {
		g := verbs.GIDFromAddr(netip.MustParseAddr(c.addr))
		if g.String() != c.gid || g.Addr().String() != c.addr || g.IsMulticast() != c.multicast {
			t.Errorf("%s: %v, %v, %v", c.addr, g, g.Addr(), g.IsMulticast())
		}
	}
	if g := verbs.GIDFromAddr(netip.Addr{}); g != (verbs.GID{}) {
		t.Error(g)
	}
}

// TestRate checks that each rate is found by its speed and by its multiple, and no other number is a
// rate.
func TestRate(t *testing.T) {
	for r, c := range map[verbs.Rate]struct{ mult, mbps int }{2: {1, 2500}, 10: {48, 120000}, 11: {0, 14062}, 16: {0, 103125}, 24: {480, 1275000}, 0: {}, 1: {}, 25: {}} {
		if r.Mult() != c.mult || r.Mbps() != c.mbps {
			t.Errorf("%d: %d times 2.5 Gb/s, %d Mb/s", r, r.Mult(), r.Mbps())
		}
	}
	known := 0
	for r := range verbs.Rate(255) {
		if r.Mbps() == 0 {
			continue
		}
		known++
		if verbs.RateOfMbps(r.Mbps()) != r || r.Mult() != 0 && verbs.RateOfMult(r.Mult()) != r {
			t.Errorf("%d is not found", r)
		}
	}
	if known != 23 || verbs.RateOfMbps(2501) != 0 || verbs.RateOfMult(0) != 0 || verbs.RateOfMult(-1) != 0 {
		t.Errorf("%d rates", known)
	}
}

func TestFlowLabelUDPPort(t *testing.T) {
	for label, want := range map[uint32]uint16{0: 0xc000, 1: 0xc001, 0x4000: 0xc001, 0xfffff: 0xffc0, 0x12345: 0xe341, 1<<20 | 1: 0xc001} {
		if got := verbs.FlowLabelUDPPort(label); got != want {
			t.Errorf("%#x: %#x", label, got)
		}
	}
}
