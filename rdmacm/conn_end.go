package rdmacm

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"

	"github.com/goverbs/goverbs/internal/hooks"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// ending is how a connection ends. The first cause counts, whichever shows first:
// an event, a completion that failed, or a call of the owner's. It is noted before
// the queue pair is moved to the error state, so that whoever sees a work request
// flushed finds the cause; done is closed when the queue pair has been moved.
type ending struct {
	done chan struct{}

	mu     sync.Mutex // guards what follows
	begun  bool       // there is a queue pair, so the Conn's device is known
	cause  error
	over   bool         // done is closed
	stands bool         // the set-up is over
	failed error        // of the queue pair, during the set-up
	cqs    []*uverbs.CQ // the connection's own
	room   [2]*uverbs.CQ
}

// Done is closed when the connection has ended: one of the sides disconnected or
// died, the queue pair failed, the device was removed, or Close was called. Err
// tells which.
func (c *Conn) Done() <-chan struct{} { return c.ending.done }

// Err is nil while the connection lives. Then it tells the first cause of its end:
// ErrDisconnected after an orderly end by either side, ErrDeviceRemoved, an error
// that matches the verbs.Status of the first work request that failed, or, after
// Close, net.ErrClosed.
//
// Whoever has polled a completion with an error finds Err set. Once all work
// requests have completed, Wait on the connection's own CQs returns an error that
// matches Err. On CQs of the caller's it does not,
// for they may serve other connections: select on Done.
func (c *Conn) Err() error {
	c.ending.mu.Lock()
	defer c.ending.mu.Unlock()
	return c.ending.cause
}

// note keeps the cause of an end that is about to come.
func (e *ending) note(cause error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.keep(cause)
}

func (e *ending) keep(cause error) {
	if e.cause == nil {
		e.cause = cause
	}
}

// isOpen tells that the cause is still to be found.
func (e *ending) isOpen() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.begun && e.cause == nil
}

func (e *ending) begin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.begun = true
}

// end is for when the queue pair is in the error state, or gone.
func (e *ending) end(cause error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.keep(cause)
	if e.over {
		return
	}
	e.over = true
	close(e.done)
	for _, cq := range e.cqs {
		hooks.End(cq, e.cause)
	}
}

// add has cq end with the connection.
func (e *ending) add(cq *uverbs.CQ) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cqs == nil {
		e.cqs = e.room[:0]
	}
	e.cqs = append(e.cqs, cq)
	if e.over {
		hooks.End(cq, e.cause)
	}
}

// fail ends the connection because of its queue pair. While it is being set up, the
// outcome of that counts.
func (e *ending) fail(cause error) {
	e.mu.Lock()
	if !e.stands {
		e.failed = cause
		e.mu.Unlock()
		return
	}
	e.mu.Unlock()
	e.end(cause)
}

// stand begins the life of the connection.
func (e *ending) stand() {
	e.mu.Lock()
	e.stands = true
	failed := e.failed
	e.mu.Unlock()
	if failed != nil {
		e.end(failed)
	}
}

// watch has the first completion that fails end the connection. A flush on iWARP
// means that the kernel has ended it and is about to say so. On InfiniBand and RoCE
// such an end is noted before the queue pair is flushed; so, there, an unexplained
// flush means that the queue pair failed as it served the peer.
func (c *Conn) watch() {
	c.ending.begin()
	iwarp := c.id.isIWARP()
	hooks.OnError(c.qp, func(s error) {
		sign := ErrDisconnected
		if !iwarp || s != verbs.StatusWRFlushErr {
			sign = fmt.Errorf("rdmacm: the queue pair failed: %w", s)
		}
		c.ending.fail(c.because(sign))
	})
}

// Disconnect ends the connection in order; both sides' Done is closed. Work
// not yet complete is flushed, so wait for its completions before. The Conn
// must still be closed. A datagram Conn has no connection to end: net.ErrClosed.
func (c *Conn) Disconnect() error {
	c.closing.Lock()
	defer c.closing.Unlock()
	if !c.established {
		return net.ErrClosed
	}
	c.established = false
	c.ending.note(ErrDisconnected)
	return c.id.Disconnect()
}

