//go:build vm

package test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"

	"github.com/goverbs/goverbs/msg"
	"github.com/goverbs/goverbs/rsocket"
	"github.com/goverbs/goverbs/uverbs"
)

// speaker is an end of a connection that carries texts of 8 bytes, by messages or by a
// byte stream.
type speaker interface {
	say(ctx context.Context, text string) error
	hear(ctx context.Context) (string, error)
	Close() error
}

type msgSpeaker struct{ *msg.Conn }

func (c msgSpeaker) say(ctx context.Context, text string) error { return c.Send(ctx, []byte(text)) }

// Close waits until the peer has everything.
func (c msgSpeaker) Close() error { return c.Shutdown(context.Background()) }

func (c msgSpeaker) hear(ctx context.Context) (string, error) {
	m, err := c.Recv(ctx)
	if err != nil {
		return "", err
	}
	defer m.Release()
	return string(m.Bytes()), nil
}

type streamSpeaker struct{ net.Conn }

func (c streamSpeaker) say(ctx context.Context, text string) error {
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	_, err := io.WriteString(c, text)
	return err
}

func (c streamSpeaker) hear(ctx context.Context) (string, error) {
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	text := make([]byte, 8)
	_, err := io.ReadFull(c, text)
	return string(text), err
}

// talk is a way to connect.
type talk struct {
	name string
	// listen listens with a backlog; accept waits for a peer.
	listen func(at string, backlog int) (addr string, accept func(context.Context) (speaker, error), close func() error, err error)
	dial   func(ctx context.Context, from netip.Addr, to string) (speaker, error)
}

// talks are all ways: messages with and without a pool, and byte streams. dev is the device
// of the pools, which are closed when the test ends.
func talks(t *testing.T, dev string) []talk {
	cfg := msg.Config{Window: 8}
	pooled := cfg
	pooled.Pool = must(msg.NewPool(openLater(t, dev), 64, &cfg))(t)
	closeLater(t, pooled.Pool)
	return []talk{msgTalk("messages", cfg), msgTalk("messages of a pool", pooled), streamTalk()}
}

func openLater(t *testing.T, dev string) *uverbs.Device {
	d := must(uverbs.Open(dev))(t)
	closeLater(t, d)
	return d
}

func msgTalk(name string, cfg msg.Config) talk {
	return talk{name,
		func(at string, backlog int) (string, func(context.Context) (speaker, error), func() error, error) {
			l, err := (&msg.ListenConfig{Config: cfg, Backlog: backlog}).Listen(context.Background(), at)
			if err != nil {
				return "", nil, nil, err
			}
			return l.Addr().String(), func(ctx context.Context) (speaker, error) {
				c, err := l.Accept(ctx)
				return msgSpeaker{c}, err
			}, l.Close, nil
		},
		func(ctx context.Context, from netip.Addr, to string) (speaker, error) {
			d := msg.Dialer{Config: cfg}
			if from.IsValid() {
				d.LocalAddr = netip.AddrPortFrom(from, 0)
			}
			c, err := d.Dial(ctx, to)
			return msgSpeaker{c}, err
		}}
}

func streamTalk() talk {
	return talk{"a stream",
		func(at string, backlog int) (string, func(context.Context) (speaker, error), func() error, error) {
			l, err := (&rsocket.ListenConfig{Backlog: backlog}).Listen(context.Background(), at)
			if err != nil {
				return "", nil, nil, err
			}
			return l.Addr().String(), func(context.Context) (speaker, error) {
				c, err := l.Accept()
				return streamSpeaker{c}, err
			}, l.Close, nil
		},
		func(ctx context.Context, from netip.Addr, to string) (speaker, error) {
			var d rsocket.Dialer
			if from.IsValid() {
				d.LocalAddr = netip.AddrPortFrom(from, 0)
			}
			c, err := d.DialContext(ctx, "rsocket", to)
			return streamSpeaker{c}, err
		}}
}

// pair makes both ends of a connection, from an address or any.
func (k talk) pair(t *testing.T, from netip.Addr, at string) (dialled, accepted speaker) {
	t.Helper()
	dialled, accepted, err := k.meet(withPatience(t), from, at)
	ok(t, err)
	return dialled, accepted
}

func (k talk) meet(ctx context.Context, from netip.Addr, at string) (dialled, accepted speaker, err error) {
	addr, accept, closeListener, err := k.listen(at, 0)
	if err != nil {
		return nil, nil, err
	}
	done := make(chan error, 1)
	go func() {
		var err error
		accepted, err = accept(ctx)
		done <- err
	}()
	if dialled, err = k.dial(ctx, from, addr); err != nil {
		return nil, nil, errors.Join(err, closeListener(), <-done) // which ends the accept
	}
	return dialled, accepted, errors.Join(<-done, closeListener())
}

// converse has texts go there and back.
func converse(t *testing.T, a, b speaker, rounds int) {
	t.Helper()
	for i := range rounds {
		ok(t, swap(withPatience(t), a, b, fmt.Sprintf("text %03d", i)))
	}
}

// swap has a text of 8 bytes go there and back.
func swap(ctx context.Context, a, b speaker, text string) error {
	for _, way := range [][2]speaker{{a, b}, {b, a}} {
		if err := way[0].say(ctx, text); err != nil {
			return err
		}
		got, err := way[1].hear(ctx)
		if err != nil || got != text {
			return fmt.Errorf("%q, not %q: %w", got, text, err)
		}
	}
	return nil
}

// bothEnd closes both ends at once.
func bothEnd(a, b speaker) error {
	closed := make(chan error, 1)
	go func() { closed <- a.Close() }()
	return errors.Join(b.Close(), <-closed)
}
