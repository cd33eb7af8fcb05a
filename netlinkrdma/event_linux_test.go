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

// quiet is a socket like that of notifications, on which nothing is sent; the
// running kernel need not have RDMA.
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

func TestReceiveEnds(t *testing.T) {
	n := quiet(t)
	for range 3 { // a context that is done does no harm to the next
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if _, err := n.Receive(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		cancel()
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
		for _, err := range []error{list, subscribe, collectError(c.DumpQP(1, nil))} {
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

// TestSpareThread: the thread that did the work is never the main one.
func TestSpareThread(t *testing.T) {
	for range 100 {
		done := make(chan int)
		go onSpareThread(func() { done <- unix.Gettid() })
		if id := <-done; id == unix.Getpid() {
			t.Fatal("the main thread")
		}
	}
}
