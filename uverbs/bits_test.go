package uverbs

import (
	"math/bits"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
)

func TestBitNames(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Access(0).String(), "0"}, {Access(1<<30 | 1<<20 | 3).String(), "LocalWrite|RemoteWrite|RelaxedOrdering|0x40000000"},
		{DeviceCap(1<<40 | 1<<63).String(), "AtomicWrite|0x8000000000000000"}, {ODPGeneral(7).String(), "Support|Implicit|0x4"},
		{ODPTransport(1 << 8).String(), "0x100"}, {(ODPSend | ODPAtomicWrite).String(), "Send|AtomicWrite"},
		{PathMigState(3).String(), "PathMigState(3)"}, {PathMigArmed.String(), "ARMED"}, {PathMigRearm.String(), "REARM"}, {PathMigMigrated.String(), "MIGRATED"},
		{AtomicNone.String(), "none"}, {AtomicHCA.String(), "HCA"}, {AtomicGlobal.String(), "global"}, {AtomicCap(3).String(), "AtomicCap(3)"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

// TestDeviceCapNames: each constant has a name, at its own bit.
func TestDeviceCapNames(t *testing.T) {
	for c, name := range map[DeviceCap]string{
		DeviceCapMemWindow: "MemWindow", DeviceCapMemWindowType2A: "MemWindowType2A", DeviceCapMemWindowType2B: "MemWindowType2B",
		DeviceCapSRQResize: "SRQResize", DeviceCapAutoPathMig: "AutoPathMig", DeviceCapMemMgtExtensions: "MemMgtExtensions",
		DeviceCapFlushGlobal: "FlushGlobal", DeviceCapFlushPersistent: "FlushPersistent", DeviceCapAtomicWrite: "AtomicWrite",
		DeviceCapManagedFlowSteering: "ManagedFlowSteering", DeviceCapRawScatterFCS: "RawScatterFCS", DeviceCapXRC: "XRC",
	} {
		if bits.OnesCount64(uint64(c)) != 1 || c.String() != name {
			t.Errorf("%#x: %v, want %s", uint64(c), c, name)
		}
	}
}

func TestODPCaps(t *testing.T) {
	var resp abi.IbUverbsExQueryDeviceResp
	resp.OdpCaps.GeneralCaps, resp.XrcOdpCaps = 1, 5
	resp.OdpCaps.PerTransportCaps = abi.IbUverbsOdpCapsPerTransportCaps{RcOdpCaps: 2, UcOdpCaps: 3, UdOdpCaps: 4}
	if got, want := newDeviceAttr(&resp).ODP, (ODPCaps{General: ODPSupport, RC: 2, UC: 3, UD: 4, XRC: 5}); got != want {
		t.Errorf("%+v", got)
	}
}

// TestOffloads: what soft devices have none of.
func TestOffloads(t *testing.T) {
	resp := abi.IbUverbsExQueryDeviceResp{
		RssCaps:     abi.IbUverbsRssCaps{SupportedQpts: 1, MaxRwqIndirectionTables: 2, MaxRwqIndirectionTableSize: 3},
		MaxWqTypeRq: 4, RawPacketCaps: 5,
		TmCaps: abi.IbUverbsTmCaps{MaxRndvHdrSize: 6, MaxNumTags: 7, Flags: 8, MaxOps: 9, MaxSge: 10},
	}
	want := DeviceAttr{RSS: RSSCaps{SupportedQPTypes: 1, MaxIndirectionTables: 2, MaxIndirectionTableSize: 3}, MaxWQTypeRQ: 4, RawPacketCaps: 5, TagMatching: TagMatchingCaps{MaxRndvHdrSize: 6, MaxTags: 7, Flags: 8, MaxOps: 9, MaxSGE: 10}}
	if got := newDeviceAttr(&resp); *got != want {
		t.Errorf("%+v", got)
	}
}
