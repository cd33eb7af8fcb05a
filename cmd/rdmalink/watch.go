package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/verbs"
)

func watchCommand() command {
	return command{
		names:   []string{"watch"},
		summary: "print all events of devices and ports as they come, until it is interrupted",
		details: `
First a line for each port there is (PRESENT), then one for each event, with the
time and where it comes from:

  netlink  what rdmalink monitor prints: REGISTER, NETDEV_ATTACH and so on
  device   what the device itself reports, as to ibv_asyncwatch: PORT_ACTIVE,
           PORT_ERR, GID_CHANGE, LID_CHANGE, PKEY_CHANGE, SM_CHANGE,
           CLIENT_REREGISTER, DEVICE_FATAL. What happens to queues is reported
           only to the program that made them
  look     what is found by looking at devices and ports, twice a second: all
           that the kernel sends no event of. On Linux 6.1, which sends none by
           netlink, and in another network namespace than the first in shared
           mode, that is REGISTER and its like; and states of ports of
           devices that have just come, or that the caller may not open

Devices that come are opened, and those that go are let go: the kernel waits for
that before it removes them, so rdmalink del may take half a second longer, and
UNREGISTER comes from looking. A driver's module can't be removed meanwhile.
With -j, an object a line.`,
		run: watch,
	}
}

// lookEvery is how often devices and ports are looked at.
const lookEvery = 500 * time.Millisecond

// watcher keeps what was told of devices, and prints what is new.
type watcher struct {
	*tool
	told    bool         // netlink sends events
	last    []watchEvent // differences that the last look found
	known   map[uint32]*watched
	reports chan report // of open devices
	notices chan notice // of netlink
	readers sync.WaitGroup
}

// notice is what netlink sent, or why it sends nothing any more.
type notice struct {
	netlinkrdma.Event
	err error
}

// watch ends well when it is interrupted.
func watch(ctx context.Context, t *tool, w *words) error {
	if err := w.end(); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	watcher := &watcher{tool: t, known: make(map[uint32]*watched), reports: make(chan report), notices: make(chan notice)}
	defer watcher.readers.Wait()
	defer stop()
	if err := watcher.subscribe(ctx); err != nil {
		return err
	}
	if err := watcher.begin(ctx); err != nil {
		return err
	}
	return watcher.follow(ctx)
}

// subscribe comes before the first look, so that nothing is missed in between.
func (w *watcher) subscribe(ctx context.Context) error {
	if _, err := w.RDMA.System(); err != nil {
		return err // which Subscribe may call unsupported, too
	}
	events, err := w.RDMA.Subscribe()
	if errors.Is(err, verbs.ErrNotSupported) {
		w.Note("this kernel sends no events of RDMA devices: looking at them every %v instead", lookEvery)
		return nil
	}
	if err != nil {
		return err
	}
	w.told = true
	w.readers.Go(func() {
		defer events.Close()
		for ctx.Err() == nil {
			e, err := events.Next(ctx)
			select {
			case w.notices <- notice{e, err}:
			case <-ctx.Done():
			}
			if err != nil && !errors.Is(err, netlinkrdma.ErrEventsLost) {
				return
			}
		}
	})
	return nil
}

func (w *watcher) follow(ctx context.Context) error {
	clock := time.NewTicker(lookEvery)
	defer clock.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case n := <-w.notices:
			err = w.notice(ctx, n)
		case r := <-w.reports:
			err = w.report(r)
		case <-clock.C:
			err = w.look(ctx)
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// notice prints an event of netlink, if looking did not find it before.
func (w *watcher) notice(ctx context.Context, n notice) error {
	switch {
	case errors.Is(n.err, netlinkrdma.ErrEventsLost):
		w.Note("%s", cli.Plain(n.err))
		return w.look(ctx)
	case n.err != nil:
		return n.err
	}
	return w.news(ctx, watchEvent{Source: fromNetlink, Event: n.Type.String(), Device: n.DeviceName, Index: n.DeviceIndex,
		Port: n.Port, Netdev: n.NetdevName, NetdevIndex: n.NetdevIndex})
}

// news prints an event unless it was known.
func (w *watcher) news(ctx context.Context, e watchEvent) error {
	if !w.learn(ctx, e) {
		return nil
	}
	return w.printWatched(e)
}
