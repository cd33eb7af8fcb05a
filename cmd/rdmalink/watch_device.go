package main

import (
	"context"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// report is what a device said, or why it will say nothing more.
type report struct {
	index uint32
	from  *watched
	uverbs.AsyncEvent
	err error
}

// openWatched has a device report. One that can't be opened stays silent, which
// is told once; each look tries again.
func (w *watcher) openWatched(ctx context.Context, index uint32, d *watched) {
	dev, err := w.Open(d.name)
	if err != nil {
		if !d.silenceTold {
			w.Note("%s is not heard, and its ports are looked at instead: %s", d.name, cli.Plain(err))
		}
		d.silenceTold = true
		return
	}
	ctx, d.close = context.WithCancel(ctx)
	d.fresh = true
	w.readers.Go(func() {
		err := w.listen(ctx, index, d, dev)
		dev.Close() // nothing was made from it
		if err != nil {
			w.pass(ctx, report{index: index, from: d, err: err})
		}
	})
}

// listen passes on what a device says until ctx is done, or the device fails.
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

// report prints what a device said. One that fails is opened again at the next
// look, if it is still there.
func (w *watcher) report(r report) error {
	if r.err != nil {
		r.from.close()
		r.from.close = nil
		return nil
	}
	r.from.heard(r.AsyncEvent)
	return w.printWatched(watchEvent{Source: fromDevice, Event: reportName(r.Type), Device: r.from.name, Index: r.index, Port: r.Port})
}

// heard keeps the state of a port that was told, which a look then finds.
func (d *watched) heard(e uverbs.AsyncEvent) {
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

// forget lets go of a device.
func (w *watcher) forget(index uint32) {
	if d := w.known[index]; d.close != nil {
		d.close()
	}
	delete(w.known, index)
}
