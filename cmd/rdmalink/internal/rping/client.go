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
)

// grace is how long an interrupted client goes on with the ping under way.
const grace = 2 * time.Second

// ping is the client.
func (r *session) ping(ctx context.Context) error {
	end := &end{client: true, poll: r.poll, size: r.size}
	cfg := end.config()
	var err error
	if cfg.Source, err = r.sourceAddr(ctx); err != nil {
		return err
	}
	conn, err := rdmacm.Dial(ctx, r.address(), cfg)
	if err != nil {
		return peer.Interrupted(err)
	}
	report := r.begin("client", conn)
	err = r.pings(ctx, end, report)
	return report.finish(err, conn.Close())
}

// sourceAddr finds the address for -I, of the server's family if that is an
// address.
func (r *session) sourceAddr(ctx context.Context) (netip.AddrPort, error) {
	if r.source == "" {
		return netip.AddrPort{}, nil
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", r.source)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("-I: %w", peer.Interrupted(err))
	}
	ip := ips[0].Unmap()
	server, err := netip.ParseAddr(r.addr)
	if err == nil && server.Unmap().Is4() != ip.Is4() {
		return netip.AddrPort{}, cli.UsageError{Text: fmt.Sprintf("-I %s and -a %s are of different address families", r.source, r.addr)}
	}
	return netip.AddrPortFrom(ip, 0), nil
}

func (r *session) pings(ctx context.Context, end *end, report *report) error {
	late, stop := outlast(ctx, grace)
	defer stop()
	connected, leave := end.whileConnected(late)
	defer leave()
	for n := 0; r.count == 0 || n < r.count; n++ {
		if ctx.Err() != nil {
			if r.count == 0 {
				return nil
			}
			return fmt.Errorf("%w after %d of %d pings", peer.ErrInterrupted, n, r.count)
		}
		if err := r.onePing(connected, end, n); err != nil {
			return fmt.Errorf("ping %d: %w", n, peer.Interrupted(err))
		}
		report.add(r.size)
	}
	return nil
}

// outlast makes a context that ends a while after ctx does.
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

var errMismatch = errors.New("data mismatch: what came back is not what was sent")

// onePing offers the data to be read, then the sink to be written to.
func (r *session) onePing(ctx context.Context, end *end, n int) error {
	data, sink := end.data.Bytes(), end.sink.Bytes()
	fillPing(data, n)
	for _, step := range []struct {
		mr   *uverbs.MR
		what string
	}{{end.data, "the server to read the data"}, {end.sink, "the server to write the data back"}} {
		if err := end.offer(ctx, step.mr); err != nil {
			return fmt.Errorf("waiting for %s: %w", step.what, err)
		}
	}
	if r.validate && !bytes.Equal(data, sink) {
		return errMismatch
	}
	return r.show("ping data", sink)
}

// offer tells the server where mr is and waits until it says that it is done.
func (e *end) offer(ctx context.Context, mr *uverbs.MR) error {
	info := info{addr: mr.Addr(), rkey: mr.RKey(), size: uint32(mr.Len())}
	if err := e.tell(info, uverbs.SendSignaled); err != nil {
		return err
	}
	if _, err := e.hear(ctx); err != nil {
		return err
	}
	// The answer shows that the message arrived; the buffer is free for the
	// next one when the completion has come as well.
	_, err := e.wait(ctx, e.conn.SendCQ())
	return err
}
