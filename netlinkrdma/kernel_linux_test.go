package netlinkrdma

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func socket(t *testing.T, protocol int) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

// TestExchangeClosesSocket checks that exchange closes its socket after an error. It uses the
// route family, which refuses the request, so the running kernel needs no RDMA.
func TestExchangeClosesSocket(t *testing.T) {
	fd := socket(t, unix.NETLINK_ROUTE)
	if err := exchange(fd, Request{}, func([]byte) bool { return true }); err == nil {
		t.Error("a request that nobody knows was answered")
	}
	if err := unix.Close(fd); err != unix.EBADF {
		t.Error("the socket was left open:", err)
	}
}

// TestReceiveTooLong checks that a datagram longer than the buffer is an error, and that the
// buffer is not read beyond its end.
func TestReceiveTooLong(t *testing.T) {
	fd := socket(t, unix.NETLINK_ROUTE)
	defer unix.Close(fd)
	for _, room := range []int{8, 19} {
		if err := unix.Sendto(fd, []byte(listLinks), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
			t.Fatal(err)
		}
		if n, err := receive(fd, make([]byte, room), 0); n != 0 || !errors.Is(err, ErrMalformed) {
			t.Errorf("%d bytes in %d, %v", n, room, err)
		}
	}
}

// TestReceiveFromKernelOnly checks that a message from another process is not taken as an answer.
func TestReceiveFromKernelOnly(t *testing.T) {
	fd, other := socket(t, unix.NETLINK_USERSOCK), socket(t, unix.NETLINK_USERSOCK)
	defer unix.Close(fd)
	defer unix.Close(other)
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Sendto(other, []byte(listLinks), 0, name); err != nil {
		t.Fatal(err)
	}
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(time.Minute/time.Millisecond)); n != 1 || err != nil {
		t.Fatal("it did not arrive:", n, err)
	}
	if n, err := (descriptor(fd)).receive(make([]byte, 64), false); err != unix.EAGAIN {
		t.Errorf("%d bytes, %v", n, err)
	}
}
