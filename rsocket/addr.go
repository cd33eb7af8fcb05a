package rsocket

import "net/netip"

// protocol is the name of the network in addresses and errors.
const protocol = "rsocket"

// Addr is the address of one end of a connection, or of a listener. It is a [net.Addr].
type Addr struct{ addr netip.AddrPort }

// Network returns "rsocket".
func (Addr) Network() string { return protocol }

// String returns address and port, as in "10.0.0.1:7471" and "[fe80::1%eth0]:7471".
func (a Addr) String() string { return a.addr.String() }

// AddrPort returns address and port.
func (a Addr) AddrPort() netip.AddrPort { return a.addr }
