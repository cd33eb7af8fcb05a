package main

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/verbs"
)

// begin prints what there is.
func (w *watcher) begin(ctx context.Context) error {
	now, err := w.present()
	if err != nil {
		return err
	}
	for _, index := range sortedKeys(now) {
		d := now[index]
		w.known[index] = d
		w.openWatched(ctx, index, d)
		for _, port := range sortedKeys(d.ports) {
			p := d.ports[port]
			e := watchEvent{Source: fromLook, Event: isPresent, Device: d.name, Index: index, Port: port, State: p.state.String(),
				Netdev: p.netdev, NetdevIndex: p.netdevIndex}
			if err := w.printWatched(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// present lists what there is, as netlink has it.
func (w *watcher) present() (map[uint32]*watched, error) {
	now := make(map[uint32]*watched)
	devices, err := w.RDMA.Devices()
	if err != nil {
		return nil, err
	}
	for _, d := range devices {
		ports, err := w.RDMA.Ports(d.Index)
		if errors.Is(err, netlinkrdma.ErrNotFound) {
			continue // it went away since it was listed
		}
		if err != nil {
			return nil, err
		}
		now[d.Index] = &watched{name: d.Name, ports: make(map[uint32]watchedPort)}
		for _, p := range ports {
			now[d.Index].ports[p.Index] = watchedPort{p.State, p.NetdevName, p.NetdevIndex}
		}
	}
	return now, nil
}

// look prints what is not as it was told. What netlink would tell it prints when
// it has stood for two looks, for the event may be on its way; but a device that
// goes is let go at once, for the kernel waits for that.
func (w *watcher) look(ctx context.Context) error {
	now, err := w.present()
	if err != nil {
		return err
	}
	for _, index := range sortedKeys(w.known) {
		if now[index] == nil {
			if err := w.news(ctx, watchEvent{Source: fromLook, Event: isGone, Device: w.known[index].name, Index: index}); err != nil {
				return err
			}
		}
	}
	found := w.differences(now)
	for _, e := range found {
		if w.told && !slices.Contains(w.last, e) {
			continue
		}
		if err := w.news(ctx, e); err != nil {
			return err
		}
	}
	w.last = found
	for _, index := range sortedKeys(w.known) {
		if err := w.lookAtPorts(ctx, index, now[index]); err != nil {
			return err
		}
	}
	return nil
}

// lookAtPorts prints states that have changed, of a device that can't tell them,
// or could not until now; what is open tells by itself. It tries to open the
// device again.
func (w *watcher) lookAtPorts(ctx context.Context, index uint32, now *watched) error {
	d := w.known[index]
	silent := d.close == nil || d.fresh
	d.fresh = false
	if d.close == nil {
		w.openWatched(ctx, index, d)
	}
	for _, port := range sortedKeys(now.ports) {
		p, is := d.ports[port], now.ports[port].state
		if p.state == is {
			continue
		}
		e := watchEvent{Source: fromLook, Event: stateEvent(p.state, is), Device: d.name, Index: index, Port: port, State: is.String()}
		p.state = is
		d.ports[port] = p
		if !silent {
			continue
		}
		if err := w.printWatched(e); err != nil {
			return err
		}
	}
	return nil
}

func stateEvent(was, is verbs.PortState) string {
	switch verbs.PortActive {
	case is:
		return portActive
	case was:
		return portErr
	}
	return portState
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
