package netlinkrdma

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/internal/abi"
)

// Subscribe joins the multicast group in the network namespace of the calling thread.
func (runningKernel) Subscribe() (Subscription, error) { return joinNotifications() }

// notifications is a socket in the multicast group.
type notifications struct {
	f    *os.File
	raw  syscall.RawConn
	buf  []byte
	left []byte // the rest of the last datagram
}

// joinNotifications opens a socket in the multicast group. bind gives the socket a port,
// without which it would receive nothing.
func joinNotifications() (*notifications, error) {
	fd, err := openSocket()
	if err != nil {
		return nil, err
	}
	group := &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1 << (abi.RDMA_NL_GROUP_NOTIFY - 1)}
	if err := unix.Bind(fd, group); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return notificationsOf(fd)
}

// notificationsOf adds the socket to the netpoller. Reading a file that is not in the
// netpoller would block a thread.
func notificationsOf(fd int) (*notifications, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "NETLINK_RDMA")
	raw, err := f.SyscallConn()
	if err == nil {
		err = f.SetReadDeadline(time.Time{})
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &notifications{f: f, raw: raw, buf: make([]byte, receiveSize)}, nil
}

func (n *notifications) Close() error { return n.f.Close() }

func (n *notifications) Receive(ctx context.Context) ([]byte, error) {
	for {
		body, rest, err := nextNotification(n.left)
		n.left = rest
		if body != nil || err != nil {
			return body, err
		}
		if n.left, err = n.datagram(ctx); err != nil {
			n.left = nil
			return nil, err
		}
	}
}

// datagram waits for a datagram.
func (n *notifications) datagram(ctx context.Context) ([]byte, error) {
	stop := context.AfterFunc(ctx, func() { n.f.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	for {
		// The context of an earlier call may have set a deadline, even just now. So
		// clear the deadline, then check this call's context, then wait. SetReadDeadline
		// fails only if the file was closed.
		if n.f.SetReadDeadline(time.Time{}) != nil {
			return nil, os.ErrClosed
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var size int
		var received error
		err := n.raw.Read(func(fd uintptr) bool {
			size, received = receive(int(fd), n.buf, 0)
			return received != unix.EAGAIN
		})
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
		case err != nil:
			return nil, os.ErrClosed
		case received != nil:
			return nil, received
		default:
			return n.buf[:size], nil
		}
	}
}
