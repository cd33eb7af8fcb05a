package netlinkrdma

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// quiet returns a subscription whose socket receives nothing. The running kernel need not
// have RDMA.
func quiet(t *testing.T) *notifications {
	t.Helper()
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	n, err := notificationsOf(fd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return n
}

const listLinks = "\x14\x00\x00\x00\x12\x00\x01\x03\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" // RTM_GETLINK

func TestReceiveEnds(t *testing.T) {
	n := quiet(t)
	for range 3 { // a context that is done does no harm to the next
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if _, err := n.Receive(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		cancel()
	}
	if _, err := n.f.Write([]byte(listLinks)); err != nil {
		t.Fatal(err)
	}
	if b, err := n.datagram(t.Context()); err != nil || len(b) == 0 {
		t.Error(len(b), err)
	}
	done := make(chan error)
	go func() {
		_, err := n.Receive(context.Background())
		done <- err
	}()
	n.Close()
	if err := <-done; !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
	if _, err := n.Receive(t.Context()); !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
}

// counting is a context that counts its AfterFuncs.
type counting struct {
	context.Context
	done    chan struct{}
	waiters *int
}

func (c counting) Done() <-chan struct{} { return c.done }

func (c counting) AfterFunc(func()) func() bool {
	*c.waiters++
	return func() bool { *c.waiters--; return true }
}

// TestReceiveLeavesContext checks that Receive leaves nothing behind in a context, which may
// serve a million notifications.
func TestReceiveLeavesContext(t *testing.T) {
	n, ctx := quiet(t), counting{t.Context(), make(chan struct{}), new(int)}
	if _, err := n.f.Write([]byte(listLinks)); err != nil {
		t.Fatal(err)
	}
	if _, err := n.datagram(ctx); err != nil || *ctx.waiters != 0 {
		t.Errorf("%v, %d wait for the end of a context", err, *ctx.waiters)
	}
}

// TestReceiveFromProcess checks that datagrams from processes are dropped.
func TestReceiveFromProcess(t *testing.T) {
	var fds [2]int
	for i := range fds {
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_USERSOCK)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
			t.Fatal(err)
		}
		fds[i] = fd
	}
	to, err := unix.Getsockname(fds[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Sendto(fds[1], []byte(listLinks), 0, to); err != nil {
		t.Fatal(err)
	}
	if n, err := receive(fds[0], make([]byte, receiveSize), 0); err != unix.EAGAIN {
		t.Errorf("%d bytes, %v", n, err)
	}
}

func TestNetnsThatIsNone(t *testing.T) {
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for file, want := range map[*os.File]syscall.Errno{nil: syscall.EBADF, f: syscall.EINVAL} {
		c := Client{Kernel: Netns{file}}
		_, list := c.Devices()
		_, subscribe := Netns{file}.Subscribe()
		for _, err := range []error{list, subscribe, collectError(c.QPs(1, nil))} {
			if !errors.Is(err, want) || errors.Is(err, ErrNotFound) {
				t.Errorf("%v, want %v", err, want)
			}
		}
	}
}

func collectError[T any](dump func(yield func(T, error) bool)) error {
	_, err := collect(dump)
	return err
}

// spareThread is the thread that ran a function for the main thread, on which package
// variables are initialized.
var spareThread = func() (id int) {
	onSpareThread(func() { id = unix.Gettid() })
	return id
}()

func TestSpareThread(t *testing.T) {
	if spareThread == 0 || spareThread == unix.Getpid() {
		t.Errorf("thread %d did it, of process %d", spareThread, unix.Getpid())
	}
}

// TestReceiveMalformed checks that a malformed datagram returns one error and no notification.
func TestReceiveMalformed(t *testing.T) {
	n := quiet(t)
	n.left = []byte("abc")
	if body, err := n.Receive(t.Context()); body != nil || !errors.Is(err, ErrMalformed) {
		t.Errorf("%q, %v", body, err)
	}
	if len(n.left) > 0 {
		t.Errorf("%q is left", n.left)
	}
}
