package cm

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/verbs"
)

// serve is the server.
func (m *matose) serve(ctx context.Context) (err error) {
	requests := make(chan *rdmacm.ID, len(m.conns))
	var came atomic.Int64
	m.ids, err = m.listen(ctx, m.channel, func(ev *rdmacm.Event) {
		if came.Add(1) > int64(len(m.conns)) {
			refuse(ev.ID)
			return
		}
		requests <- ev.ID
	})
	if err != nil {
		return err
	}
	left := newCountdown(len(m.conns))
	if err := each(ctx, len(m.conns), func(ctx context.Context, i int) error { return m.admit(ctx, i, requests, left) }); err != nil {
		return err
	}
	if err := m.stand(); err != nil {
		return err
	}
	if err := m.speak(ctx); err != nil {
		return err
	}
	if err := m.move(); err != nil {
		return err
	}
	if err := each(ctx, len(m.conns), m.end); err != nil {
		return err
	}
	return m.say("disconnected")
}

// admit takes the next request, and returns when no other is due.
func (m *matose) admit(ctx context.Context, i int, requests <-chan *rdmacm.ID, left *countdown) error {
	var id *rdmacm.ID
	select {
	case id = <-requests:
	case <-ctx.Done():
		return ctx.Err()
	}
	n := m.channel.adopt(id)
	m.conns[i] = n
	if err := m.admitOn(ctx, n); err != nil {
		_ = id.Reject(nil)
		return err
	}
	left.down()
	select {
	case <-left.zero:
		return nil
	case ev := <-n.events:
		return outcome(ev, rdmacm.EventTimewaitExit)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (m *matose) admitOn(ctx context.Context, n *conn) error {
	if err := m.setOptions(n.id); err != nil {
		return err
	}
	if err := n.prepare(&m.devices, m.count, m.size); err != nil {
		return err
	}
	return n.accept(ctx, nil)
}

// iwarpPause is the time for the client's kernel to read the server's reply, which must
// not be followed by data at once. iWARP requires the connecting end to send first, which
// the protocol of ucmatose does not do. No event reports that the client is ready.
const iwarpPause = 50 * time.Millisecond

// speak sends all messages and receives as many.
func (m *matose) speak(ctx context.Context) error {
	if m.count == 0 {
		return nil
	}
	start := time.Now()
	if m.conns[0].dev.Info().NodeType == verbs.NodeRNIC {
		select {
		case <-time.After(iwarpPause):
		case <-ctx.Done():
		}
	}
	for _, step := range []func(context.Context, int) error{m.send, m.sent, m.receive} {
		if err := each(ctx, len(m.conns), step); err != nil {
			return err
		}
	}
	return m.counted(start)
}

// end disconnects.
func (m *matose) end(ctx context.Context, i int) error {
	n := m.conns[i]
	if err := n.id.Disconnect(); err != nil {
		return err
	}
	return during("wait for the client to disconnect", n.await(ctx, rdmacm.EventDisconnected))
}
