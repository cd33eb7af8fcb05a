//go:build vm

package test

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/goverbs/goverbs/msg"
)

// largeMessage is read by its receiver, in pieces.
const largeMessage = 1 << 20

// TestMsgPeerKilledInMessage: whoever dies in the middle of a message that its receiver
// reads, or under one-sided operations, the other end's calls end, and not as after an
// orderly end. Messages that were received are whole.
func TestMsgPeerKilledInMessage(t *testing.T) {
	only612(t)
	onEachFabric(t, func(t *testing.T, _, host string) {
		for what, survive := range map[string]func(*testing.T, *process, *msg.Conn){
			"who sends": whileReceiving, "who receives": whileSending, "who is written to": whileWriting,
		} {
			t.Run(what, func(t *testing.T) {
				l := must(msg.Listen(host+":0", nil))(t)
				closeLater(t, l)
				p := start(t, child("msg large victim", l.Addr().String(), what))
				c := must(l.Accept(withPatience(t)))(t)
				survive(t, p, c)
				ok(t, c.Close())
			})
		}
	})
}

func whileReceiving(t *testing.T, p *process, c *msg.Conn) {
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

func whileSending(t *testing.T, p *process, c *msg.Conn) {
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
	until(t, "a Send that waits for the peer to read", func() bool { return parked("(*Conn).Send") })
	p.Process.Kill()
	isEnd(t, <-sent)
}

func whileWriting(t *testing.T, p *process, c *msg.Conn) {
	var remote msg.RemoteRegion
	ok(t, remote.UnmarshalBinary(recvMsg(t, c)))
	ours := must(c.Register(make([]byte, largeMessage), 0))(t)
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
	ok(t, ours.Close())
}

// msgLargeVictim plays the part of args[1] until it is killed.
func msgLargeVictim(args []string) error {
	ctx := context.Background()
	c, err := msg.Dial(ctx, args[0], nil)
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
