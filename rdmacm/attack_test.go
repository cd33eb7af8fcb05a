package rdmacm

import (
	"errors"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/conn"
	"github.com/goverbs/goverbs/verbs"
)

// Listener.Close returns when nothing is left of the handshakes that it ends: the caller may
// close the device next.
func TestListenerCloseLeavesNothing(t *testing.T) {
	w := newWorld(t, aRXE)
	begun := make(chan uint32, 1)
	var freed atomic.Bool
	cfg := &ListenConfig{Config: Config{Prepare: func(c *Conn) error {
		c.Own(conn.Freeing(func() error { time.Sleep(50 * time.Millisecond); freed.Store(true); return nil }))
		return nil
	}}}
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

// What a device does not support names the call, the device and its driver.
func TestUnsupportedNamesDevice(t *testing.T) {
	w := newDatagramWorld(t)
	c := w.openUD()
	w.fail(abi.RDMA_USER_CM_CMD_JOIN_MCAST, notSupported)
	_, err := c.JoinMulticast(t.Context(), netip.MustParseAddr("ff0e::1"), JoinFullMember)
	if !errors.Is(err, verbs.ErrNotSupported) || !strings.Contains(err.Error(), "join multicast group ff0e::1 on "+c.Device().Info().Name+" (driver rxe)") {
		t.Error(err)
	}
	closeConn(t, c)
	w.empty()
}
