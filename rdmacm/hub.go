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
