package transfer

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"syscall"
)

// maxValues is how many different values of notifications may wait for calls of Await.
const maxValues = 1 << 16

// counts holds the notifications that have arrived.
type counts struct {
	mu      sync.Mutex // guards the fields below
	arrived map[uint32]int
	waiters []*waiter
	spare   []*waiter
}

type waiter struct {
	value uint32
	n     int
	done  chan struct{} // has room for one token
}

// add counts a notification. It fails if there is no room for another value.
func (c *counts) add(value uint32) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.arrived[value]; !ok && len(c.arrived) == maxValues {
		return fmt.Errorf("notifications with %d values wait: %w", maxValues, syscall.ENOBUFS)
	}
	c.arrived[value]++
	c.waiters = slices.DeleteFunc(c.waiters, func(w *waiter) bool {
		if w.value != value || !c.take(value, w.n) {
			return false
		}
		w.done <- struct{}{}
		return true
	})
	return nil
}

// take takes n notifications if there are as many. c.mu is held.
func (c *counts) take(value uint32, n int) bool {
	left := c.arrived[value] - n
	if left < 0 {
		return false
	}
	c.arrived[value] = left
	if left == 0 {
		delete(c.arrived, value)
	}
	return true
}

// Await waits until n notifications with a value have arrived from any peers, and takes them off the count. Those that
// no call has taken are kept. Each means that all WRITEs of a batch of the peer have landed: see [Peer.SubmitNotify].
// If ctx ends first, none is taken.
func (e *Engine) Await(ctx context.Context, value uint32, n int) error {
	const op, object = "await", "notifications"
	if n < 1 {
		return failed(op, object, "", fmt.Errorf("%d notifications: %w", n, syscall.EINVAL))
	}
	c := &e.counts
	c.mu.Lock()
	if e.ctx.Err() == nil && c.take(value, n) {
		c.mu.Unlock()
		return nil
	}
	var w *waiter
	if last := len(c.spare) - 1; last >= 0 {
		w, c.spare = c.spare[last], c.spare[:last]
	} else {
		w = &waiter{done: make(chan struct{}, 1)}
	}
	w.value, w.n = value, n
	c.waiters = append(c.waiters, w)
	c.mu.Unlock()
	err := error(nil)
	select {
	case <-w.done:
	case <-ctx.Done():
		err = ctx.Err()
	case <-e.ctx.Done():
		err = net.ErrClosed
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		i := slices.Index(c.waiters, w)
		if i >= 0 {
			c.waiters = slices.Delete(c.waiters, i, i+1)
		} else { // they have arrived meanwhile
			<-w.done
			err = nil
		}
	}
	c.spare = append(c.spare, w)
	return failed(op, object, "", err)
}
