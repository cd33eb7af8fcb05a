package watch

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/verbs"
)

// watched is the state of a device as it was printed.
type watched struct {
	name  string
	ports map[int]watchedPort
	close func() // nil while it is not open
	fresh bool   // opened since the last check: earlier events of its ports were missed
	noted bool   // a note said that it can't be opened
}

type watchedPort struct {
	state       verbs.PortState
	netdev      string
	netdevIndex uint32
}

// learn records an event, and reports whether it is new: a check may have found it before.
func (w *watcher) learn(ctx context.Context, e event) bool {
	d := w.known[e.Index]
	switch {
	case e.Event == netdevRenamed && e.Device == "":
		return w.learnNetdev(e)
	case e.Device == "": // the index is unknown, and 0 is another device's
		return e.Event != isGone
	case e.Event == isRegistered:
		if d != nil {
			return false
		}
		d = &watched{name: e.Device, ports: make(map[int]watchedPort)}
		w.known[e.Index] = d
		w.open(ctx, e.Index, d)
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

// learnNetdev records an event of a network device. Netlink does not say which ports use the
// network device.
func (w *watcher) learnNetdev(e event) bool {
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

// differences returns the events that lead from the known state to the current one, except for
// devices that are gone.
func (w *watcher) differences(now map[uint32]*watched) (all []event) {
	for _, index := range sortedKeys(now) {
		is, was := now[index], w.known[index]
		event := func(name string, port int, p watchedPort) {
			all = append(all, event{Source: fromCheck, Event: name, Device: is.name, Index: index, Port: port, Netdev: p.netdev, NetdevIndex: p.netdevIndex})
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

// begin prints the ports that exist at the start.
func (w *watcher) begin(ctx context.Context) error {
	now, err := w.present()
	if err != nil {
		return err
	}
	for _, index := range sortedKeys(now) {
		d := now[index]
		w.known[index] = d
		w.open(ctx, index, d)
		for _, port := range sortedKeys(d.ports) {
			p := d.ports[port]
			e := event{Source: fromCheck, Event: isPresent, Device: d.name, Index: index, Port: port, State: p.state.String(),
				Netdev: p.netdev, NetdevIndex: p.netdevIndex}
			if err := printEvent(w.Tool, e); err != nil {
				return err
			}
		}
	}
	return nil
}

// present returns the current devices and ports, from netlink.
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
		now[d.Index] = &watched{name: d.Name, ports: make(map[int]watchedPort)}
		for _, p := range ports {
			now[d.Index].ports[p.Index] = watchedPort{p.State, p.NetdevName, p.NetdevIndex}
		}
	}
	return now, nil
}

// check prints the differences between the known state and the current one. If netlink sends
// events, a difference is printed only when two checks in a row find it, because its event may be
// under way. A device that is gone is closed at once, because the kernel waits for that.
func (w *watcher) check(ctx context.Context) error {
	now, err := w.present()
	if err != nil {
		return err
	}
	for _, index := range sortedKeys(w.known) {
		if now[index] == nil {
			if err := w.printNew(ctx, event{Source: fromCheck, Event: isGone, Device: w.known[index].name, Index: index}); err != nil {
				return err
			}
		}
	}
	found := w.differences(now)
	for _, e := range found {
		if w.netlink && !slices.Contains(w.last, e) {
			continue
		}
		if err := w.printNew(ctx, e); err != nil {
			return err
		}
	}
	w.last = found
	for _, index := range sortedKeys(w.known) {
		if err := w.checkPorts(ctx, index, now[index]); err != nil {
			return err
		}
	}
	return nil
}

// checkPorts prints the changed states of ports of a device that is not open, or was not until
// now. An open device reports them itself. checkPorts tries to open a device that is not open.
func (w *watcher) checkPorts(ctx context.Context, index uint32, now *watched) error {
	d := w.known[index]
	silent := d.close == nil || d.fresh
	d.fresh = false
	if d.close == nil {
		w.open(ctx, index, d)
	}
	for _, port := range sortedKeys(now.ports) {
		p, is := d.ports[port], now.ports[port].state
		if p.state == is {
			continue
		}
		e := event{Source: fromCheck, Event: stateEvent(p.state, is), Device: d.name, Index: index, Port: port, State: is.String()}
		p.state = is
		d.ports[port] = p
		if !silent {
			continue
		}
		if err := printEvent(w.Tool, e); err != nil {
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
