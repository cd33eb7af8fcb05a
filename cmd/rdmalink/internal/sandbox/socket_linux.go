package sandbox

import (
	"context"
	"os"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/netlinkrdma"
)

// socket is a socket of NETLINK_RDMA. It receives replies only, and no events.
type socket struct {
	m    *machine
	port uint32
	pipe *os.File // has a byte for each datagram

	mu        sync.Mutex
	datagrams [][]byte
	size      int      // of datagrams, as the kernel counts it
	rest      [][]byte // of a dump, which goes on when datagrams were received
	overrun   bool     // an answer was lost
	waiting   []waiting
}

// receiveBuffer is the size of answers that wait, and truesize that of an answer without its data. A datagram to the
// kernel may be as long as the answers.
const (
	receiveBuffer = 212992
	truesize      = 768
)

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
	name, nameLength uint64 // the address and length of the sender

	header uint64 // the address of struct msghdr
	flags  int
}

func (s *socket) node() node { return socketNode }

func (s *socket) descriptor() *os.File { return s.pipe }

func (s *socket) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pipe.Close() // a thread that waits does so until it gets a signal, as in the kernel
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

// ignore lets a call on a socket of the sandbox succeed, without an effect.
func (c *call) ignore() result {
	if _, ok := find[*socket](c, c.fd(0)); !ok {
		return resume
	}
	return result{}
}

// getsockopt answers that a buffer is large, and no to all else.
func (c *call) getsockopt() result {
	if _, ok := find[*socket](c, c.fd(0)); !ok {
		return resume
	}
	var v uint32
	switch int(c.Args[2]) {
	case unix.SO_RCVBUF, unix.SO_SNDBUF:
		v = receiveBuffer
	case unix.SO_TYPE:
		v = unix.SOCK_RAW
	case unix.SO_DOMAIN:
		v = unix.AF_NETLINK
	case unix.SO_PROTOCOL:
		v = unix.NETLINK_RDMA
	}
	room, err := get[int32](c.process, c.Args[4])
	switch {
	case err != nil:
		return failed(err)
	case room < 0:
		return result{errno: syscall.EINVAL}
	}
	b := abi.Bytes(&v)[:min(room, 4)]
	if err := c.write(c.Args[3], b); err != nil {
		return failed(err)
	}
	return done(0, put(c.process, c.Args[4], uint32(len(b))))
}

