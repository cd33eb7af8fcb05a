package msg

import (
	"fmt"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/verbs"
)

const (
	// firstFrameLimit is how long a peer may take after Accept to send its first frame.
	// A correct peer sends it as soon as it is connected.
	firstFrameLimit = 10 * time.Second
	// readLimit is how long one READ of a large message may take. Each check compares it.
	readLimit = 30 * time.Second
	// crowdLimit is how long one READ may take while another connection waits for memory.
	// Otherwise a few stalled peers could hold all memory of a pool.
	crowdLimit = 5 * time.Second
)

// hurry ends the connection if its peer stalls a large message. It is called while other
// connections wait for memory.
func (c *Conn) hurry() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := &c.fetch; f.inFlight > 0 && !c.ending.failing && time.Since(f.since) >= crowdLimit {
		c.fail(fmt.Errorf("%w: the peer sent nothing of a large message for %v while others wait for memory", syscall.ETIMEDOUT, crowdLimit))
	}
}

// watchdog detects a peer that has disappeared, or that stalls this end. The connection's
// lock guards it.
type watchdog struct {
	timer        *time.Timer
	heard        bool      // something has completed since the last check, so the peer is there
	probing      bool      // a keep-alive has been posted and has not completed
	reads        uint64    // fetch.reads, as of the last check
	stalledSince time.Time // the first check without progress of a READ, or zero
}

// startWatch starts the watchdog. Its first check happens after the time first.
func (c *Conn) startWatch(first time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if first > 0 && !c.ending.failing && !c.ending.isShut {
		c.watchdog.timer = time.AfterFunc(first, c.check)
	}
}

func (w *watchdog) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

// check ends the connection if its peer is overdue, and sends a keep-alive if it was
// idle.
func (c *Conn) check() {
	c.poller.reap() // the last keep-alive may have completed
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending.failing || c.ending.isShut {
		return
	}
	w := &c.watchdog
	if err := w.overdue(c); err != nil {
		c.fail(err)
		return
	}
	if c.shape.keepAlive < 0 {
		return
	}
	if !w.heard && !w.probing {
		c.keepAlive()
	}
	w.heard = false
	w.timer.Reset(c.shape.keepAlive)
}

// overdue returns an error if the peer should have sent something by now.
func (w *watchdog) overdue(c *Conn) error {
	f := &c.fetch
	switch {
	case !c.isOpen:
		return fmt.Errorf("%w: the peer sent nothing for %v after it connected", syscall.ETIMEDOUT, firstFrameLimit)
	case f.inFlight == 0 || f.reads != w.reads:
		w.stalledSince = time.Time{}
	case w.stalledSince.IsZero():
		w.stalledSince = time.Now()
	case time.Since(w.stalledSince) >= readLimit:
		return fmt.Errorf("%w: the peer sent nothing of a large message for %v", syscall.ETIMEDOUT, readLimit)
	}
	w.reads = f.reads
	return nil
}

// keepAlive posts a WRITE of no bytes, which the peer's program does not notice. It
// fails if the peer has disappeared.
func (c *Conn) keepAlive() {
	c.watchdog.probing = true
	_ = c.post([]verbs.SendWR{{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGL: make([]verbs.SGE, 1),
		WRID: uint64(newWRID(c.id, kindKeepAlive, 0, 0))}})
}
