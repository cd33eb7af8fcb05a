package netlinkrdma

import (
	"bytes"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// receiveSize is the most the kernel puts into one datagram of a dump. It
// fills as much as the last receive had room for, and looks at all objects
// once a datagram: a small buffer makes a dump slow.
const receiveSize = 32 << 10

// buffers are made again and again otherwise: each connection that ends may ask.
var buffers = sync.Pool{New: func() any { return new([receiveSize]byte) }}

// runningKernel answers through a NETLINK_RDMA socket, one for each request.
type runningKernel struct{}

var sequence atomic.Uint32

func (k runningKernel) Execute(req Request) ([][]byte, error) {
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

// Stream hands out the replies as they come; each is overwritten by the next.
func (runningKernel) Stream(req Request, f func(reply []byte) bool) error {
	fd, err := openSocket()
	if err != nil {
		return err
	}
	return exchange(fd, req, f)
}

// exchange sends one request, reads the answer and closes the socket. Replies
// are matched by sequence number only: the kernel answers some operations under
// the name of another. The acknowledgement is asked for so that an operation
// without a reply reports its errno too.
func exchange(fd int, req Request, f func(reply []byte) bool) error {
	defer unix.Close(fd)
	a := answer{seq: sequence.Add(1)}
	if err := unix.Sendto(fd, req.message(a.seq), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	buf := buffers.Get().(*[receiveSize]byte)
	defer buffers.Put(buf)
	for !a.done {
		n, err := receive(fd, buf[:])
		if err != nil {
			return err
		}
		if err := a.read(buf[:n], f); err != nil {
			return err
		}
	}
	if a.interrupted {
		return unix.EINTR
	}
	return nil
}

// openSocket leaves the port to the kernel. Without the first option an error
// repeats the request, without the second it has no text.
func openSocket() (int, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_RDMA)
	if err != nil {
		return -1, err
	}
	for _, option := range []int{unix.NETLINK_CAP_ACK, unix.NETLINK_EXT_ACK} {
		if err := unix.SetsockoptInt(fd, unix.SOL_NETLINK, option, 1); err != nil {
			unix.Close(fd)
			return -1, err
		}
	}
	return fd, nil
}

// receive takes a datagram of the kernel's; what a process sends is dropped.
func receive(fd int, buf []byte) (int, error) {
	for {
		n, from, err := unix.Recvfrom(fd, buf, unix.MSG_TRUNC)
		switch sender, ok := from.(*unix.SockaddrNetlink); {
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case !ok || sender.Pid != 0:
		case n > len(buf):
			return 0, fmt.Errorf("%w: a datagram of %d bytes", ErrMalformed, n)
		default:
			return n, nil
		}
	}
}
