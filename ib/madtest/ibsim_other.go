//go:build !linux

package madtest

import "net"

// replies sends the answers to control messages from the server's Unix socket. Only Linux has the names
// of the protocol's sockets.
type replies struct {
	from *net.UnixConn
}

func (r *replies) send(b []byte, to *net.UnixAddr) (refused bool) {
	r.from.WriteToUnix(b, to) // the client repeats what it needs
	return false
}
