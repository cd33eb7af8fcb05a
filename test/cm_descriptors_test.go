//go:build vm

package test

import (
	"context"
	"errors"
	"os"
	"sync"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

func descriptors(t *testing.T) int {
	t.Helper()
	return len(must(os.ReadDir("/proc/self/fd"))(t))
}

// acceptAll accepts connections until the listener is closed, closes them as they
// end, and returns when the last is closed.
func acceptAll(l *rdmacm.Listener) {
	var open sync.WaitGroup
	for {
		c, err := l.Accept(context.Background())
		if err != nil {
			break
		}
		open.Go(func() { <-c.Done(); c.Close() })
	}
	open.Wait()
}

// TestCMDescriptors counts the descriptors that a connection takes: one, and none
// with CQs that it shares. It waits in a process that has none left.
func TestCMDescriptors(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	dev := must(uverbs.Open(rxeLink))(t)
	closeLater(t, dev)
	channel := must(dev.CreateCompChannel())(t)
	closeLater(t, channel)
	cq := must(dev.CreateCQ(1024, &uverbs.CQOptions{Channel: channel}))(t)
	closeLater(t, cq)
	shared := uverbs.QPOptions{SendCQ: cq, RecvCQ: cq}
	var accepting sync.WaitGroup
	t.Cleanup(accepting.Wait) // the connections use the CQ
	l := must((&rdmacm.ListenConfig{Config: rdmacm.Config{QP: shared}}).Listen(t.Context(), rxeIPv4+":0"))(t)
	closeLater(t, l)
	accepting.Go(func() { acceptAll(l) })
	dial := func(cfg rdmacm.Config) *rdmacm.Conn {
		c := must((&rdmacm.Dialer{Config: cfg}).Dial(t.Context(), l.Addr().String()))(t)
		closeLater(t, c)
		return c
	}
	dial(rdmacm.Config{}) // opens what all of them share
	before := descriptors(t)
	c := dial(rdmacm.Config{})
	if n := descriptors(t) - before; n != 1 {
		t.Error(n, "descriptors for a connection")
	}
	before = descriptors(t)
	dial(rdmacm.Config{QP: shared})
	if n := descriptors(t) - before; n != 0 {
		t.Error(n, "descriptors for a connection with CQs that it shares")
	}

	var old syscall.Rlimit
	ok(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old))
	none := old
	none.Cur = 0
	ok(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none))
	_, err := os.Open("/dev/null")
	waited := make(chan error)
	go func() {
		_, err := c.SendCQ().Wait(t.Context(), make([]verbs.WC, 1))
		waited <- err
	}()
	disconnected := c.Disconnect()
	ended := <-waited
	ok(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old))
	if !errors.Is(err, syscall.EMFILE) || disconnected != nil || !errors.Is(ended, rdmacm.ErrDisconnected) {
		t.Errorf("open: %v, disconnect: %v, wait: %v", err, disconnected, ended)
	}
}
