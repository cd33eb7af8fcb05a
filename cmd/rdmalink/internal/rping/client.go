package rping

import (
	"context"
	"fmt"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/peer"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// grace is the time that an interrupted client has to complete its current ping.
const grace = 2 * time.Second

// ping is the client.
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
