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
	// mostIdle is how many checks in a row may find that nothing has come from the peer. It has been probed since the
	// first one.
	mostIdle = 4
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
	heard        bool      // something has come from the peer since the last check
	probing      bool      // a probe has been posted and has not completed
	idle         int       // checks since something came
	iwarp        bool      // sends complete without an answer of the peer, except READs and atomics
	deaf         bool      // no READ is allowed, over iWARP
	reads        uint64    // fetch.reads, as of the last check
	stalledSince time.Time // the first check without progress of a READ, or zero
}

// startWatch starts the watchdog. Its first check happens after the time first.
func (c *Conn) startWatch(first time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.base() != nil { // not in a test
		w := &c.watchdog
		w.iwarp = c.base().Device().Info().NodeType == verbs.NodeRNIC
		w.deaf = w.iwarp && c.base().InitiatorDepth() == 0
	}
	if first > 0 && !c.ending.failing && !c.ending.isShut {
		c.watchdog.timer = time.AfterFunc(first, c.check)
	}
}

func (w *watchdog) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

// check ends the connection if its peer is overdue, and probes the peer if the connection was
// idle.
func (c *Conn) check() {
	c.poller.reap() // the last probe may have completed
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
	period := c.shape.checkTime()
	if period < 0 {
		return
	}
	if w.idle++; w.heard {
		w.heard, w.idle = false, 0
	}
	if w.idle >= mostIdle && w.probing && !w.deaf {
		c.fail(fmt.Errorf("%w: the peer's machine has not answered for %v", syscall.ETIMEDOUT, time.Duration(w.idle)*period))
		return
	}
	if w.idle > 0 && !w.probing {
		c.probe()
	}
	w.timer.Reset(period)
}

// completed handles a work request that has completed.
func (w *watchdog) completed(kind wrKind, wc *verbs.WC) {
	if !w.iwarp || kind == kindRecv || wc.Opcode != verbs.WCSend && wc.Opcode != verbs.WCRDMAWrite {
		w.heard = true
	}
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

// probe posts a message of no bytes, which the peer's program does not notice. Its machine has to
// answer. Over iWARP it answers only a READ.
func (c *Conn) probe() {
	c.watchdog.probing = true
	code := verbs.OpRDMAWrite
	if c.watchdog.iwarp && !c.watchdog.deaf {
		code = verbs.OpRDMARead
	}
	_ = c.post([]verbs.SendWR{{Opcode: code, Flags: verbs.SendSignaled, SGL: make([]verbs.SGE, 1),
		WRID: uint64(newWRID(c.id, kindKeepAlive, 0, 0))}})
}