func (c *call) getsockname() result {
	s, ok := find[*socket](c, c.fd(0))
	if !ok {
		return resume
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
		return resume
	case c.Args[2] > receiveBuffer:
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
		return resume
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

// take handles a datagram from the process. Like the kernel, it answers within the call, and the removal
// of a device waits until nobody uses it.
func (s *socket) take(c *call, b []byte) result {
	if len(b) > receiveBuffer {
		return result{errno: syscall.EMSGSIZE}
	}
	for q := range splitDatagram(b) {
		if q.Type != nldev|abi.RDMA_NLDEV_CMD_DELLINK {
			continue
		}
		if d := s.m.remove(attributes(q.body)); d != nil {
			return c.later(context.Background(), func(ctx context.Context) (result, bool) {
				if !s.m.awaitRemoved(ctx, d) {
					return result{}, false
				}
				return s.answer(removed{s.m.netlink}, b), true
			})
		}
	}
	return s.answer(s.m.netlink, b)
}

// removed is the kernel that has removed a device.
type removed struct{ netlinkrdma.Kernel }

// Execute implements netlinkrdma.Kernel.
func (k removed) Execute(req netlinkrdma.Request) ([][]byte, error) {
	if req.Op == abi.RDMA_NLDEV_CMD_DELLINK {
		return nil, nil
	}
	return k.Kernel.Execute(req)
}

// answer queues the answers to a datagram, and hands them to receives that wait.
func (s *socket) answer(all netlinkrdma.Kernel, b []byte) result {
	s.mu.Lock()
	defer s.mu.Unlock()
	for q := range splitDatagram(b) {
		k := all
		if len(s.rest) > 0 && q.isDump() {
			k = unfinished{}
		}
		s.queue(answerMessage(k, s.port, q.header, q.body), q.isDump())
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

// unfinished is the kernel for a socket with an unfinished dump.
type unfinished struct{}

// Execute implements netlinkrdma.Kernel.
func (unfinished) Execute(netlinkrdma.Request) ([][]byte, error) { return nil, syscall.EBUSY }

// queue keeps answers for the process while there is room. The rest of a dump waits for room, and other answers are
// lost. s is locked.
func (s *socket) queue(answers [][]byte, dump bool) {
	for i, a := range answers {
		switch {
		case s.size <= receiveBuffer:
			s.size += len(a) + truesize
			s.datagrams = append(s.datagrams, a)
			_, _ = unix.Write(int(s.pipe.Fd()), []byte{0})
		case dump && len(s.rest) == 0 && len(answers) > 1:
			s.rest = answers[i:]
			return
		default:
			s.overrun = true
			return
		}
	}
}

func (c *call) recvfrom() result {
	s, ok := find[*socket](c, c.fd(0))
	if !ok {
		return resume
	}
	return s.receive(c, message{base: c.Args[1], room: c.Args[2], flags: int(c.Args[3]),
		name: c.Args[4], nameLength: c.Args[5]})
}

func (c *call) recvmsg() result {
	s, ok := find[*socket](c, c.fd(0))
	if !ok {
		return resume
	}
	h, err := get[messageHdr](c.process, c.Args[1])
	if err != nil {
		return failed(err)
	}
	return s.receive(c, message{vectors: h.Vectors, count: h.Count, flags: int(c.Args[2]), header: c.Args[1],
		name: h.Name, nameLength: c.Args[1] + 8})
}

// receive hands out the oldest datagram, or waits for one.
func (s *socket) receive(c *call, to message) result {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.overrun:
		s.overrun = false
		return result{errno: syscall.ENOBUFS}
	case len(s.datagrams) > 0:
		return s.deliver(c, to)
	}
	if to.flags&unix.MSG_DONTWAIT != 0 || c.nonblocking(c.fd(0)) {
		return result{errno: syscall.EAGAIN}
	}
	s.waiting = append(s.waiting, waiting{c, to})
	go c.attend(func() bool { return s.withdraw(c) })
	return result{later: true}
}

// withdraw removes a receive that waits. It reports whether there was one.
func (s *socket) withdraw(c *call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.waiting)
	s.waiting = slices.DeleteFunc(s.waiting, func(w waiting) bool { return w.c == c })
	return len(s.waiting) < n
}

// deliver copies a datagram to the process. The lock is held.
func (s *socket) deliver(c *call, to message) result {
	d := s.datagrams[0]
	n, err := c.scatter(to, d)
	if err != nil {
		return failed(err)
	}
	if err := s.writeName(c, to, 0); err != nil {
		return failed(err)
	}
	if to.header != 0 {
		var flags int32
		if n < len(d) {
			flags = unix.MSG_TRUNC
		}
		if err := put(c.process, to.header+40, [2]uint64{0, uint64(flags)}); err != nil {
			return failed(err)
		}
	}
	if to.flags&unix.MSG_PEEK == 0 {
		s.datagrams = s.datagrams[1:]
		s.size -= len(d) + truesize
		_, _ = unix.Read(int(s.pipe.Fd()), make([]byte, 1))
		if rest := s.rest; s.size <= receiveBuffer/2 && len(rest) > 0 {
			s.rest = nil
			s.queue(rest, true)
		}
	}
	if to.flags&unix.MSG_TRUNC != 0 {
		n = len(d)
	}
	return done(n, nil)
}

// scatter writes a datagram to the buffers, up to their size.
func (c *call) scatter(to message, d []byte) (n int, err error) {
	if to.vectors == 0 {
		n = int(min(to.room, uint64(len(d))))
		return n, c.write(to.base, d[:n])
	}
	if to.count > maxVectors {
		return 0, syscall.EMSGSIZE
	}
	for i := range to.count {
		v, err := get[vector](c.process, to.vectors+16*i)
		if err != nil {
			return 0, err
		}
		m := int(min(v.Length, uint64(len(d)-n)))
		if err := c.write(v.Base, d[n:][:m]); err != nil {
			return 0, err
		}
		n += m
	}
	return n, nil
}
