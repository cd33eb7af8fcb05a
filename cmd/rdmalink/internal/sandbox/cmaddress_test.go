package sandbox

import (
	"net/netip"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
)

func sockaddr(a netip.AddrPort) []byte {
	b := make([]byte, 28)
	b[0], b[2], b[3] = afInet, byte(a.Port()>>8), byte(a.Port())
	if a.Addr().Is4() {
		copy(b[4:], a.Addr().AsSlice())
		return b
	}
	b[0] = afInet6
	copy(b[8:], a.Addr().AsSlice())
	return b
}

func TestLocalize(t *testing.T) {
	own := netip.MustParseAddr("198.51.100.1")
	for from, want := range map[string]string{
		"0.0.0.0:7174":      "198.51.100.1:7174",
		"[::]:7174":         "198.51.100.1:7174",
		"127.0.0.1:80":      "198.51.100.1:80",
		"[::1]:80":          "198.51.100.1:80",
		"198.51.100.2:7174": "198.51.100.2:7174",
		"[2001:db8::1]:1":   "[2001:db8::1]:1",
	} {
		in := make([]byte, 8+mostCommand)
		copy(in[bindAddr:], sockaddr(netip.MustParseAddrPort(from)))
		in = localize(abi.RdmaUcmCmdHdr{Cmd: abi.RDMA_USER_CM_CMD_BIND}, in, own)
		if got := in[bindAddr:][:28]; string(got) != string(sockaddr(netip.MustParseAddrPort(want))) {
			t.Errorf("%s: %x", from, got)
		}
	}
}

// TestLocalizeIP6 checks that an ID that is bound to all IPv6 addresses, and no others, stays of that family.
func TestLocalizeIP6(t *testing.T) {
	own := netip.MustParseAddr("::ffff:198.51.100.1")
	in := make([]byte, 8+mostCommand)
	copy(in[bindAddr:], sockaddr(netip.MustParseAddrPort("[::]:7174")))
	in = localize(abi.RdmaUcmCmdHdr{Cmd: abi.RDMA_USER_CM_CMD_BIND}, in, own)
	if got := in[bindAddr:][:28]; string(got) != string(sockaddr(netip.AddrPortFrom(own, 7174))) {
		t.Errorf("%x", got)
	}
}

// TestLocalizeSource checks that an ID that is bound to nothing leaves from its own machine.
func TestLocalizeSource(t *testing.T) {
	own := netip.MustParseAddr("198.51.100.2")
	in := make([]byte, 8+mostCommand)
	copy(in[resolveTo:], sockaddr(netip.MustParseAddrPort("198.51.100.1:7174")))
	in = localize(abi.RdmaUcmCmdHdr{Cmd: abi.RDMA_USER_CM_CMD_RESOLVE_ADDR}, in, own)
	if got := in[resolveSource:][:28]; string(got) != string(sockaddr(netip.AddrPortFrom(own, 0))) || in[resolveSize] != sizeOfSockaddr {
		t.Errorf("source %x, %d bytes", got, in[resolveSize])
	}
	if got := in[resolveTo:][:28]; string(got) != string(sockaddr(netip.MustParseAddrPort("198.51.100.1:7174"))) {
		t.Errorf("destination %x", got)
	}
}

func TestIsAFIB(t *testing.T) {
	in := make([]byte, 100)
	if isAFIB(in) || isAFIB(in[:8]) {
		t.Error("none is")
	}
	if in[bindAddr] = afIB; !isAFIB(in) {
		t.Error("one is")
	}
}
