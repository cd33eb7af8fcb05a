//go:build vm

package msg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/goverbs/goverbs/msg"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/verbs"
)

// largeMessage is read by its receiver, in pieces.
const largeMessage = 1 << 20

// TestMsgPeerKilledInMessage checks that if either end dies in the middle of a message that its receiver reads, or
// during one-sided operations, the other end's calls return an error, and not the one of an orderly end. Messages that
// were received are whole.
func TestMsgPeerKilledInMessage(t *testing.T) {
	kit.Only612(t)
	onEachFabric(t, func(t *testing.T, _, host string) {
		for what, survive := range map[string]func(*testing.T, *kit.Process, *msg.Conn){
			"who sends": whileReceiving, "who receives": whileSending, "who is written to": whileWriting,
		} {
			t.Run(what, func(t *testing.T) {
				l := kit.Must(msg.Listen(t.Context(), host+":0"))(t)
				kit.CloseLater(t, l)
				p := kit.Start(t, kit.Child("msg large victim", l.Addr().String(), what))
				c := kit.Must(l.Accept(withPatience(t)))(t)
				survive(t, p, c)
				kit.OK(t, c.Close())
			})
		}
	})
}

func whileReceiving(t *testing.T, p *kit.Process, c *msg.Conn) {
	for i := 0; ; i++ {
		if i == 2 { // the next ones are under way
			p.Process.Kill()
		}
		m, err := c.Recv(withPatience(t))
		if err != nil {
			isEnd(t, err)
			return
		}
		if b := m.Bytes(); len(b) != largeMessage || b[0] != 'x' || b[len(b)-1] != 'y' {
			t.Errorf("message %d: %d bytes, %q to %q", i, len(b), b[0], b[len(b)-1])
		}
		m.Release()
	}
}

func whileSending(t *testing.T, p *kit.Process, c *msg.Conn) {
	recvMsg(t, c) // it is there
	ctx, sent := withPatience(t), make(chan error, 1)
	go func() {
		for {
			if err := c.Send(ctx, make([]byte, largeMessage)); err != nil {
				sent <- err
				return
			}
		}
	}()
	kit.Until(t, "a Send that waits for the peer to read", func() bool { return kit.Parked("(*Conn).Send") })
	p.Process.Kill()
	isEnd(t, <-sent)
}

func whileWriting(t *testing.T, p *kit.Process, c *msg.Conn) {
	var remote msg.RemoteRegion
	kit.OK(t, remote.UnmarshalBinary(recvMsg(t, c)))
	ours := kit.Must(c.Register(make([]byte, largeMessage), 0))(t)
	ctx, ends := withPatience(t), make(chan error, 2)
	first := make(chan struct{}, 2)
	for _, transfer := range []func() error{
		func() error { return c.Write(ctx, remote, 0, ours.Span(0, largeMessage/2)) },
		func() error { return c.Read(ctx, ours.Span(largeMessage/2, largeMessage/2), remote, largeMessage/2) },
	} {
		go func() {
			err := transfer()
			first <- struct{}{}
			for err == nil {
				err = transfer()
			}
			ends <- err
		}()
	}
	<-first
	<-first
	p.Process.Kill()
	isEnd(t, <-ends)
	isEnd(t, <-ends)
	if _, err := c.Recv(ctx); err == nil || errors.Is(err, io.EOF) {
		t.Error("a message behind the end:", err)
	}
	kit.OK(t, ours.Close())
}

// msgLargeVictim plays the part of args[1] until it is killed.
func msgLargeVictim(args []string) error {
	ctx := context.Background()
	c, err := msg.Dial(ctx, args[0])
	if err != nil {
		return err
	}
	large := make([]byte, largeMessage)
	large[0], large[len(large)-1] = 'x', 'y'
	switch args[1] {
	case "who receives":
		err = c.Send(ctx, []byte("here"))
	case "who is written to":
		var r *msg.Region
		if r, err = c.Register(large, msg.MayRead|msg.MayWrite); err == nil {
			var b []byte
			if b, err = r.Remote().MarshalBinary(); err == nil {
				err = c.Send(ctx, b)
			}
		}
	default:
		for err == nil {
			err = c.Send(ctx, large)
		}
	}
	if err != nil {
		return err
	}
	select {}
}

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
	ln := kit.Must((&msg.ListenConfig{Config: w.cfg}).Listen(t.Context(), w.address))(t)
	kit.CloseLater(t, ln)
	p := kit.Start(t, kit.Child("msg victim", ln.Addr().String()))
	c := kit.Must(ln.Accept(ctx))(t)
	kit.CloseLater(t, c)
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
	kit.Until(t, "a Send that waits for credit", func() bool { return kit.Parked("(*Conn).sendBuffer") })
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
	var typed *verbs.Error
	var status verbs.Status
	if !errors.As(err, &typed) || !errors.Is(err, rdmacm.ErrDisconnected) && !errors.As(err, &status) {
		t.Error("the end:", err)
	}
}

// msgVictim sends until it is killed.
func msgVictim(args []string) error {
	c, err := msg.Dial(context.Background(), args[0])
	for err == nil {
		err = c.Send(context.Background(), []byte("and so on"))
	}
	return fmt.Errorf("the survivor went first: %w", err)
}

func TestRxeMsgAtomics(t *testing.T) { overRxe(t, msg.Config{}, msgAtomics) }

// Atomic operations of both kinds, and arguments that they refuse before the device sees them.
func msgAtomics(t *testing.T, w msgWay) {
	a, b := msgPair(t, w)
	words := kit.Must(b.Register(make([]byte, 64), msg.MayRead|msg.MayAtomic))(t)
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
