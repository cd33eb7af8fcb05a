package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/goverbs/goverbs/internal/farewell"
)

// pingpongTalk is the TCP connection over which the ends tell their addresses.
// It stops waiting when the context ends, which C's doesn't.
type pingpongTalk struct {
	net.Conn
	ctx    context.Context
	forget func() // the context
}

func talk(ctx context.Context, conn net.Conn) *pingpongTalk {
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = conn.SetDeadline(time.Unix(1, 0))
		close(over)
	})
	return &pingpongTalk{Conn: conn, ctx: ctx, forget: sync.OnceFunc(func() {
		if !stop() {
			<-over
		}
	})}
}

func (t *pingpongTalk) Close() error {
	t.forget()
	return t.Conn.Close()
}

// leave closes the connection after the peer has had the time to hear why.
func (t *pingpongTalk) leave(why error) {
	t.forget()
	farewell.Say(t.Conn, why)
	_ = t.Conn.Close()
}

// local is the own address of the connection.
func (t *pingpongTalk) local() netip.Addr {
	at, err := netip.ParseAddrPort(t.LocalAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap()
}

// tell sends the addresses of all QPs, and none for the rest of the records.
func (t *pingpongTalk) tell(addrs []pingpongAddr, records int) error {
	var text []byte
	for i := range records {
		var a pingpongAddr
		if i < len(addrs) {
			a = addrs[i]
		}
		text = a.append(text)
	}
	return t.explain("send the own address", t.say(text))
}

// hear receives the addresses of as many QPs as this end has.
func (t *pingpongTalk) hear(qps, records int) ([]pingpongAddr, error) {
	const doing = "receive the peer's address"
	var addrs []pingpongAddr
	text := make([]byte, pingpongAddrSize)
	for range records {
		n, err := io.ReadFull(t, text)
		if err != nil {
			return nil, t.explain(doing, t.short(text[:n], err))
		}
		a, err := parsePingpongAddr(text)
		if err != nil {
			return nil, t.explain(doing, err)
		}
		if a.qpn != 0 {
			addrs = append(addrs, a)
		}
	}
	if len(addrs) != qps {
		return nil, t.explain(doing, fmt.Errorf("QPs of the peer: %d, of this end: %d; -q must be the same", len(addrs), qps))
	}
	return addrs, nil
}

// short shows what came instead of all.
func (t *pingpongTalk) short(got []byte, err error) error {
	switch why := farewell.Complete(got, t); {
	case why != nil:
		return why
	case len(got) > 0:
		return fmt.Errorf("%q: %w (%w)", got, errNotPingpong, err)
	case errors.Is(err, io.EOF):
		return fmt.Errorf("it closed the connection, and should have said there why (%w)", err)
	}
	return err
}

// ready is the last word of the exchange, the client's.
func (t *pingpongTalk) ready() error {
	return t.explain("tell the server to begin", t.say([]byte(pingpongDone)))
}

func (t *pingpongTalk) say(text []byte) error {
	_, err := t.Write(text)
	if err == nil || t.ctx.Err() != nil {
		return err
	}
	return cmp.Or(farewell.Unread(t), err)
}

func (t *pingpongTalk) awaitReady() error {
	const doing = "hear that the client is ready"
	text := make([]byte, len(pingpongDone))
	n, err := io.ReadFull(t, text)
	if err != nil {
		return t.explain(doing, t.short(text[:n], err))
	}
	if why := farewell.Complete(text, t); why != nil {
		return t.explain(doing, why)
	}
	if string(text) != pingpongDone {
		return t.explain(doing, fmt.Errorf("%q: %w", text, errNotPingpong))
	}
	return nil
}

// explain says with whom and at what the exchange failed.
func (t *pingpongTalk) explain(doing string, err error) error {
	if err == nil {
		return nil
	}
	if t.ctx.Err() != nil {
		return interrupted(t.ctx.Err())
	}
	return fmt.Errorf("%s (%v): %w", doing, t.RemoteAddr(), err)
}
