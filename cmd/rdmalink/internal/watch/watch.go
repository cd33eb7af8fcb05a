package watch

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Command returns the command watch.
func Command() cli.Command {
	return cli.Command{
		Names:   []string{"watch"},
		Summary: "print the events of devices and ports as they occur, until interrupted",
		Details: `
A line for each port that exists at the start (PRESENT), then a line for each
event, with the time and its source:

  netlink  the events of rdmalink monitor: REGISTER, NETDEV_ATTACH and so on
  device   the asynchronous events of the device, as ibv_asyncwatch prints them:
           PORT_ACTIVE, PORT_ERR, GID_CHANGE, LID_CHANGE, PKEY_CHANGE, SM_CHANGE,
           CLIENT_REREGISTER, DEVICE_FATAL. Only the program that created a
           queue receives the events of that queue
  look     changes found by checking devices and ports twice a second. They are
           printed if the kernel sends no event: REGISTER and the like on Linux
           6.1, which has no such events of netlink, and outside the first
           network namespace in shared mode; and states of ports, if the device
           was just added or the caller may not open it

watch opens every device. It closes a device that is being removed, because the
kernel waits for that: rdmalink del may take half a second longer, and UNREGISTER
comes from checking. A driver's module can't be removed meanwhile. With -j, each
line is a JSON object.`,
		Run: watch,
	}
}

// checkInterval is the time between two checks of devices and ports.
const checkInterval = 500 * time.Millisecond

// watcher keeps the state of the devices as it was printed, and prints changes.
type watcher struct {
	*cli.Tool
	netlink bool    // the kernel sends events
	last    []event // differences that the last check found
	known   map[uint32]*watched
	reports chan report // of open devices
	notices chan notice // of netlink
	readers sync.WaitGroup
}

// notice is an event of netlink, or the error that ended the subscription.
type notice struct {
	netlinkrdma.Event
	err error
}

// watch runs until it is interrupted, which is no error.
func watch(ctx context.Context, t *cli.Tool, w *cli.Words) error {
	if err := w.End(); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	watcher := &watcher{Tool: t, known: make(map[uint32]*watched), reports: make(chan report), notices: make(chan notice)}
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

// subscribe subscribes to netlink. It is called before the first check, so that no event is
// missed in between.
func (w *watcher) subscribe(ctx context.Context) error {
	if _, err := w.RDMA.System(); err != nil {
		return err // Subscribe might report it as not supported
	}
	events, err := w.RDMA.Subscribe()
	if errors.Is(err, verbs.ErrNotSupported) {
		w.Note("this kernel sends no events of RDMA devices: checking them every %v instead", checkInterval)
		return nil
	}
	if err != nil {
		return err
	}
	w.netlink = true
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
	clock := time.NewTicker(checkInterval)
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
			err = w.check(ctx)
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// notice prints an event of netlink, unless a check found it before.
func (w *watcher) notice(ctx context.Context, n notice) error {
	switch {
	case errors.Is(n.err, netlinkrdma.ErrEventsLost):
		w.Note("%s", cli.Plain(n.err))
		return w.check(ctx)
	case n.err != nil:
		return n.err
	}
	return w.printNew(ctx, event{Source: fromNetlink, Event: n.Type.String(), Device: n.DeviceName, Index: n.DeviceIndex,
		Port: n.Port, Netdev: n.NetdevName, NetdevIndex: n.NetdevIndex})
}

// printNew prints an event unless it was known.
func (w *watcher) printNew(ctx context.Context, e event) error {
	if !w.learn(ctx, e) {
		return nil
	}
	return printEvent(w.Tool, e)
}

// report is an asynchronous event of a device, or the error that ended its reports.
type report struct {
	index uint32
	from  *watched
	uverbs.AsyncEvent
	err error
}

// open opens a device and starts to listen to its events. If the device can't be opened,
// open prints a note once; each check tries again.
func (w *watcher) open(ctx context.Context, index uint32, d *watched) {
	dev, err := w.Open(d.name)
	if err != nil {
		if !d.noted {
			w.Note("can't receive events of %s, checking its ports instead: %s", d.name, cli.Plain(err))
		}
		d.noted = true
		return
	}
	ctx, d.close = context.WithCancel(ctx)
	d.fresh = true
	w.readers.Go(func() {
		err := w.listen(ctx, index, d, dev)
		dev.Close() // it has no objects
		if err != nil {
			w.pass(ctx, report{index: index, from: d, err: err})
		}
	})
}

// listen forwards the events of a device until ctx is done or the device fails.
func (w *watcher) listen(ctx context.Context, index uint32, d *watched, dev *uverbs.Device) error {
	for {
		e, err := dev.AsyncEvent(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		w.pass(ctx, report{index: index, from: d, AsyncEvent: e})
	}
}

func (w *watcher) pass(ctx context.Context, r report) {
	select {
	case w.reports <- r:
	case <-ctx.Done():
	}
}

// report prints an event of a device. A device that failed is opened again at the next
// check, if it still exists.
func (w *watcher) report(r report) error {
	if r.err != nil {
		r.from.close()
		r.from.close = nil
		return nil
	}
	r.from.update(r.AsyncEvent)
	return printEvent(w.Tool, event{Source: fromDevice, Event: reportName(r.Type), Device: r.from.name, Index: r.index, Port: r.Port})
}

// update records the state of a port that an event reported, so that the next check finds
// it unchanged.
func (d *watched) update(e uverbs.AsyncEvent) {
	p := d.ports[e.Port]
	switch reportName(e.Type) {
	case portActive:
		p.state = verbs.PortActive
	case portErr:
		p.state = verbs.PortDown
	default:
		return
	}
	d.ports[e.Port] = p
}

// forget closes and removes a device.
func (w *watcher) forget(index uint32) {
	if d := w.known[index]; d.close != nil {
		d.close()
	}
	delete(w.known, index)
}
