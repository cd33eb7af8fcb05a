package madtest

import (
	"encoding/binary"
	"net"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// unreadReplies is the number of answers that a client may leave unread. All clients share the buffer of
// the control socket, which holds some 270.
const unreadReplies = 16

// maxCounted limits the number of clients whose answers are counted. The names of clients are their
// choice.
const maxCounted = 1024

// replies sends the answers to control messages from the server's Unix socket.
//
// A client of the protocol reads each answer before it asks again. The kernel counts the unread answers
// of all clients together, and reports for each socket whether it has any.
type replies struct {
	from *net.UnixConn
	sent map[string]int // answers that a client may not have read, by name
}

// send sends an answer without waiting. It reports whether the client has left too many unread, and gets
// no more. If the kernel doesn't report unread messages, the client gets the answer unless the buffer is full.
func (r *replies) send(b []byte, to *net.UnixAddr) (refused bool) {
	raw, err := r.from.SyscallConn()
	if err != nil {
		return false
	}
	control := func(fd uintptr) {
		if unread, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ); err == nil && unread == 0 || r.sent == nil || len(r.sent) == maxCounted {
			r.sent = make(map[string]int)
		}
		if r.sent[to.Name] >= unreadReplies {
			unread, known := hasUnread(to.Name)
			if refused = known && unread; refused {
				return
			}
			delete(r.sent, to.Name)
		}
		if unix.Sendto(int(fd), b, unix.MSG_DONTWAIT, &unix.SockaddrUnix{Name: to.Name}) == nil {
			r.sent[to.Name]++
		}
	}
	return raw.Control(control) == nil && refused
}

// The requests and attributes of linux/unix_diag.h.
const (
	unixDiagRequest = 24 // length of struct unix_diag_req
	unixDiagMessage = 16 // length of struct unix_diag_msg
	unixDiagName    = 0
	unixDiagQueue   = 4
)

// hasUnread reports whether the Unix socket with a name in the abstract namespace has unread messages.
// known is false if there is no such socket, or if the kernel lacks unix_diag.
func hasUnread(name string) (unread, known bool) {
	body := make([]byte, unixDiagRequest)
	body[0] = unix.AF_UNIX
	binary.NativeEndian.PutUint32(body[4:], ^uint32(0)) // sockets in all states
	binary.NativeEndian.PutUint32(body[12:], 1<<unixDiagName|1<<unixDiagQueue)
	request := nl.NewNetlinkRequest(nl.SOCK_DIAG_BY_FAMILY, unix.NLM_F_DUMP)
	request.AddRawData(body)
	sockets, err := request.Execute(unix.NETLINK_SOCK_DIAG, nl.SOCK_DIAG_BY_FAMILY)
	if err != nil {
		return false, false
	}
	for _, s := range sockets {
		attrs, err := nl.ParseRouteAttr(s[min(unixDiagMessage, len(s)):])
		if err != nil {
			continue
		}
		found, waiting := false, uint32(0)
		for _, a := range attrs {
			switch {
			case a.Attr.Type == unixDiagName:
				found = len(a.Value) > 0 && "@"+string(a.Value[1:]) == name // the name begins with a NUL
			case a.Attr.Type == unixDiagQueue && len(a.Value) >= 4:
				waiting = binary.NativeEndian.Uint32(a.Value)
			}
		}
		if found {
			return waiting > 0, true
		}
	}
	return false, false
}
