//go:build vm

package cm

import (
	"context"
	"errors"
	"os"
	"sync"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// acceptAll accepts connections until the listener is closed. It closes each connection when it ends,
// and returns after the last one.
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

// TestCMDescriptors counts the descriptors of a connection. It has one, and none if it shares its CQs.
// The test also waits in a process without free descriptors.
func TestCMDescriptors(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	dev := kit.Must(uverbs.Open(kit.RxeLink))(t)
	kit.CloseLater(t, dev)
	channel := kit.Must(dev.CreateCompChannel())(t)
	kit.CloseLater(t, channel)
	cq := kit.Must(dev.CreateCQ(1024, &uverbs.CQOptions{Channel: channel}))(t)
	kit.CloseLater(t, cq)
	shared := uverbs.QPOptions{SendCQ: cq, RecvCQ: cq}
	var accepting sync.WaitGroup
	t.Cleanup(accepting.Wait) // the connections use the CQ
	l := kit.Must((&rdmacm.ListenConfig{Config: rdmacm.Config{QP: shared}}).Listen(t.Context(), kit.RxeIPv4+":0"))(t)
	kit.CloseLater(t, l)
	accepting.Go(func() { acceptAll(l) })
	dial := func(cfg rdmacm.Config) *rdmacm.Conn {
		c := kit.Must((&rdmacm.Dialer{Config: cfg}).Dial(t.Context(), l.Addr().String()))(t)
		kit.CloseLater(t, c)
		return c
	}
	dial(rdmacm.Config{}) // opens the descriptors that all connections share
	before := kit.Descriptors(t)
	c := dial(rdmacm.Config{})
	if n := kit.Descriptors(t) - before; n != 1 {
		t.Error(n, "descriptors for a connection")
	}
	before = kit.Descriptors(t)
	dial(rdmacm.Config{QP: shared})
	if n := kit.Descriptors(t) - before; n != 0 {
		t.Error(n, "descriptors for a connection with CQs that it shares")
	}

	var old syscall.Rlimit
	kit.OK(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old))
	none := old
	none.Cur = 0
	kit.OK(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none))
	_, err := os.Open("/dev/null")
	waited := make(chan error)
	go func() {
		_, err := c.SendCQ().Wait(t.Context(), make([]verbs.WC, 1))
		waited <- err
	}()
	disconnected := c.Disconnect()
	ended := <-waited
	kit.OK(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old))
	if !errors.Is(err, syscall.EMFILE) || disconnected != nil || !errors.Is(ended, rdmacm.ErrDisconnected) {
		t.Errorf("open: %v, disconnect: %v, wait: %v", err, disconnected, ended)
	}
}
