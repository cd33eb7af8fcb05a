package netlinkrdma

import (
	"bytes"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// receiveSize is the largest datagram of a dump. The kernel makes datagrams as large as the
// buffer of the last receive, and walks all objects once for each datagram, so a small
// buffer would make a dump slow.
const receiveSize = 32 << 10

// buffers saves an allocation for each request: a connection that ends may send one.
var buffers = sync.Pool{New: func() any { return new([receiveSize]byte) }}

// runningKernel is the running kernel, asked through one NETLINK_RDMA socket a request.
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

// Stream calls f with the replies as they arrive. The next reply overwrites the last.
func (runningKernel) Stream(req Request, f func(reply []byte) bool) error {
	fd, err := openSocketFor(req)
	if err != nil {
		return err
	}
	return exchange(fd, req, f)
}

// openSocketFor opens a socket for one request. A request without attributes has nothing that the
// text of an error could explain, so it does without the two system calls for the options.
func openSocketFor(req Request) (int, error) {
	if len(req.Attrs) > 0 {
		return openSocket()
	}
	return unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_RDMA)
}

// exchange sends one request, reads the answer and closes the socket. It matches replies by
// sequence number only, because the kernel answers some operations with the type of
// another. The request asks for an acknowledgement, so that an operation without a reply
// reports its errno as well.
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

// openSocket opens a NETLINK_RDMA socket, whose port the kernel chooses. NETLINK_CAP_ACK
// keeps the request out of errors. NETLINK_EXT_ACK adds a text to errors.
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

// receive receives a datagram from the kernel, and drops those from other processes.
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

// isOwnThread reports whether a thread belongs to this process. It asks the kernel whether
// a signal could be sent to such a thread, and sends none.
func isOwnThread(tid uint32) bool {
	return unix.Tgkill(os.Getpid(), int(tid), 0) == nil
}
