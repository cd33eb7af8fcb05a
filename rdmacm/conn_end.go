package rdmacm

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"

	"github.com/goverbs/goverbs/internal/hooks"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

var hook = hooks.Get[*uverbs.QP, *uverbs.CQ]()

// Done returns a channel that is closed when the connection has ended: one of the sides
// disconnected or died, the queue pair failed, the device was removed, or Close was called. Err
// returns the cause.
func (c *Conn) Done() <-chan struct{} { return c.ending.Done() }

// Err returns nil while the connection is up, and then the first cause of its end. That is
// ErrDisconnected after an orderly end by either side, ErrDeviceRemoved, an error that matches
// the verbs.Status of the first work request that failed, verbs.ErrCQOverflow after an overflow of one of
// the queue pair's CQs, or net.ErrClosed after Close.
//
// Err is set once a completion with an error has been polled. Once all work requests have
// completed, Wait on the connection's own CQs returns an error that matches Err. On mlx5 and erdma
// Wait on one of the two first needs the completions of the other to be polled. Wait on the
// caller's CQs does not end, because they may serve other connections: select on Done instead.
func (c *Conn) Err() error { return c.ending.Cause() }

// watch makes the first completion that fails end the connection. On iWARP, a flush means that the
// kernel has ended the connection and is about to report that. On InfiniBand and RoCE the cause
// is stored before the queue pair is flushed, so an unexplained flush means that the queue pair
// failed while it served the peer.
func (c *Conn) watch() {
	c.ending.Begin()
	iwarp := c.id.isIWARP()
	hook.OnError(c.qp, func(s error) {
		sign := ErrDisconnected
		if !iwarp || s != verbs.StatusWRFlushErr {
			sign = fmt.Errorf("the queue pair failed: %w", s)
		}
		c.ending.Fail(c.because(sign))
	})
}

// Disconnect ends the connection in order, and Done is closed on both sides. It flushes work that
// has not completed, so wait for completions first. The Conn must still be closed. On a datagram
// Conn, which has no connection, it returns net.ErrClosed.
func (c *Conn) Disconnect() error {
	c.closing.Lock()
	defer c.closing.Unlock()
	if !c.established {
		return net.ErrClosed
	}
	c.established = false
	c.ending.Note(ErrDisconnected)
	return c.id.Disconnect()
}

// disconnectForClose is Disconnect for a queue pair that is freed next. It does not move the queue
// pair to the error state: rxe reports a message's completion before it acknowledges the message,
// and in the error state it never acknowledges it. The peer of a program that closes at that moment
// would retransmit, forever if its retry count is 7. Freeing the queue pair waits until rxe has
// acknowledged.
func (c *Conn) disconnectForClose() {
	if c.established && !c.peerLeft.Load() {
		_ = c.id.disconnect() // the peer may be disconnecting already, so errors do not matter
	}
	c.established = false
}

// Close disconnects, leaves the groups that were joined, and frees all objects of the Conn. Work
// that has not completed is lost, so wait for completions first.
//
// Memory regions and other objects that the caller created with PD, the CQs or Device must be
// closed before, or passed to Own. Otherwise the error matches verbs.ErrInUse and names them. The
// connection has ended even so, and another Close frees the rest, as it does after any other
// error. Once all is freed, Close returns an error that matches net.ErrClosed.
func (c *Conn) Close() error {
	if c == nil {
		return closeNil("Conn")
	}
	c.closing.Lock()
	defer c.closing.Unlock()
	if c.closed && len(c.groups)+len(c.link)+len(c.verbs)+len(c.device) == 0 {
		return &verbs.Error{Op: "close connection from", Object: c.local.String(), Err: net.ErrClosed}
	}
	c.ending.Note(net.ErrClosed)
	c.disconnectForClose()
	c.ending.End(net.ErrClosed)
	c.closed = true
	errs := []error{c.leaveAll(), c.link.Free(), c.verbs.Free()}
	if len(c.verbs) == 0 {
		errs = append(errs, c.device.Free())
	}
	return errors.Join(errs...)
}

// freeQP closes the queue pair. If memory windows keep it in use, it moves it to the error state,
// which ends its work.
func (c *Conn) freeQP() error {
	err := c.qp.Close()
	if err != nil {
		c.id.failQP()
	}
	c.id.DetachQP()
	return err
}

// because returns the cause of the connection's end, of which the error sign is the first evidence.
// When a device is removed, the kernel reports that to one connection after another. If it reports
// it to the peer first, this connection is disconnected, or its work is flushed, before its own
// event arrives.
//
// Other causes show only in the state of this end, so because adds them to the sign: a port that is not
// active, and on iWARP a receive queue without receives.
func (c *Conn) because(sign error) error {
	switch {
	case sign == ErrDeviceRemoved || !c.ending.IsOpen():
		return sign
	case c.isBeingRemoved():
		return ErrDeviceRemoved
	}
	if sign == ErrDisconnected && !c.id.isIWARP() {
		return sign // by a message of the peer, so the port works
	}
	number := c.DevicePort()
	if port, err := c.Device().QueryPort(number); err == nil && port.State != verbs.PortActive {
		return fmt.Errorf("%w: port %d of %s is %s", sign, number, c.Device().Info().Name, strings.ToLower(port.State.String()))
	}
	if c.id.isIWARP() && sign == ErrDisconnected && hook.RecvEmpty(c.qp) {
		return fmt.Errorf("%w: no receive was posted here, and on iWARP a message that finds none ends the connection", sign)
	}
	return sign
}

// Explain returns the reason why a call on one of the connection's objects failed with err: the
// cause of the connection's end, or err itself before the end. All calls to a removed device
// fail with EIO, possibly before Err returns ErrDeviceRemoved. Explain then returns an error that
// matches both ErrDeviceRemoved and err.
func (c *Conn) Explain(err error) error { return c.ending.Explain(err, ErrDeviceRemoved) }

// isBeingRemoved reports whether the kernel has begun to remove the device. A removal starts with
// taking the device off the kernel's list. Devices of other network namespaces are not on the list
// either, but they fail a query by index. A device that is being removed is still found by its
// index, and a device that is gone fails all calls with EIO.
func (c *Conn) isBeingRemoved() bool {
	index := c.Device().Info().Index
	// A netlinkrdma.Socket would have to receive the list to its end, one device a datagram.
	client := netlinkrdma.Client{Kernel: c.hub.kernel.Netlink()}
	if listed, err := client.IsListed(index); err != nil || listed {
		return false
	}
	if _, err := client.Device(index); err == nil {
		return true
	}
	_, err := c.Device().QueryPort(c.DevicePort())
	return errors.Is(err, syscall.EIO)
}
