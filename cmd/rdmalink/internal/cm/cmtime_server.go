package cm

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/rdmacm"
)

// serve accepts connections side by side until ctx ends. One that fails does not end the
// others.
func (m *timing) serve(ctx context.Context) error {
	var peers sync.WaitGroup
	var served atomic.Int64
	ids, err := m.listen(ctx, m.channel, func(ev *rdmacm.Event) {
		peers.Go(func() {
			if err := m.serveOne(ctx, ev.ID); err == nil {
				served.Add(1)
			} else if ctx.Err() == nil {
				m.Note("%s", cli.PlainLine(err))
			}
		})
	})
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-m.channel.stopped:
		err = m.channel.err
	}
	err = errors.Join(err, destroy(ids))
	peers.Wait()
	m.report.Connections = int(served.Load())
	return errors.Join(err, m.say("%s served", plural(m.report.Connections, "connection")))
}

// serveOne has one connection until the client ends it.
func (m *timing) serveOne(ctx context.Context, id *rdmacm.ID) error {
	n := m.channel.adopt(id)
	err := n.makeQP(&m.devices, 1, n.idleCQs)
	if err == nil {
		err = n.accept(ctx, nil)
	}
	if err == nil {
		err = n.await(ctx, rdmacm.EventDisconnected)
		_ = id.Disconnect() // over iWARP the kernel has
	} else {
		_ = id.Reject(nil)
	}
	return errors.Join(err, n.close())
}
