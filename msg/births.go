package msg

import (
	"sync"

	"github.com/goverbs/goverbs/rdmacm"
)

// births are connections that have been prepared and that no program has yet. There may
// be several at a time: a Listener lets peers in side by side, and Dial may try two
// addresses at once.
type births struct {
	mu   sync.Mutex
	made map[*rdmacm.Conn]*Conn
}

// add keeps c until it is taken, or closed.
func (b *births) add(c *Conn) {
	b.mu.Lock()
	if b.made == nil {
		b.made = make(map[*rdmacm.Conn]*Conn)
	}
	b.made[c.cm] = c
	b.mu.Unlock()
	c.cm.Own(closer(func() error { b.remove(c.cm); return nil }))
}

func (b *births) remove(cm *rdmacm.Conn) *Conn {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.made[cm]
	delete(b.made, cm)
	return c
}

// take is for one that the program gets.
func (b *births) take(cm *rdmacm.Conn) *Conn {
	c := b.remove(cm)
	if c != nil && c.shape.pool != nil {
		c.shape.pool.leaves(c, false)
	}
	return c
}

// end is for when nobody will take those that are left. They are being closed.
func (b *births) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.made {
		if p := c.shape.pool; p != nil {
			p.leaves(c, true)
		}
	}
}
