package madtest

import (
	"net"

	"golang.org/x/sys/unix"
)

// unreadReplies is how many answers a client may leave unread. The protocol's clients read each before
// they ask again. The control socket holds some 270 for all clients together.
const unreadReplies = 16

// replies sends the answers to control messages from the server's Unix socket.
//
// The kernel counts what all clients have not read yet, but not whose it is. Clients that read do so at
// once, so replies takes the newest answers as read.
type replies struct {
	from   *net.UnixConn
	unread []string // who has unread answers, in the order of the answers
	size   int      // what an answer occupies
}

// send sends an answer without waiting. It reports whether the client has left too many unread, and gets
// no more.
func (r *replies) send(b []byte, to *net.UnixAddr) (refused bool) {
	raw, err := r.from.SyscallConn()
	if err != nil {
		return false
	}
	control := func(fd uintptr) {
		before, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
		if err != nil {
			return
		}
		waiting := 0
		if r.size > 0 {
			waiting = (before + r.size - 1) / r.size
		}
		r.unread = r.unread[:min(len(r.unread), waiting)]
		own := 0
		for _, name := range r.unread {
			if name == to.Name {
				own++
			}
		}
		if refused = own >= unreadReplies; refused {
			return
		}
		if unix.Sendto(int(fd), b, unix.MSG_DONTWAIT, &unix.SockaddrUnix{Name: to.Name}) != nil {
			return
		}
		r.unread = append(r.unread, to.Name)
		if after, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ); err == nil {
			r.size = max(r.size, after-before)
		}
	}
	return raw.Control(control) == nil && refused
}
