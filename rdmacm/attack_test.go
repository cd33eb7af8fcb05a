package rdmacm

import (
	"sync/atomic"
	"testing"
	"time"
)

// Listener.Close returns when nothing is left of the handshakes that it ends: the caller may
// close the device next.
func TestListenerCloseLeavesNothing(t *testing.T) {
	w := newWorld(t, aRXE)
	begun := make(chan uint32, 1)
	var freed atomic.Bool
	cfg := &Config{Prepare: func(c *Conn) error {
		c.Own(freeing(func() error { time.Sleep(50 * time.Millisecond); freed.Store(true); return nil }))
		return nil
	}}
	l := w.listenIn(cfg, func(id uint32) bool { begun <- id; return false })
	w.ask(50)
	ended := make(chan error)
	go func() { _, err := l.Accept(t.Context()); ended <- err }()
	<-begun
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if !freed.Load() {
		t.Error("the handshake's connection is still being closed")
	}
	<-ended
	w.closed(l)
}
