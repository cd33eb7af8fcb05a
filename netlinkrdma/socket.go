package netlinkrdma

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
)

// Socket is a [Kernel] that sends all requests to the running kernel through one socket, where
// the zero Client opens and closes a socket for each request. It is for programs that make many requests:
//
//	var s netlinkrdma.Socket
//	defer s.Close()
//	c := netlinkrdma.Client{Kernel: &s}
//
// The zero value is ready to use. The first request opens the socket, in the network namespace of
// the calling thread. All later requests go to that namespace, whichever thread makes them. The
// kernel also checks the namespace of the calling thread when it moves a device; use a [Netns] for
// that. Subscribe opens a socket of its own, in the namespace of the calling thread.
//
// Several goroutines may use a Socket at once. The kernel answers one request at a time. Requests
// may also be made in the body of a loop over a dump, such as [Client.QPs]: the rest of the dump is
// then kept in memory.
//
// C: mnl_socket_open
type Socket struct {
	mu     sync.Mutex
	link   link // nil until the first request
	closed bool
	// unread is the answer whose end has not been received, or nil. The kernel refuses a
	// dump while another one is unread.
	unread *incoming
	dial   func() (link, error) // of tests; nil: dial
}

var _ interface {
	Kernel
	Streamer
	Subscriber
} = new(Socket)

// link carries datagrams to the kernel and back.
type link interface {
	send(b []byte) error
	// receive returns the length of the next datagram. If none waits, it blocks, or
	// returns EAGAIN if wait is false.
	receive(buf []byte, wait bool) (int, error)
	close() error
}

// incoming is the answer to one request.
type incoming struct {
	answer
	ahead     [][]byte // datagrams that were received to make way for another request
	abandoned bool     // nobody reads the rest
}

// receiveSize is the largest datagram of a dump. The kernel makes datagrams as large as the
// buffer of the last receive, and walks all objects once for each datagram, so a small
// buffer would make a dump slow.
const receiveSize = 32 << 10

// buffers saves an allocation for each request: a connection that ends may send one.
var buffers = sync.Pool{New: func() any { return new([receiveSize]byte) }}

var sequence atomic.Uint32

// Execute sends one request and returns the payload of each reply.
func (s *Socket) Execute(req Request) ([][]byte, error) { return allReplies(s, req) }

// allReplies returns copies of the replies of a stream.
func allReplies(k Streamer, req Request) ([][]byte, error) {
	var replies [][]byte
	err := k.Stream(req, func(reply []byte) bool {
		replies = append(replies, bytes.Clone(reply))
		return true
	})
	if err != nil {
		return nil, err
	}
	return replies, nil
}

// Stream calls f with the replies as they arrive. The next reply overwrites the last. It matches
// replies by sequence number only, because the kernel answers some operations with the type of
// another. The request asks for an acknowledgement, so that an operation without a reply
// reports its errno as well.
//
// The socket is locked except while f runs.
func (s *Socket) Stream(req Request, f func(reply []byte) bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.prepare(); err != nil {
		return err
	}
	in := &incoming{answer: answer{seq: sequence.Add(1)}}
	if err := s.link.send(req.message(in.seq)); err != nil {
		return err
	}
	s.unread = in
	defer func() { in.abandoned = true }()
	buf := buffers.Get().(*[receiveSize]byte)
	defer buffers.Put(buf)
	for !in.done {
		datagram, err := s.next(in, buf[:])
		if err != nil {
			return err
		}
		if err := s.read(in, datagram, f); err != nil {
			return err
		}
	}
	if in.interrupted {
		return syscall.EINTR
	}
	return nil
}

// read parses a datagram, with the socket unlocked. f may end the goroutine.
func (s *Socket) read(in *incoming, datagram []byte, f func(reply []byte) bool) error {
	s.mu.Unlock()
	defer s.mu.Lock()
	return in.read(datagram, f)
}

// prepare opens the socket if it is not open, and receives the rest of the answer that is unread.
func (s *Socket) prepare() (err error) {
	switch {
	case s.closed:
		return net.ErrClosed
	case s.unread != nil:
		return s.receiveRest()
	case s.link != nil:
		return nil
	case s.dial != nil:
		s.link, err = s.dial()
	default:
		s.link, err = dial()
	}
	return err
}

// receiveRest receives the rest of the unread answer. It does not wait, because the kernel queues
// the first part of an answer while it takes the request, and each further part while it hands
// out the one before.
func (s *Socket) receiveRest() error {
	buf := buffers.Get().(*[receiveSize]byte)
	defer buffers.Put(buf)
	for in := s.unread; s.unread != nil; {
		n, err := s.link.receive(buf[:], false)
		switch {
		case errors.Is(err, syscall.EAGAIN):
			s.unread = nil
			return nil
		case err != nil:
			return err
		}
		if !in.abandoned {
			in.ahead = append(in.ahead, bytes.Clone(buf[:n]))
		}
		s.received(buf[:n])
	}
	return nil
}

// next returns the next datagram of an answer.
func (s *Socket) next(in *incoming, buf []byte) ([]byte, error) {
	switch {
	case len(in.ahead) > 0:
		datagram := in.ahead[0]
		in.ahead = in.ahead[1:]
		return datagram, nil
	case s.closed:
		return nil, net.ErrClosed
	case s.unread != in:
		return nil, fmt.Errorf("%w: an answer without an end", ErrMalformed)
	}
	n, err := s.link.receive(buf, true)
	if err != nil {
		return nil, err
	}
	s.received(buf[:n])
	return buf[:n], nil
}

// received notes whether a datagram has the end of the unread answer.
func (s *Socket) received(datagram []byte) {
	for len(datagram) > 0 {
		m, rest, err := nextMessage(datagram)
		if err != nil {
			return
		}
		typ := binary.NativeEndian.Uint16(m[4:])
		if binary.NativeEndian.Uint32(m[8:]) == s.unread.seq && (typ == messageError || typ == messageDone) {
			s.unread = nil
			return
		}
		datagram = rest
	}
}

// Close closes the socket. Later requests fail with an error that matches [net.ErrClosed], as does
// a second Close. Close waits while the kernel answers a request, but not for the body of a loop
// over a dump, which then ends with that error unless its end was received.
//
// C: mnl_socket_close
func (s *Socket) Close() error {
	op := operation{"close", "the socket of NETLINK_RDMA"}
	if s == nil {
		return op.nilPointer()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return op.failed(net.ErrClosed)
	}
	s.closed = true
	if s.link == nil {
		return nil
	}
	if err := s.link.close(); err != nil {
		return op.failed(err)
	}
	return nil
}

// Format prints a line for every verb.
func (s *Socket) Format(f fmt.State, _ rune) { fmt.Fprint(f, "socket of NETLINK_RDMA") }
