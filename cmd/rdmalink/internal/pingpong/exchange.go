package pingpong

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

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/peer"
	"github.com/goverbs/goverbs/internal/farewell"
)

// talker is the TCP connection over which the ends tell their addresses.
// It stops waiting when the context ends, which C's doesn't.
type talker struct {
	net.Conn
	ctx    context.Context
	forget func() // the context
}

func talk(ctx context.Context, conn net.Conn) *talker {
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = conn.SetDeadline(time.Unix(1, 0))
		close(over)
	})
	return &talker{Conn: conn, ctx: ctx, forget: sync.OnceFunc(func() {
		if !stop() {
			<-over
		}
	})}
}

func (t *talker) Close() error {
	t.forget()
	return t.Conn.Close()
}

// leave closes the connection after the peer has had the time to hear why.
func (t *talker) leave(why error) {
	t.forget()
	farewell.Say(t.Conn, why)
	_ = t.Conn.Close()
}

// local is the own address of the connection.
func (t *talker) local() netip.Addr {
	at, err := netip.ParseAddrPort(t.LocalAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap()
}

// tell sends the addresses of all QPs, and none for the rest of the records.
func (t *talker) tell(addrs []addr, records int) error {
	var text []byte
	for i := range records {
		var a addr
		if i < len(addrs) {
			a = addrs[i]
		}
		text = a.append(text)
	}
	return t.explain("send the own address", t.say(text))
}

// hear receives the addresses of as many QPs as this end has.
func (t *talker) hear(qps, records int) ([]addr, error) {
	const doing = "receive the peer's address"
	var addrs []addr
	text := make([]byte, addrSize)
	for range records {
		n, err := io.ReadFull(t, text)
		if err != nil {
			return nil, t.explain(doing, t.short(text[:n], err))
		}
		a, err := parseAddr(text)
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
func (t *talker) short(got []byte, err error) error {
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
func (t *talker) ready() error {
	return t.explain("tell the server to begin", t.say([]byte(done)))
}

func (t *talker) say(text []byte) error {
	_, err := t.Write(text)
	if err == nil || t.ctx.Err() != nil {
		return err
	}
	return cmp.Or(farewell.Unread(t), err)
}

func (t *talker) awaitReady() error {
	const doing = "hear that the client is ready"
	text := make([]byte, len(done))
	n, err := io.ReadFull(t, text)
	if err != nil {
		return t.explain(doing, t.short(text[:n], err))
	}
	if why := farewell.Complete(text, t); why != nil {
		return t.explain(doing, why)
	}
	if string(text) != done {
		return t.explain(doing, fmt.Errorf("%q: %w", text, errNotPingpong))
	}
	return nil
}

// explain says with whom and at what the exchange failed.
func (t *talker) explain(doing string, err error) error {
	if err == nil {
		return nil
	}
	if t.ctx.Err() != nil {
		return peer.Interrupted(t.ctx.Err())
	}
	return fmt.Errorf("%s (%v): %w", doing, t.RemoteAddr(), err)
}
