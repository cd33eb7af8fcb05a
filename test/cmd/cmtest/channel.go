package main

import (
	"context"
	"errors"
	"net/netip"
	"sync"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/verbs"
)

// channel is an event channel with a goroutine that forwards each event to its
// connection.
type channel struct {
	*rdmacm.EventChannel
	stopped chan struct{}
	err     error // why it stopped; read it after stopped

	mu      sync.Mutex
	conns   map[*rdmacm.ID]*conn
	request func(*rdmacm.Event) // called for each connect request; must not block
}

func openChannel() (*channel, error) {
	ch, err := rdmacm.NewEventChannel()
	if err != nil {
		return nil, err
	}
	c := &channel{EventChannel: ch, stopped: make(chan struct{}), conns: make(map[*rdmacm.ID]*conn)}
	go c.run()
	return c, nil
}

func (c *channel) run() {
	defer close(c.stopped)
	for {
		ev, err := c.Get(context.Background())
		if err != nil {
			c.err = err
			return
		}
		c.deal(ev)
		ev.Ack()
	}
}

// deal forwards an event. A connection's channel has room for all events that a
// connection can get.
func (c *channel) deal(ev *rdmacm.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ev.Type == rdmacm.EventConnectRequest {
		c.request(ev)
		return
	}
	if conn := c.conns[ev.ID]; conn != nil {
		select {
		case conn.events <- ev:
		default:
		}
	}
}

// add starts to forward the events of conn's ID to conn.
func (c *channel) add(conn *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns[conn.id] = conn
}

func (c *channel) remove(conn *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.conns, conn.id)
}

// close closes the event channel and waits for its goroutine, which must not call it.
func (c *channel) close() error {
	err := c.Close()
	if err == nil {
		<-c.stopped
	}
	return err
}

// listen creates a listening ID. Its connect requests go to the function request.
func (s *session) listen(c *channel, request func(*rdmacm.Event)) (*rdmacm.ID, error) {
	addr, err := parseAddr("b", s.bind)
	if err != nil {
		return nil, err
	}
	if !addr.IsValid() {
		addr = netip.IPv4Unspecified()
	}
	c.mu.Lock()
	c.request = request
	c.mu.Unlock()
	typ := verbs.QPType(0)
	if s.xrc {
		typ = verbs.QPTypeXRCTarget
	}
	id, err := c.NewID(s.portSpace, typ)
	if err != nil {
		return nil, err
	}
	if err = id.Bind(netip.AddrPortFrom(addr, uint16(s.port))); err == nil {
		err = id.Listen(0)
	}
	if err != nil {
		return nil, errors.Join(err, id.Close())
	}
	return id, nil
}

// refuse rejects a peer that came too late.
func refuse(id *rdmacm.ID) {
	_ = id.Reject(nil)
	_ = id.Close()
}
