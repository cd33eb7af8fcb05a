package netlinkrdma

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// runningKernel is the running kernel, asked through one NETLINK_RDMA socket a request.
type runningKernel struct{}

func (k runningKernel) Execute(req Request) ([][]byte, error) { return allReplies(k, req) }

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

// exchange sends one request, reads the answer and closes the socket.
func exchange(fd int, req Request, f func(reply []byte) bool) error {
	s := Socket{link: descriptor(fd)}
	defer s.Close()
	return s.Stream(req, f)
}

// dial opens the socket of a Socket.
func dial() (link, error) {
	fd, err := openSocket()
	return descriptor(fd), err
}

// descriptor is the link through an open NETLINK_RDMA socket.
type descriptor int

func (d descriptor) send(b []byte) error {
	return unix.Sendto(int(d), b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
}

func (d descriptor) receive(buf []byte, wait bool) (int, error) {
	if wait {
		return receive(int(d), buf, 0)
	}
	return receive(int(d), buf, unix.MSG_DONTWAIT)
}

func (d descriptor) close() error { return unix.Close(int(d)) }

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

// Subscribe joins the group in the network namespace of the calling thread.
func (s *Socket) Subscribe() (Subscription, error) { return joinNotifications() }

// receive receives a datagram from the kernel, and drops those from other processes.
func receive(fd int, buf []byte, flags int) (int, error) {
	for {
		n, from, err := unix.Recvfrom(fd, buf, unix.MSG_TRUNC|flags)
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
