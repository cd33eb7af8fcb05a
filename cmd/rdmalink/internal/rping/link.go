package rping

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
)

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
	cfg := e.config()
	cfg.Source = source
	_, err := rdmacm.Dial(ctx, address, cfg)
	return err
}

// RemoteAddr is the server's address.
func (l *Link) RemoteAddr() netip.AddrPort { return l.end.conn.RemoteAddr() }

// Device is the name of the device that the connection runs over.
func (l *Link) Device() string { return l.end.conn.Device().Info().Name }

// Close ends the connection.
func (l *Link) Close() error { return l.end.conn.Close() }

// ErrMismatch is the result of a ping whose data came back changed.
var ErrMismatch = errors.New("data mismatch: what came back is not what was sent")

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
