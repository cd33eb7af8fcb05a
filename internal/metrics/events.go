package metrics

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/verbs"
)

// EventKind is a kind of event of a device or a port.
type EventKind string

// The kinds. The last two are events of ports.
const (
	Added   EventKind = "added"
	Removed EventKind = "removed" // or moved to another network namespace
	Renamed EventKind = "renamed"
	Active  EventKind = "active" // the port can carry traffic
	Down    EventKind = "down"   // the port was active and is no longer
)

// EventKinds are all kinds.
var EventKinds = []EventKind{Added, Removed, Renamed, Active, Down}

// EventCount is the number of events of one kind.
type EventCount struct {
	Device string
	Port   uint32 // 0 for events of devices
	Kind   EventKind
	Count  uint64
}

// maxEventCounts bounds the names of devices that are remembered.
const maxEventCounts = 1024

// Watcher counts events. The kernel reports devices that come and go on Linux 6.12 and newer; no
// event reports the state of a port to a program that does not have the device open, and an open
// device cannot be removed. So the Watcher also lists devices and ports from time to time. What
// happens and is undone between two checks is not counted, but the driver's counter link_downed
// may count it.
type Watcher struct {
	RDMA *netlinkrdma.Client

	mu     sync.Mutex
	begun  bool
	known  map[uint32]*watched
	counts map[EventCount]uint64 // Count is 0 in keys
}

type watched struct {
	name   string
	states map[uint32]verbs.PortState
}

// Counts returns the events since the first check. Of devices and ports that exist it has those that
// did not happen, too: a counter that begins with its first event has no increase. Those of a new
// device begin with an event all the same, and only a sum over all devices increases then.
func (w *Watcher) Counts() []EventCount {
	w.mu.Lock()
	defer w.mu.Unlock()
	counts := make(map[EventCount]uint64)
	for _, d := range w.known {
		for _, kind := range EventKinds[:3] {
			counts[EventCount{Device: d.name, Kind: kind}] = 0
		}
		for port := range d.states {
			counts[EventCount{Device: d.name, Port: port, Kind: Active}] = 0
			counts[EventCount{Device: d.name, Port: port, Kind: Down}] = 0
		}
	}
	maps.Copy(counts, w.counts)
	all := make([]EventCount, 0, len(counts))
	for key, n := range counts {
		key.Count = n
		all = append(all, key)
	}
	slices.SortFunc(all, func(a, b EventCount) int {
		return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.Port, b.Port), cmp.Compare(a.Kind, b.Kind))
	})
	return all
}

// Run checks devices and ports at the interval, and after each event of the kernel, until ctx is
// done.
func (w *Watcher) Run(ctx context.Context, interval time.Duration) {
	notices := make(chan struct{}, 1)
	var reader sync.WaitGroup
	defer reader.Wait()
	if events, err := w.RDMA.Subscribe(); err == nil {
		reader.Go(func() { w.follow(ctx, events, notices) })
	}
	clock := time.NewTicker(interval)
	defer clock.Stop()
	for {
		_ = w.Check() // the next one may succeed, and a scrape reports the failure
		select {
		case <-ctx.Done():
			return
		case <-clock.C:
		case <-notices:
		}
	}
}

// follow counts devices that come and go, and asks for a check after other events.
func (w *Watcher) follow(ctx context.Context, events *netlinkrdma.Events, notices chan<- struct{}) {
	defer events.Close()
	for ctx.Err() == nil {
		e, err := events.Next(ctx)
		if err != nil && !errors.Is(err, netlinkrdma.ErrEventsLost) {
			return
		}
		if err == nil {
			w.learn(e)
		}
		select {
		case notices <- struct{}{}:
		default:
		}
	}
}

func (w *Watcher) learn(e netlinkrdma.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.begun || e.DeviceName == "" {
		return
	}
	switch d := w.known[e.DeviceIndex]; {
	case e.Type == netlinkrdma.EventRegister && d == nil && len(w.known) < maxDevices:
		w.known[e.DeviceIndex] = &watched{name: e.DeviceName}
		w.count(e.DeviceName, 0, Added)
	case e.Type == netlinkrdma.EventUnregister && d != nil:
		delete(w.known, e.DeviceIndex)
		w.count(d.name, 0, Removed)
	}
}

// count counts an event. Once too many names are known, it counts for the name "others".
func (w *Watcher) count(device string, port uint32, kind EventKind) {
	if w.counts == nil {
		w.counts = make(map[EventCount]uint64)
	}
	key := EventCount{Device: device, Port: port, Kind: kind}
	if _, known := w.counts[key]; !known && len(w.counts) >= maxEventCounts {
		key.Device, key.Port = "others", min(port, 1)
	}
	w.counts[key]++
}

// Check compares devices and ports with the last check, and counts the differences. The first
// check counts nothing.
func (w *Watcher) Check() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	now, err := w.list()
	if err != nil {
		return err
	}
	if w.begun {
		w.compare(now)
	}
	w.begun, w.known = true, now
	return nil
}

func (w *Watcher) list() (map[uint32]*watched, error) {
	devices, err := w.RDMA.Devices()
	if err != nil {
		return nil, err
	}
	now := make(map[uint32]*watched)
	for _, d := range devices[:min(len(devices), maxDevices)] {
		ports, err := w.RDMA.Ports(d.Index)
		if errors.Is(err, netlinkrdma.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		now[d.Index] = &watched{name: d.Name, states: make(map[uint32]verbs.PortState)}
		for _, p := range ports[:min(len(ports), maxPorts)] {
			now[d.Index].states[p.Index] = p.State
		}
	}
	return now, nil
}

func (w *Watcher) compare(now map[uint32]*watched) {
	for _, index := range slices.Sorted(maps.Keys(w.known)) {
		if now[index] == nil {
			w.count(w.known[index].name, 0, Removed)
		}
	}
	for _, index := range slices.Sorted(maps.Keys(now)) {
		is, was := now[index], w.known[index]
		if was == nil {
			w.count(is.name, 0, Added)
			continue
		}
		if is.name != was.name {
			w.count(is.name, 0, Renamed)
		}
		for port, state := range is.states {
			before, known := was.states[port]
			switch {
			case !known || before == state:
			case state == verbs.PortActive:
				w.count(is.name, port, Active)
			case before == verbs.PortActive:
				w.count(is.name, port, Down)
			}
		}
	}
}
