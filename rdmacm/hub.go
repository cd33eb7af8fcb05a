package rdmacm

import (
	"context"
	"errors"
	"maps"
	"math"
	"net"
	"slices"
	"sync"

	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/verbs"
)

// sink receives an ID's events, one at a time and in order. event runs on the hub's goroutine, where it
// must not wait. For events that hub.deliver runs on another goroutine, it may wait. The other methods
// must not wait.
type sink interface {
	// failing is called before the queue pair moves to the error state because of cause.
	failing(cause error)
	event(*Event)
	// broken is called when no more events will arrive.
	broken(error)
	// tryRun runs a function, which may wait, on a goroutine of the sink. It reports whether a
	// goroutine was free.
	tryRun(do func()) bool
}

// hub is an event channel with a goroutine that delivers its events. All connections that were dialled
// share one. A listener shares one with the connections it accepted, which may outlive it.
type hub struct {
	kernel  kernel.Kernel
	ch      *EventChannel
	stopped chan struct{}
	running sync.WaitGroup // see deliver

	mu        sync.Mutex
	refs      int
	failed    error              // the reason why no more events come
	settling  []func()           // see settle
	interrupt context.CancelFunc // ends the wait for an event
}

func newHub(k kernel.Kernel) (*hub, error) {
	ch, err := openChannel(k)
	if err != nil {
		return nil, err
	}
	h := &hub{kernel: k, ch: ch, stopped: make(chan struct{}), refs: 1, interrupt: func() {}}
	go h.run()
	return h, nil
}

func (h *hub) run() {
	defer close(h.stopped)
	for {
		ctx := h.nextWait()
		err := h.deliverUntil(ctx, math.MaxInt)
		if err == context.Canceled {
			settling := h.takeSettling()
			if err = h.deliverUntil(ctx, mostUnread); err == context.Canceled {
				for _, f := range settling {
					f()
				}
				continue
			}
		}
		if !errors.Is(err, net.ErrClosed) {
			h.fail(err)
			h.ch.broken(err)
		}
		return
	}
}

// mostUnread is how many events settle waits for. A flood of events must not delay it for ever.
const mostUnread = 4096

// deliverUntil delivers events until ctx has ended and no event waits, or until it has delivered most
// of them. It then returns context.Canceled.
func (h *hub) deliverUntil(ctx context.Context, most int) error {
	for range most {
		ev, err := h.ch.next(ctx)
		switch {
		case err == nil:
			h.deliver(ev)
		case errors.Is(err, context.Canceled):
			return context.Canceled
		default:
			return err
		}
	}
	return context.Canceled
}

// settle calls f on the hub's goroutine once all events that wait now have been delivered. If the hub
// ends first, it does not call f.
func (h *hub) settle(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.settling = append(h.settling, f)
	h.interrupt()
}

// nextWait returns the context that settle ends.
func (h *hub) nextWait() context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	var ctx context.Context
	ctx, h.interrupt = context.WithCancel(context.Background())
	if len(h.settling) > 0 {
		h.interrupt()
	}
	return ctx
}

func (h *hub) takeSettling() []func() {
	h.mu.Lock()
	defer h.mu.Unlock()
	settling := h.settling
	h.settling = nil
	return settling
}

// newID creates an ID whose events go to s.
func (h *hub) newID(s sink, ps verbs.PortSpace) (*ID, error) {
	id, err := h.ch.NewID(ps, 0)
	if err != nil {
		return nil, err
	}
	id.setSink(s)
	if err := h.failure(); err != nil { // the hub may have failed before the sink was added
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

// release drops a reference. With the last one it closes the channel and waits for the hub's goroutine,
// so it must not run on that goroutine.
func (h *hub) release() error {
	h.mu.Lock()
	h.refs--
	last := h.refs == 0
	h.mu.Unlock()
	if !last {
		return nil
	}
	dialHubs.forget(h)
	// The channel's Close would fail if the kernel has failed to destroy an ID. Closing the file
	// destroys such IDs too.
	err := closedError(h.ch.file.Close())
	<-h.stopped
	h.running.Wait()
	return err
}

// broken reports the error to the sinks of all IDs. No event will flush their queue pairs any more, so
// broken flushes each one before it calls the sink.
func (c *EventChannel) broken(err error) {
	c.mu.Lock()
	ids := slices.Collect(maps.Values(c.ids))
	c.mu.Unlock()
	for _, id := range ids {
		if s := id.sink(); s != nil {
			s.failing(err)
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

// deliver delivers an event. An event that moves a queue pair takes several system calls, so it runs
// concurrently with the events of other IDs: a device that is slow with one connection does not
// stall others. It runs on the goroutine that waits for the connection or, if none waits, on a new
// one. The events of one ID keep their order.
func (h *hub) deliver(ev *Event) {
	switch p := &ev.account.pending; {
	case p.follow(ev):
	case ev.movesQP():
		p.begin()
		run := func() { p.run(ev) }
		if s := ev.account.sink(); s == nil || !s.tryRun(run) {
			h.running.Go(func() { growStack(); run() })
		}
	default:
		ev.deliver()
	}
}

// movesQP reports whether the event may move the queue pair.
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
		s.failing(cause)
	}
	if !e.react() {
		return
	}
	if s != nil {
		s.event(e)
	}
	e.Ack()
}

// ends returns the cause of the connection's end if the event ends the connection, or else nil.
func (e *Event) ends() error {
	switch e.Type {
	case EventDisconnected:
		return ErrDisconnected
	case EventDeviceRemoval:
		return ErrDeviceRemoved
	}
	return nil
}

// pending holds the events of an ID that wait until the current one has been delivered.
type pending struct {
	mu     sync.Mutex
	busy   bool
	events []*Event
}

// follow queues ev if another event is being delivered, and reports whether it did.
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

// run delivers ev and the events that have been queued behind it.
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

// dialHubs holds the hubs of the connections that were dialled, one for each kernel. An idle connection
// needs little more than a descriptor and a goroutine, so sharing these saves most of its cost. Sharing
// works across network namespaces: the namespace of an ID is that of the thread that creates it, not
// of the thread that opened the channel.
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

// join takes a reference if the hub still runs, and reports whether it did.
func (h *hub) join() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refs == 0 || h.failed != nil {
		return false
	}
	h.refs++
	return true
}

// growStack grows the calling goroutine's stack to the size that creating and moving a queue pair needs.
// It is for a new goroutine. Growing step by step at a greater depth costs more, because each step
// visits all frames.
//
//go:noinline
func growStack() byte {
	var room [5 << 10]byte
	return room[len(room)-int(zero)-1]
}

// zero keeps the compiler from removing the array.
var zero uint8
