package cm

import (
	"context"
	"sync"

	"github.com/goverbs/goverbs/rdmacm"
)

// channel is an event channel with a goroutine that deals out its events to the
// connections.
type channel struct {
	*rdmacm.EventChannel
	stopped chan struct{}
	err     error // why it stopped; read it after stopped

	mu      sync.Mutex
	conns   map[*rdmacm.ID]*conn
	request func(*rdmacm.Event) // of a peer; must not wait
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

// add has the events of conn's ID dealt to it.
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

// close waits for the goroutine, so it must not run on it.
func (c *channel) close() error {
	err := c.Close()
	if err == nil {
		<-c.stopped
	}
	return err
}
