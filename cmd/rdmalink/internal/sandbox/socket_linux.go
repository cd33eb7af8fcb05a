package sandbox

import (
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/internal/abi"
)

// socket is a socket of NETLINK_RDMA. It receives replies only, and no events, because
// the sandbox's devices do not change.
type socket struct {
	m    *machine
	port uint32
	pipe *os.File // has a byte for each datagram

	mu        sync.Mutex
	datagrams [][]byte
	waiting   []waiting
}

// waiting is a receive that blocks.
type waiting struct {
	c  *call
	to message
}

// message is the destination of a datagram: struct msghdr, or the equivalent arguments of
// the simpler calls.
type message struct {
	base, room       uint64 // a buffer, or
	vectors, count   uint64
	name, nameLength uint64 // where the sender goes, and how long it is

	header uint64 // the address of struct msghdr
	flags  int
}

func (s *socket) node() node { return socketNode }

func (s *socket) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.waiting {
		w.c.close() // it waits until it is killed, as in the kernel
	}
	s.waiting = nil
	s.pipe.Close()
}

func (c *call) socket() result {
	own, theirs, err := c.files.pipe()
	if err != nil {
		return failed(err)
	}
	defer theirs.Close()
	s := &socket{m: c.machine(), port: uint32(c.leader()), pipe: own}
	if err := c.files.add(theirs, s); err != nil {
		own.Close()
		return failed(err)
	}
	if int(c.Args[1])&unix.SOCK_NONBLOCK != 0 {
		if err := unix.SetNonblock(int(theirs.Fd()), true); err != nil {
			return failed(err)
		}
	}
	return done(c.giveOurs(int(theirs.Fd()), int(c.Args[1])&unix.SOCK_CLOEXEC != 0))
}

func (c *call) bind() result { return c.option() }

// option accepts all options of a socket of the sandbox.
func (c *call) option() result {
	if _, ok := find[*socket](c, c.fd(0)); !ok {
		return goOn
	}
	return result{}
}

func (c *call) setsockopt() result { return c.option() }

// getsockopt answers that a buffer is large, and no to all else.
func (c *call) getsockopt() result {
	if _, ok := find[*socket](c, c.fd(0)); !ok {
		return goOn
	}
	var v uint32
	switch int(c.Args[2]) {
	case unix.SO_RCVBUF, unix.SO_SNDBUF:
		v = 212992
	case unix.SO_TYPE:
		v = unix.SOCK_RAW
	case unix.SO_DOMAIN:
		v = unix.AF_NETLINK
	case unix.SO_PROTOCOL:
		v = unix.NETLINK_RDMA
	}
	if err := put(c.process, c.Args[3], v); err != nil {
		return failed(err)
	}
	return done(0, put(c.process, c.Args[4], uint32(4)))
}

func (c *call) getsockname() result {
	s, ok := find[*socket](c, c.fd(0))
	if !ok {
		return goOn
	}
	return done(0, s.writeName(c, message{name: c.Args[1], nameLength: c.Args[2]}, s.port))
}

// writeName writes a struct sockaddr_nl if there is room for it.
func (s *socket) writeName(c *call, to message, port uint32) error {
	if to.name == 0 {
		return nil
	}
	var room uint32
	if err := c.read(to.nameLength, abi.Bytes(&room)); err != nil {
		return err
	}
	name := unix.RawSockaddrNetlink{Family: unix.AF_NETLINK, Pid: port}
	b := abi.Bytes(&name)
	if err := c.write(to.name, b[:min(int(room), len(b))]); err != nil {
		return err
	}
	return put(c.process, to.nameLength, uint32(len(b)))
}

func (c *call) sendto() result {
	s, ok := find[*socket](c, c.fd(0))
	switch {
	case !ok:
		return goOn
	case c.Args[2] > longest:
		return result{errno: syscall.EMSGSIZE}
	}
	b := make([]byte, c.Args[2])
	if err := c.read(c.Args[1], b); err != nil {
		return failed(err)
	}
	return s.take(c, b)
}

func (c *call) sendmsg() result {
	s, ok := find[*socket](c, c.fd(0))
	if !ok {
		return goOn
	}
	h, err := get[messageHdr](c.process, c.Args[1])
	if err != nil {
		return failed(err)
	}
	b, err := c.gather(h.Vectors, h.Count)
	if err != nil {
		return failed(err)
	}
	return s.take(c, b)
}

// messageHdr is struct msghdr of 64 bits.
type messageHdr struct {
	Name          uint64
	NameLength    uint32
	_             uint32
	Vectors       uint64
	Count         uint64
	Control       uint64
	ControlLength uint64
	Flags         int32
	_             uint32
}

// take is a datagram of the process's; the kernel answers within the call.
func (s *socket) take(c *call, b []byte) result {
	answers := answerDatagram(s.m.netlink, s.port, b)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.datagrams = append(s.datagrams, answers...)
	for range answers {
		_, _ = unix.Write(int(s.pipe.Fd()), []byte{0})
	}
	for len(s.waiting) > 0 && len(s.datagrams) > 0 {
		w := s.waiting[0]
		s.waiting = s.waiting[1:]
		if w.c.waits() { // otherwise the datagram is the next one's
			w.c.answer(s.deliver(w.c, w.to))
		} else {
			w.c.close()
		}
	}
	return done(len(b), nil)
}
