//go:build vm

package test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/goverbs/goverbs/msg"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/verbs"
)

func TestMsgPeerKilled(t *testing.T) {
	overSiw(t, msg.Config{}, msgKill)
}
func TestRxeMsgPeerKilled(t *testing.T) {
	overRxe(t, msg.Config{}, msgKill)
}

// msgKill kills a peer that is sending, and has received nothing. That is no orderly end,
// and a Send that waits for credit ends too.
func msgKill(t *testing.T, w msgWay) {
	ctx := withPatience(t)
	ln := must(msg.Listen(w.address, &w.cfg))(t)
	closeLater(t, ln)
	p := start(t, child("msg victim", ln.Addr().String()))
	c := must(ln.Accept(ctx))(t)
	closeLater(t, c)
	for range 100 {
		recvMsg(t, c)
	}
	blocked := make(chan error, 1)
	go func() {
		for {
			if err := c.Send(ctx, nil); err != nil {
				blocked <- err
				return
			}
		}
	}()
	until(t, "a Send that waits for credit", func() bool { return parked("(*Conn).sendBuffer") })
	p.Process.Kill()
	for {
		m, err := c.Recv(ctx)
		if err == nil {
			m.Release()
			continue
		}
		isEnd(t, err)
		break
	}
	isEnd(t, <-blocked)
	if _, err := c.Recv(ctx); err == nil || err == io.EOF {
		t.Error(err)
	}
}

// isEnd checks that an error reports a peer that vanished.
func isEnd(t *testing.T, err error) {
	t.Helper()
	var typed *msg.Error
	var status verbs.Status
	if !errors.As(err, &typed) || !errors.Is(err, rdmacm.ErrDisconnected) && !errors.As(err, &status) {
		t.Error("the end:", err)
	}
}

// msgVictim sends until it is killed.
func msgVictim(args []string) error {
	c, err := msg.Dial(context.Background(), args[0], nil)
	for err == nil {
		err = c.Send(context.Background(), []byte("and so on"))
	}
	return fmt.Errorf("the survivor went first: %w", err)
}

func TestRxeMsgAtomics(t *testing.T) { overRxe(t, msg.Config{}, msgAtomics) }

// Atomic operations of both kinds, and arguments that they refuse before the device sees them.
func msgAtomics(t *testing.T, w msgWay) {
	a, b := msgPair(t, w)
	words := must(b.Register(make([]byte, 64), msg.MayRead|msg.MayAtomic))(t)
	remote, ctx := words.Remote(), withPatience(t)
	if v, err := a.FetchAdd(ctx, remote, 8, 5); v != 0 || err != nil {
		t.Error(v, err)
	}
	if v, err := a.FetchAdd(ctx, remote, 8, 5); v != 5 || err != nil {
		t.Error(v, err)
	}
	if v, err := a.CompareAndSwap(ctx, remote, 8, 9, 1); v != 10 || err != nil {
		t.Error(v, err)
	}
	if v, err := a.CompareAndSwap(ctx, remote, 8, 10, 1); v != 10 || err != nil {
		t.Error(v, err)
	}
	if v, err := a.FetchAdd(ctx, remote, 8, 0); v != 1 || err != nil {
		t.Error(v, err)
	}
	for _, off := range []uint64{4, 57, 64} {
		if _, err := a.FetchAdd(ctx, remote, off, 1); !errors.Is(err, msg.ErrOutOfBounds) {
			t.Error(off, err)
		}
	}
}
