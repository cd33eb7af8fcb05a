package rping

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/peer"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// grace is the time that an interrupted client has to complete its current ping.
const grace = 2 * time.Second

// ping runs the client.
func (r *session) ping(ctx context.Context) error {
	source, err := Source(ctx, r.source, r.addr)
	if err != nil {
		return peer.Interrupted(err)
	}
	link := &Link{end: r.newEnd(true, r.size)}
	dial := link.end.dial
	if r.ownQP {
		dial = link.end.dialOwn
	}
	if err := dial(ctx, r.address(), source); err != nil {
		return peer.Interrupted(err)
	}
	report := r.begin("client", link.end)
	err = r.pings(ctx, link, report)
	return report.finish(err, link.Close())
}

func (r *session) pings(ctx context.Context, link *Link, report *report) error {
	late, stop := outlast(ctx, grace)
	defer stop()
	connected, leave := link.end.whileConnected(late)
	defer leave()
	for n := 0; r.count == 0 || n < r.count; n++ {
		if ctx.Err() != nil {
			if r.count == 0 {
				return nil
			}
			return fmt.Errorf("%w after %d of %d pings", peer.ErrInterrupted, n, r.count)
		}
		if err := r.onePing(connected, link); err != nil {
			return fmt.Errorf("ping %d: %w", n, peer.Interrupted(err))
		}
		report.add(r.size)
	}
	return nil
}

func (r *session) onePing(ctx context.Context, link *Link) error {
	back, err := link.Ping(ctx)
	if err != nil {
		return err
	}
	if r.validate {
		if err := link.Check(); err != nil {
			return err
		}
	}
	return r.show("ping data", back)
}

// outlast returns a context that ends a while after ctx.
func outlast(ctx context.Context, by time.Duration) (context.Context, func()) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	forget := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(by):
			cancel()
		case <-late.Done():
		}
	})
	return late, func() { forget(); cancel() }
}

// offer sends the server the address of mr, and waits until the server reports that
// it is done.
func (e *end) offer(ctx context.Context, mr *uverbs.MR) error {
	info := info{addr: mr.Addr(), rkey: mr.RKey(), size: uint32(mr.Len())}
	if err := e.send(info, verbs.SendSignaled); err != nil {
		return err
	}
	if _, err := e.recv(ctx); err != nil {
		return err
	}
	// The answer shows that the message arrived; the buffer is free for the
	// next one when the completion has come as well.
	_, err := e.wait(ctx, e.conn.SendCQ())
	return err
}

// Link is a client's connection to a server.
type Link struct {
	end *end
	n   int // pings so far
}

// Dial connects to a server. size is of a ping, in bytes, from MinSize to MaxSize.
func Dial(ctx context.Context, address string, source netip.AddrPort, size int, poll bool) (*Link, error) {
	end := &end{client: true, poll: poll, size: size, debug: silent}
	if err := end.dial(ctx, address, source); err != nil {
		return nil, err
	}
	return &Link{end: end}, nil
}

func (e *end) dial(ctx context.Context, address string, source netip.AddrPort) error {
	d := rdmacm.Dialer{LocalAddr: source, Config: *e.config()}
	_, err := d.Dial(ctx, address)
	return err
}

// RemoteAddr returns the server's address.
func (l *Link) RemoteAddr() netip.AddrPort { return l.end.conn.RemoteAddr() }

// Device returns the name of the device that the connection runs over.
func (l *Link) Device() string { return l.end.conn.Device().Info().Name }

// Close ends the connection.
func (l *Link) Close() error { return l.end.conn.Close() }

// ErrMismatch is the result of a ping whose data came back changed.
var ErrMismatch = errors.New("data mismatch: what came back is not what was sent")

// ErrProtocol matches the error of a peer that speaks another protocol.
var ErrProtocol = errors.New("the peer is not rping")

// Ping makes the server read the data and write it back. It returns the data that came
// back, which is valid until the next call. The connection is unusable after an error.
func (l *Link) Ping(ctx context.Context) (back []byte, err error) {
	end := l.end
	fillPing(end.data.Bytes(), l.n)
	l.n++
	for _, step := range []struct {
		mr   *uverbs.MR
		what string
	}{{end.data, "the server to read the data"}, {end.sink, "the server to write the data back"}} {
		if err := end.offer(ctx, step.mr); err != nil {
			return nil, fmt.Errorf("waiting for %s: %w", step.what, err)
		}
	}
	return end.sink.Bytes(), nil
}

// Check compares the data that came back with the data that was sent.
func (l *Link) Check() error {
	if !bytes.Equal(l.end.data.Bytes(), l.end.sink.Bytes()) {
		return ErrMismatch
	}
	return nil
}

// Source finds an own address by name, of the server's family if that is an address.
func Source(ctx context.Context, name, server string) (netip.AddrPort, error) {
	if name == "" {
		return netip.AddrPort{}, nil
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("-I: %w", err)
	}
	ip := ips[0].Unmap()
	if addr, err := netip.ParseAddr(server); err == nil && addr.Unmap().Is4() != ip.Is4() {
		return netip.AddrPort{}, cli.UsageError{Text: fmt.Sprintf("-I %s and the server's address %s are of different address families", name, server)}
	}
	return netip.AddrPortFrom(ip, 0), nil
}
