package netlinkrdma

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Execute sends the request from a thread in the namespace. A socket in the namespace is
// not enough, because the kernel checks others too when it moves a device.
func (n Netns) Execute(req Request) (replies [][]byte, err error) {
	err = n.in(func() error {
		replies, err = runningKernel{}.Execute(req)
		return err
	})
	return replies, err
}

// Stream opens its socket in the namespace, and calls f on the caller's goroutine.
func (n Netns) Stream(req Request, f func(reply []byte) bool) error {
	var fd int
	err := n.in(func() (err error) {
		fd, err = openSocketFor(req)
		return err
	})
	if err != nil {
		return err
	}
	return exchange(fd, req, f)
}

// Subscribe joins the multicast group in that namespace.
func (n Netns) Subscribe() (s Subscription, err error) {
	err = n.in(func() error {
		s, err = joinNotifications()
		return err
	})
	return s, err
}

// in runs f on a thread in the namespace. The thread ends after f.
func (n Netns) in(f func() error) error {
	done := make(chan error)
	go onSpareThread(func() { done <- n.enter(f) })
	return <-done
}

func (n Netns) enter(f func() error) error {
	defer runtime.KeepAlive(n.File)
	if err := unix.Setns(int(n.File.Fd()), unix.CLONE_NEWNET); err != nil {
		return &os.PathError{Op: "setns", Path: n.name(), Err: err}
	}
	return f()
}

func (n Netns) name() string {
	if n.File == nil {
		return "without a file"
	}
	return n.File.Name()
}

// onSpareThread runs f on a thread that ends with this goroutine, which stays locked to it.
// The main thread cannot end, and /proc/PID/ns shows the namespace of the main thread. If
// this goroutine runs on the main thread, it keeps that thread until another goroutine has
// run f.
func onSpareThread(f func()) {
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() {
		f()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		onSpareThread(f)
	}()
	<-done
	runtime.UnlockOSThread()
}
