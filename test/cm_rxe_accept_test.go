//go:build vm

package test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/verbs"
)

// TestCMRxeAcceptBesideSilentPeer: a peer that gets its answer and never confirms
// it, for which the kernel would wait minutes, holds up none that comes behind it.
func TestCMRxeAcceptBesideSilentPeer(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	l := must((&rdmacm.ListenConfig{ConfirmTimeout: 5 * time.Second}).Listen(t.Context(), rxeIPv4+":0"))(t)
	type accepted struct {
		conn *rdmacm.Conn
		err  error
	}
	all := make(chan accepted)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	go func() {
		for range 2 {
			c, err := l.Accept(ctx)
			all <- accepted{c, err}
		}
	}()

	ch := newChannel(t)
	silent := resolveLow(t, ch, verbs.PortSpaceTCP, l.Addr())
	ok(t, silent.Connect(t.Context(), &rdmacm.ConnParam{QPNum: 77}))
	expect(t, ch, rdmacm.EventConnectResponse) // and is not answered

	c := must(rdmacm.Dial(ctx, l.Addr().String()))(t)
	first := <-all
	if first.err != nil {
		t.Fatal(first.err)
	}
	ok(t, c.Close())
	ok(t, first.conn.Close())
	ev := must(ch.Get(ctx))(t)
	ev.Ack()
	if ev.Type != rdmacm.EventRejected { // the silent one is dropped, and Accept says nothing of it
		t.Error(ev.Type, ev.Err)
	}
	ok(t, l.Close())
	if second := <-all; !errors.Is(second.err, net.ErrClosed) {
		t.Error(second.err)
	}
}
