package main

import (
	"context"

	"github.com/goverbs/goverbs/verbs"
)

// watched is what was told of a device.
type watched struct {
	name        string
	ports       map[uint32]watchedPort
	close       func() // nil while it is not open
	fresh       bool   // it was opened since the last look: what its ports did before is not told
	silenceTold bool   // that it can't be opened
}

type watchedPort struct {
	state       verbs.PortState
	netdev      string
	netdevIndex uint32
}

// learn takes in an event that looking could have found, or has, and tells
// whether it is new.
func (w *watcher) learn(ctx context.Context, e watchEvent) bool {
	d := w.known[e.Index]
	switch {
	case e.Event == netdevRenamed && e.Device == "":
		return w.learnNetdev(e)
	case e.Device == "": // its number is not known, and 0 is another one's
		return e.Event != isGone
	case e.Event == isRegistered:
		if d != nil {
			return false
		}
		d = &watched{name: e.Device, ports: make(map[uint32]watchedPort)}
		w.known[e.Index] = d
		w.openWatched(ctx, e.Index, d)
		return true
	case d == nil:
		return e.Event != isGone
	case e.Event == isGone:
		w.forget(e.Index)
		return true
	case e.Event == isRenamed:
		renamed := d.name != e.Device
		d.name = e.Device
		return renamed
	case e.Event == isAttached || e.Event == isDetached || e.Event == netdevRenamed:
		p := d.ports[e.Port]
		changed := p.netdevIndex != e.NetdevIndex || e.Event == netdevRenamed && p.netdev != e.Netdev
		p.netdev, p.netdevIndex = e.Netdev, e.NetdevIndex
		d.ports[e.Port] = p
		return changed
	}
	return true
}

// learnNetdev takes in what netlink says of a network device: it does not tell
// which ports that is behind.
func (w *watcher) learnNetdev(e watchEvent) bool {
	known, renamed := false, false
	for _, d := range w.known {
		for number, p := range d.ports {
			if p.netdevIndex == e.NetdevIndex {
				known, renamed = true, renamed || p.netdev != e.Netdev
				p.netdev = e.Netdev
				d.ports[number] = p
			}
		}
	}
	return renamed || !known
}

// differences are the events that lead from what is known to what is there.
// gone are not among them.
func (w *watcher) differences(now map[uint32]*watched) (all []watchEvent) {
	for _, index := range sortedKeys(now) {
		is, was := now[index], w.known[index]
		event := func(name string, port uint32, p watchedPort) {
			all = append(all, watchEvent{Source: fromLook, Event: name, Device: is.name, Index: index, Port: port, Netdev: p.netdev, NetdevIndex: p.netdevIndex})
		}
		if was == nil {
			event(isRegistered, 0, watchedPort{})
			was = &watched{name: is.name}
		}
		if is.name != was.name {
			event(isRenamed, 0, watchedPort{})
		}
		for _, port := range sortedKeys(is.ports) {
			p, before := is.ports[port], was.ports[port]
			switch {
			case p.netdevIndex != before.netdevIndex && p.netdevIndex != 0:
				event(isAttached, port, p)
			case p.netdevIndex != before.netdevIndex:
				event(isDetached, port, p)
			case p.netdev != before.netdev:
				event(netdevRenamed, port, p)
			}
		}
	}
	return all
}
