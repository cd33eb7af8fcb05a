package sandbox

import (
	"net/netip"

	"github.com/goverbs/goverbs/internal/abi"
)

// mostCommand is longer than any command of the connection manager's.
const mostCommand = 512

// Where addresses stand in commands, behind the header.
const (
	bindID         = 8
	destroyID      = 8 + 8 // behind the response's address
	bindAddr       = 8 + 8
	resolveSource  = 8 + 16
	resolveSize    = 8 + 8 // of the source
	resolveTo      = resolveSource + 128
	sizeOfSockaddr = 16
)

const (
	afInet  = 2
	afInet6 = 10
	afIB    = 27
)

// isAFIB reports whether a request binds to an address of InfiniBand's family. librdmacm
// does so to find out whether the kernel supports it.
func isAFIB(in []byte) bool { return len(in) > bindAddr && in[bindAddr] == afIB }

// localize puts the machine's address where a command means this machine without saying so:
// any address, the loopback's, or no source at all. in has room for the longest command.
func localize(h abi.RdmaUcmCmdHdr, in []byte, own netip.Addr) []byte {
	switch h.Cmd {
	case abi.RDMA_USER_CM_CMD_BIND:
		setLocal(in[bindAddr:], own)
	case abi.RDMA_USER_CM_CMD_RESOLVE_ADDR:
		setLocal(in[resolveTo:], own)
		if in[resolveSource] == 0 {
			in[resolveSource], in[resolveSize] = afInet, sizeOfSockaddr
		}
		setLocal(in[resolveSource:], own)
	}
	return in
}

// isAny reports whether a command binds to all addresses.
func isAny(h abi.RdmaUcmCmdHdr, in []byte) bool {
	return h.Cmd == abi.RDMA_USER_CM_CMD_BIND && parseAddr(in[bindAddr:]).IsUnspecified()
}

// parseAddr returns the address of a struct sockaddr_in or sockaddr_in6. Others have the zero address.
func parseAddr(b []byte) netip.Addr {
	switch b[0] {
	case afInet:
		return netip.AddrFrom4([4]byte(b[4:8]))
	case afInet6:
		return netip.AddrFrom16([16]byte(b[8:24])).Unmap()
	}
	return netip.Addr{}
}

// setLocal changes a struct sockaddr_in or sockaddr_in6. The port stays.
func setLocal(b []byte, own netip.Addr) {
	if a := parseAddr(b); a.IsUnspecified() || a.IsLoopback() {
		clear(b[4:28])
		b[0], b[1] = afInet, 0
		if own.Is4() {
			copy(b[4:], own.AsSlice())
		} else {
			b[0] = afInet6
			copy(b[8:], own.AsSlice())
		}
	}
}
