package sandbox

import (
	"syscall"

	"golang.org/x/sys/unix"
)

func (c *call) recvfrom() result {
	s, ok := find[*socket](c, c.fd(0))
	if !ok {
		return goOn
	}
	return s.receive(c, message{base: c.Args[1], room: c.Args[2], flags: int(c.Args[3]),
		name: c.Args[4], nameLength: c.Args[5]})
}

func (c *call) recvmsg() result {
	s, ok := find[*socket](c, c.fd(0))
	if !ok {
		return goOn
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
	if len(s.datagrams) > 0 {
		return s.deliver(c, to)
	}
	if to.flags&unix.MSG_DONTWAIT != 0 || c.nonblocking(c.fd(0)) {
		return result{errno: syscall.EAGAIN}
	}
	s.waiting = append(s.waiting, waiting{c, to})
	return result{later: true}
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
		_, _ = unix.Read(int(s.pipe.Fd()), make([]byte, 1))
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
