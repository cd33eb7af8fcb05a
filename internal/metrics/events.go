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
	Removed EventKind = "removed" // removed or moved to another network namespace
	Renamed EventKind = "renamed"
	Active  EventKind = "active" // the port can carry traffic
	Down    EventKind = "down"   // the port is no longer active
)

// EventKinds are all kinds.
var EventKinds = []EventKind{Added, Removed, Renamed, Active, Down}

// EventCount is the number of events of one kind.
type EventCount struct {
	Device string
	Port   int // 0 for events of a device
	Kind   EventKind
	Count  uint64
}

// maxEventCounts limits the number of counters, and so the device names that a Watcher stores.
const maxEventCounts = 1024

// Watcher counts events. Linux 6.12 and newer report added and removed devices. The kernel reports the
// state of a port only to programs that have opened the device, and an open device can't be removed.
// Therefore the Watcher also lists devices and ports at intervals. It doesn't count a change that is
// undone between two checks, but the driver's counter link_downed may count it.
type Watcher struct {
	RDMA *netlinkrdma.Client

	mu     sync.Mutex
	begun  bool
	known  map[uint32]*watched
	counts map[EventCount]uint64 // Count is 0 in keys
}

type watched struct {
	name   string
	states map[int]verbs.PortState
}

// Counts returns the number of events since the first check. It includes zeros for the devices and
// ports that exist: Prometheus would see no increase in a counter that begins with its first event. The
// counters of a new device begin with an event all the same. Only a sum over all devices increases then.
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

// Run calls Check at intervals and after each event of the kernel, until ctx is done.
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
		_ = w.Check() // a scrape reports the failure, and the next check may succeed
		select {
		case <-ctx.Done():
			return
		case <-clock.C:
		case <-notices:
		}
	}
}

// follow counts added and removed devices, and requests a check after other events.
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

// count counts an event. If there are too many counters, it counts the event for the name "others".
func (w *Watcher) count(device string, port int, kind EventKind) {
	if w.counts == nil {
		w.counts = make(map[EventCount]uint64)
	}
	key := EventCount{Device: device, Port: port, Kind: kind}
	if _, known := w.counts[key]; !known && len(w.counts) >= maxEventCounts {
		key.Device, key.Port = "others", min(port, 1)
	}
	w.counts[key]++
}

// Check compares devices and ports with those of the last check, and counts the differences. The first
// call counts nothing.
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
		now[d.Index] = &watched{name: d.Name, states: make(map[int]verbs.PortState)}
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
