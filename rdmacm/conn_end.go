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

// ending is the end of a connection. The first cause counts: an event, a completion that failed,
// or a call of the program. It is stored before the queue pair moves to the error state, so a
// program that sees a flushed work request finds the cause. done is closed after the move.
type ending struct {
	done chan struct{}

	mu          sync.Mutex // guards the fields below
	hasQP       bool       // if set, the Conn's device is known
	cause       error
	over        bool         // done is closed
	established bool         // the set-up is over
	failed      error        // the queue pair's error during the set-up
	cqs         []*uverbs.CQ // the connection's own
	room        [2]*uverbs.CQ
}

// Done returns a channel that is closed when the connection has ended: one of the sides
// disconnected or died, the queue pair failed, the device was removed, or Close was called. Err
// returns the cause.
func (c *Conn) Done() <-chan struct{} { return c.ending.done }

// Err returns nil while the connection is up, and then the first cause of its end. That is
// ErrDisconnected after an orderly end by either side, ErrDeviceRemoved, an error that matches
// the verbs.Status of the first work request that failed, or net.ErrClosed after Close.
//
// Err is set once a completion with an error has been polled. Once all work requests have
// completed, Wait on the connection's own CQs returns an error that matches Err. On mlx5 and erdma
// Wait on one of the two first needs the completions of the other to be polled. Wait on the
// caller's CQs does not end, because they may serve other connections: select on Done instead.
func (c *Conn) Err() error {
	c.ending.mu.Lock()
	defer c.ending.mu.Unlock()
	return c.ending.cause
}

// note stores the cause of an end that is about to happen.
func (e *ending) note(cause error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.setCause(cause)
}

func (e *ending) setCause(cause error) {
	if e.cause == nil {
		e.cause = cause
	}
}

// isOpen reports whether there is a queue pair and no cause yet.
func (e *ending) isOpen() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.hasQP && e.cause == nil
}

func (e *ending) begin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hasQP = true
}

// end ends the connection, once the queue pair is in the error state or gone.
func (e *ending) end(cause error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.setCause(cause)
	if e.over {
		return
	}
	e.over = true
	close(e.done)
	for _, cq := range e.cqs {
		hooks.End(cq, e.cause)
	}
}

// add makes the waits on cq end with the connection.
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

// fail ends the connection because its queue pair failed. During set-up it only stores the
// cause, because the outcome of the set-up decides.
func (e *ending) fail(cause error) {
	e.mu.Lock()
	if !e.established {
		e.failed = cause
		e.mu.Unlock()
		return
	}
	e.mu.Unlock()
	e.end(cause)
}

// establish marks the set-up as over, and ends the connection if its queue pair has failed already.
func (e *ending) establish() {
	e.mu.Lock()
	e.established = true
	failed := e.failed
	e.mu.Unlock()
	if failed != nil {
		e.end(failed)
	}
}

// watch makes the first completion that fails end the connection. On iWARP, a flush means that the
// kernel has ended the connection and is about to report that. On InfiniBand and RoCE the cause
// is stored before the queue pair is flushed, so an unexplained flush means that the queue pair
// failed while it served the peer.
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
	c.ending.note(ErrDisconnected)
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
		return &OpError{Op: "close connection from", Object: c.local.String(), Err: net.ErrClosed}
	}
	c.ending.note(net.ErrClosed)
	c.disconnectForClose()
	c.ending.end(net.ErrClosed)
	c.closed = true
	errs := []error{c.leaveAll(), c.link.free(), c.verbs.free()}
	if len(c.verbs) == 0 {
		errs = append(errs, c.device.free())
	}
	return errors.Join(errs...)
}

// owned holds the objects that a Conn has to free, in the order of their creation.
type owned []io.Closer

func (o *owned) add(c io.Closer) { *o = append(*o, c) }

// freeing makes an io.Closer of a function.
type freeing func() error

// Close implements io.Closer.
func (f freeing) Close() error { return f() }

// free closes all objects, last first, and keeps those that failed for the next call. It stops at
// an object that is in use, because then all older ones are in use too. Other errors do not stop
// it, so it frees all that do not depend on the failed one.
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
func (c *Conn) because(sign error) error {
	if sign != ErrDeviceRemoved && c.ending.isOpen() && c.isBeingRemoved() {
		return ErrDeviceRemoved
	}
	return sign
}

// Explain returns the reason why a call on one of the connection's objects failed with err: the
// cause of the connection's end, or err itself if there is none yet. All calls to a removed device
// fail with EIO, possibly before Err returns ErrDeviceRemoved. Explain then returns an error that
// matches both ErrDeviceRemoved and err.
func (c *Conn) Explain(err error) error {
	if cause := c.Err(); cause != nil {
		return cause
	}
	if errors.Is(err, syscall.EIO) {
		return fmt.Errorf("%w: %w", ErrDeviceRemoved, err)
	}
	return err
}

// isBeingRemoved reports whether the kernel has begun to remove the device. A removal starts with
// taking the device off the kernel's list. Devices of other network namespaces are not on the list
// either, but they fail a query by index. A device that is being removed is still found by its
// index, and a device that is gone fails all calls with EIO.
func (c *Conn) isBeingRemoved() bool {
	index := c.Device().Info().Index
	client := netlinkrdma.Client{Kernel: c.hub.kernel.Netlink()}
	if listed, err := client.IsListed(index); err != nil || listed {
		return false
	}
	if _, err := client.Device(index); err == nil {
		return true
	}
	_, err := c.Device().QueryPort(c.port)
	return errors.Is(err, syscall.EIO)
}