// part is Disconnect for a queue pair that is freed next. It is not moved to the error
// state: rxe shows a message's completion before it acknowledges the message, and in the
// error state it never does. The peer of a program that closes at that moment would ask
// again, for ever if its retry count is 7. Freeing waits until rxe has answered.
func (c *Conn) part() {
	if c.established && !c.parted.Load() {
		_ = c.id.disconnect() // the peer may be disconnecting already, so no failure matters
	}
	c.established = false
}

// Close disconnects, leaves the groups that were joined, and frees all that the
// Conn made. Work not yet complete is lost: wait for its completions before.
// Memory regions and whatever else the caller made from PD, CQs or Device must be
// closed before, or given to Own; if not, the error matches verbs.ErrInUse and
// names them, the connection is down all the same, and another Close frees the
// rest; so it does after any other error. Closing a Conn that has freed all returns an
// error that matches net.ErrClosed.
func (c *Conn) Close() error {
	if c == nil {
		return closeNil("Conn")
	}
	c.closing.Lock()
	defer c.closing.Unlock()
	if c.closed && len(c.groups)+len(c.link)+len(c.verbs)+len(c.device) == 0 {
		return &OpError{Op: "close connection from", Object: c.local.String(), Err: net.ErrClosed}
	}
	c.ending.note(net.ErrClosed)
	c.part()
	c.ending.end(net.ErrClosed)
	c.closed = true
	errs := []error{c.leaveAll(), c.link.free(), c.verbs.free()}
	if len(c.verbs) == 0 {
		errs = append(errs, c.device.free())
	}
	return errors.Join(errs...)
}

// owned is what a Conn has to free, in the order of making.
type owned []io.Closer

func (o *owned) add(c io.Closer) { *o = append(*o, c) }

// freeing is how something goes that has no Close for that.
type freeing func() error

// Close implements io.Closer.
func (f freeing) Close() error { return f() }

// free frees all, last first, and keeps for the next call what would not go. It
// stops at what is in use, because then all made before it is so too. Other
// failures don't stop it: what doesn't depend on them shall go.
func (o *owned) free() error {
	var errs []error
	for i, c := range slices.Backward(*o) {
		err := c.Close()
		if err == nil || errors.Is(err, net.ErrClosed) {
			*o = slices.Delete(*o, i, i+1)
			continue
		}
		errs = append(errs, err)
		if errors.Is(err, verbs.ErrInUse) {
			break
		}
	}
	return errors.Join(errs...)
}

// freeQP has a queue pair that is in use, by memory windows, end its work all the same.
func (c *Conn) freeQP() error {
	err := c.qp.Close()
	if err != nil {
		c.id.failQP()
	}
	c.id.DetachQP()
	return err
}

// because replaces the sign of an end by its reason. When a device is removed, the kernel
// tells each connection of it, one after another. A connection whose peer heard of it first
// finds itself disconnected, or its work flushed, before its own event comes.
func (c *Conn) because(sign error) error {
	if sign != ErrDeviceRemoved && c.ending.isOpen() && c.isBeingRemoved() {
		return ErrDeviceRemoved
	}
	return sign
}

// Explain returns why a call on one of the connection's objects failed with err: the cause of
// the connection's end, or err itself before that is known. All calls to a device that was
// removed fail with EIO, and they may do so before Err tells of the removal. Explain then
// returns ErrDeviceRemoved together with err.
func (c *Conn) Explain(err error) error {
	if cause := c.Err(); cause != nil {
		return cause
	}
	if errors.Is(err, syscall.EIO) {
		return fmt.Errorf("%w: %w", ErrDeviceRemoved, err)
	}
	return err
}

// isBeingRemoved tells whether the kernel has begun to remove the device. Before all else
// it then takes the device off its list. That list does not have devices of other network
// namespaces either. But a device that is being removed is still found by its index, and
// one that is gone fails all calls with EIO.
func (c *Conn) isBeingRemoved() bool {
	index := c.Device().Info().Index
	client := netlinkrdma.Client{Kernel: c.hub.kernel.Netlink()}
	listed, err := client.Devices()
	if err != nil || slices.ContainsFunc(listed, func(d netlinkrdma.Device) bool { return d.Index == index }) {
		return false
	}
	if _, err := client.Device(index); err == nil {
		return true
	}
	_, err = c.Device().QueryPort(c.port)
	return errors.Is(err, syscall.EIO)
}
