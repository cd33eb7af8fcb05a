//go:build linux

package main

import (
	"context"

	"github.com/goverbs/goverbs/msg"
)

type msgEnd struct{ *msg.Conn }

func acceptMsg(ctx context.Context, x exchange) (ender, error) {
	l, err := msg.Listen(ctx, x.addr)
	if err != nil {
		return nil, err
	}
	c, err := l.Accept(ctx)
	if err != nil {
		return nil, err
	}
	return msgEnd{c}, l.Close()
}

func dialMsg(ctx context.Context, x exchange) (ender, error) {
	c, err := msg.Dial(ctx, x.addr)
	if err != nil {
		return nil, err
	}
	return msgEnd{c}, nil
}

func (e msgEnd) send(ctx context.Context, size int) error {
	b, err := e.Alloc(ctx, size)
	if err != nil {
		return err
	}
	return e.SendBuffer(ctx, b)
}

func (e msgEnd) receive(ctx context.Context) error {
	m, err := e.Recv(ctx)
	if err == nil {
		m.Release()
	}
	return err
}

func (e msgEnd) close() error { return e.Shutdown(context.Background()) }
