package rdmacm

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"sync"

	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/verbs"
)

// sink takes an ID's events, one at a time and in their order. event runs on the hub's
// goroutine and must not wait there, except for the events that hub.deal gives a
// goroutine of their own. The other methods must not wait either.
type sink interface {
	// doomed tells why the queue pair is about to be moved to the error state.
	doomed(cause error)
	event(*Event)
	// broken tells that no more events will come.
	broken(error)
	// take has a goroutine of the sink's do something that may wait. It reports whether one
	// is there for that.
	take(do func()) bool
}

// hub is an event channel with the goroutine that deals out its events. All
// connections that were dialled share one; a listener shares one with the
// connections it accepted, which may outlive it.
type hub struct {
	kernel  kernel.Kernel
	ch      *EventChannel
	stopped chan struct{}
	turns   sync.WaitGroup // see deal

	mu     sync.Mutex
	refs   int
	failed error // why no more events come
}

func newHub(k kernel.Kernel) (*hub, error) {
	ch, err := openChannel(k)
	if err != nil {
		return nil, err
	}
	h := &hub{kernel: k, ch: ch, stopped: make(chan struct{}), refs: 1}
	go h.run()
	return h, nil
}

func (h *hub) run() {
	defer close(h.stopped)
	for {
		ev, err := h.ch.next(context.Background())
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				h.fail(err)
				h.ch.broken(err)
			}
			return
		}
		h.deal(ev)
	}
}

// newID makes an ID whose events go to s.
func (h *hub) newID(s sink, ps verbs.PortSpace) (*ID, error) {
	id, err := h.ch.NewID(ps, 0)
	if err != nil {
		return nil, err
	}
	id.setSink(s)
	if err := h.failure(); err != nil { // it may have come before the sink
		s.broken(err)
	}
	return id, nil
}

func (h *hub) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failed = err
}

func (h *hub) failure() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failed
}

func (h *hub) hold() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refs++
}

// release closes the channel with the last user and waits for the goroutine,
// so it must not run on it.
func (h *hub) release() error {
	h.mu.Lock()
	h.refs--
	last := h.refs == 0
	h.mu.Unlock()
	if !last {
		return nil
	}
	dialHubs.forget(h)
	// Not the channel's Close: an ID that the kernel would not destroy goes
	// with the file.
	err := closedError(h.ch.file.Close())
	<-h.stopped
	h.turns.Wait()
	return err
}

// broken tells the owners of all IDs. No event will flush their queue pairs any
// more, so broken flushes them, before it tells anybody.
func (c *EventChannel) broken(err error) {
	c.mu.Lock()
	ids := slices.Collect(maps.Values(c.ids))
	c.mu.Unlock()
	for _, id := range ids {
		if s := id.sink(); s != nil {
			s.doomed(err)
			id.failQP()
			s.broken(err)
		}
	}
}

func (id *ID) setSink(s sink) {
	id.mu.Lock()
	defer id.mu.Unlock()
	id.to = s
}

func (id *ID) sink() sink {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.to
}

// deal passes an event on. Those upon which a queue pair is moved, which takes
// several system calls, run beside those of other IDs, so that a device that is
// slow with one connection holds up no other. The goroutine that waits for the
// connection carries them out, or else one of the hub's. An ID's own keep their order.
func (h *hub) deal(ev *Event) {
	switch p := &ev.account.pending; {
	case p.follow(ev):
	case ev.movesQP():
		p.begin()
		run := func() { p.run(ev) }
		if s := ev.account.sink(); s == nil || !s.take(run) {
			h.turns.Go(func() { growStack(); run() })
		}
	default:
		ev.deliver()
	}
}

// movesQP tells whether the queue pair may be moved upon the event.
func (e *Event) movesQP() bool {
	switch e.Type {
	case EventConnectResponse, EventRejected, EventDisconnected, EventDeviceRemoval:
		return true
	}
	return false
}

// deliver gives the event to the ID's sink.
func (e *Event) deliver() {
	s := e.account.sink()
	if cause := e.ends(); s != nil && cause != nil {
		s.doomed(cause)
	}
	if !e.react() {
		return
	}
	if s != nil {
		s.event(e)
	}
	e.Ack()
}

// ends tells why the connection is over, if it is.
func (e *Event) ends() error {
	switch e.Type {
	case EventDisconnected:
		return ErrDisconnected
	case EventDeviceRemoval:
		return ErrDeviceRemoved
	}
	return nil
}

// pending are an ID's events behind one that is being delivered.
type pending struct {
	mu     sync.Mutex
	busy   bool
	events []*Event
}

// follow queues ev if another one is being delivered.
func (p *pending) follow(ev *Event) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.busy {
		p.events = append(p.events, ev)
	}
	return p.busy
}

func (p *pending) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy = true
}

// run delivers ev and what has come behind it by then.
func (p *pending) run(ev *Event) {
	for ; ev != nil; ev = p.next() {
		ev.deliver()
	}
}

func (p *pending) next() *Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.events) == 0 {
		p.busy = false
		return nil
	}
	ev := p.events[0]
	p.events = p.events[1:]
	return ev
}

// dialHubs are the hubs of the connections that were dialled, one a kernel, while
// there are any: a descriptor and a goroutine for each would be most of what an idle
// one takes.
// The network namespace of an ID is that of the thread which makes it, not of the
// thread which opened the channel.
var dialHubs = sharedHubs{hubs: make(map[kernel.Kernel]*hub)}

type sharedHubs struct {
	mu   sync.Mutex
	hubs map[kernel.Kernel]*hub
}

// join returns the hub of a kernel and takes a reference, which the caller releases.
func (s *sharedHubs) join(k kernel.Kernel) (*hub, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.hubs[k]; h != nil && h.join() {
		return h, nil
	}
	h, err := newHub(k)
	if err == nil {
		s.hubs[k] = h
	}
	return h, err
}

func (s *sharedHubs) forget(h *hub) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hubs[h.kernel] == h {
		delete(s.hubs, h.kernel)
	}
}

// join is hold for a caller that does not know whether the hub still runs.
func (h *hub) join() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refs == 0 || h.failed != nil {
		return false
	}
	h.refs++
	return true
}

// growStack has the calling goroutine's stack grow to what making and moving a queue pair
// takes. It is for a goroutine that has just begun: to grow step by step in the depth of
// that costs more, because each frame is looked up each time.
//
//go:noinline
func growStack() byte {
	var room [5 << 10]byte
	return room[len(room)-int(zero)-1]
}

// zero keeps the compiler from doing without the room.
var zero uint8
