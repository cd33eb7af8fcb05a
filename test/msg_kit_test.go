//go:build vm

package test

import (
	"context"
	"testing"

	"github.com/goverbs/goverbs/msg"
	"github.com/goverbs/goverbs/uverbs"
)

// msgWay is one of the ways in which package msg connects.
type msgWay struct {
	name, address string
	cfg           msg.Config // with or without a pool
}

// overEach runs a test over siw or rxe, with connections that have everything to
// themselves, and with a pool.
func overEach(t *testing.T, link, address string, cfg msg.Config, test func(*testing.T, msgWay)) {
	t.Run("alone", func(t *testing.T) {
		noLeak(t)
		test(t, msgWay{"alone", address, cfg})
	})
	t.Run("pool", func(t *testing.T) {
		noLeak(t)
		dev := must(uverbs.Open(link))(t)
		closeLater(t, dev)
		pool := must(msg.NewPool(dev, 8, &cfg))(t)
		closeLater(t, pool)
		cfg := cfg
		cfg.Pool = pool
		test(t, msgWay{"pool", address, cfg})
	})
}

// overSiw and overRxe are overEach on one of the fabrics.
func overSiw(t *testing.T, cfg msg.Config, test func(*testing.T, msgWay)) {
	fabric(t)
	overEach(t, dummyLink, dummyIPv4+":0", cfg, test)
}

func overRxe(t *testing.T, cfg msg.Config, test func(*testing.T, msgWay)) {
	rxeFabric(t)
	overEach(t, rxeLink, rxeIPv4+":0", cfg, test)
}

// msgPair makes two connected ends, the first of which dialled. They are closed when the
// test ends.
func msgPair(t *testing.T, w msgWay) (a, b *msg.Conn) {
	t.Helper()
	ctx := withPatience(t)
	ln := must((&msg.ListenConfig{Config: w.cfg}).Listen(t.Context(), w.address))(t)
	defer ln.Close()
	accepted := make(chan error, 1)
	go func() {
		var err error
		b, err = ln.Accept(ctx)
		accepted <- err
	}()
	a, err := (&msg.Dialer{Config: w.cfg}).Dial(ctx, ln.Addr().String())
	if errAccept := <-accepted; err != nil || errAccept != nil {
		t.Fatalf("dial: %v, accept: %v", err, errAccept)
	}
	t.Cleanup(func() { bothClose(t, a, b) })
	return a, b
}

// bothClose closes two ends at once.
func bothClose(t *testing.T, a, b *msg.Conn) {
	t.Helper()
	errs := make(chan error, 2)
	for _, c := range []*msg.Conn{a, b} {
		go func() { errs <- c.Shutdown(context.Background()) }()
	}
	for range 2 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// withPatience is a context that ends with the test, or when it hangs.
func withPatience(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// sendMsg sends one message.
func sendMsg(t *testing.T, c *msg.Conn, b []byte) {
	t.Helper()
	ok(t, c.Send(withPatience(t), b))
}

// recvMsg receives one message, of which it returns a copy.
func recvMsg(t *testing.T, c *msg.Conn) []byte {
	t.Helper()
	m := must(c.Recv(withPatience(t)))(t)
	defer m.Release()
	return append([]byte{}, m.Bytes()...)
}
