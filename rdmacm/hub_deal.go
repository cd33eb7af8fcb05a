package rdmacm

import "sync"

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
