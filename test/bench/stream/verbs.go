//go:build linux

package main

import (
	"context"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// depth is the number of posted receives. One in depth sends is signaled.
const depth = 32

// A verbsEnd exchanges messages with plain verbs. It signals only some sends, and reposts receives.
type verbsEnd struct {
	conn    *rdmacm.Conn
	mr      *uverbs.MR
	size    int
	sent    int
	send1   [1]verbs.SendWR
	recv1   [1]verbs.RecvWR
	sendSGE [1]verbs.SGE
	recvSGE [1]verbs.SGE
	wcs     [1]verbs.WC
}

func (e *verbsEnd) prepare(c *rdmacm.Conn) (err error) {
	if e.mr, err = c.PD().AllocMR((depth+1)*e.size, verbs.AccessLocalWrite, nil); err != nil {
		return err
	}
	c.Own(e.mr)
	e.conn = c
	e.sendSGE[0] = e.mr.SGE(depth*e.size, e.size)
	for i := range depth {
		if err := e.postReceive(uint64(i)); err != nil {
			return err
		}
	}
	return nil
}

func (e *verbsEnd) postReceive(id uint64) error {
	e.recvSGE[0] = e.mr.SGE(int(id)*e.size, e.size)
	e.recv1[0] = verbs.RecvWR{WRID: id, SGL: e.recvSGE[:]}
	_, err := e.conn.QP().PostRecv(e.recv1[:])
	return err
}

func (e *verbsEnd) send(ctx context.Context, size int) error {
	e.sent++
	signaled := e.sent%depth == 0
	e.send1[0] = verbs.SendWR{Opcode: verbs.OpSend, SGL: e.sendSGE[:]}
	if signaled {
		e.send1[0].Flags = verbs.SendSignaled
	}
	if _, err := e.conn.QP().PostSend(e.send1[:]); err != nil || !signaled {
		return err
	}
	return e.take(ctx, e.conn.SendCQ())
}

func (e *verbsEnd) receive(ctx context.Context) error {
	if err := e.take(ctx, e.conn.RecvCQ()); err != nil {
		return err
	}
	return e.postReceive(e.wcs[0].WRID)
}

func (e *verbsEnd) take(ctx context.Context, cq *uverbs.CQ) error {
	if _, err := cq.Wait(ctx, e.wcs[:]); err != nil {
		return err
	}
	return e.wcs[0].Err()
}

func (e *verbsEnd) close() error { return e.conn.Close() }

func acceptVerbs(ctx context.Context, x exchange) (ender, error) {
	e := &verbsEnd{size: x.size}
	l, err := (&rdmacm.ListenConfig{Config: rdmacm.Config{Prepare: e.prepare}}).Listen(context.Background(), x.addr)
	if err != nil {
		return nil, err
	}
	if _, err := l.Accept(ctx); err != nil {
		return nil, err
	}
	return e, l.Close()
}

func dialVerbs(ctx context.Context, x exchange) (ender, error) {
	e := &verbsEnd{size: x.size}
	if _, err := (&rdmacm.Dialer{Config: rdmacm.Config{Prepare: e.prepare}}).Dial(ctx, x.addr); err != nil {
		return nil, err
	}
	return e, nil
}
