package uverbs

import (
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

func TestODPCaps(t *testing.T) {
	var resp abi.IbUverbsExQueryDeviceResp
	resp.OdpCaps.GeneralCaps, resp.XrcOdpCaps = 1, 5
	resp.OdpCaps.PerTransportCaps = abi.IbUverbsOdpCapsPerTransportCaps{RcOdpCaps: 2, UcOdpCaps: 3, UdOdpCaps: 4}
	if got, want := newDeviceAttr(&resp).ODP, (verbs.ODPCaps{General: verbs.ODPSupport, RC: 2, UC: 3, UD: 4, XRC: 5}); got != want {
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
	want := verbs.DeviceAttr{RSS: verbs.RSSCaps{SupportedQPTypes: 1, MaxIndirectionTables: 2, MaxIndirectionTableSize: 3}, MaxWQTypeRQ: 4, RawPacketCaps: 5, TagMatching: verbs.TagMatchingCaps{MaxRndvHdrSize: 6, MaxTags: 7, Flags: 8, MaxOps: 9, MaxSGE: 10}}
	if got := newDeviceAttr(&resp); *got != want {
		t.Errorf("%+v", got)
	}
}
