package msg

import (
	"fmt"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/verbs"
)

const (
	// firstFrameLimit is how long after Accept a peer may take for its first frame. An honest
	// one sends that as soon as it is connected.
	firstFrameLimit = 10 * time.Second
	// readLimit is how long one READ of a large message may take. A look at the time between
	// decides.
	readLimit = 30 * time.Second
	// crowdLimit is how long one may take while another connection waits for memory: a few
	// peers that hand out nothing could have all of a pool's.
	crowdLimit = 5 * time.Second
)

// hurry ends a connection whose peer hands out nothing of a large message although others
// wait for the memory.
func (c *Conn) hurry() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := &c.fetch; f.under > 0 && !c.ending.failing && time.Since(f.since) >= crowdLimit {
		c.fail(fmt.Errorf("%w: the peer handed out nothing of a large message for %v while others wait for memory", syscall.ETIMEDOUT, crowdLimit))
	}
}

// watch finds a peer that has gone without a word, or that holds up this end. The
// connection's lock guards it.
type watch struct {
	timer   *time.Timer
	heard   bool      // something completed since the last look, so the peer is there
	asking  bool      // a keep-alive is under way
	reads   uint64    // of large messages, as of the last look
	stuckAt time.Time // since when no READ has completed; zero: one did, or none is under way
}

// startWatch has the first look after a time.
func (c *Conn) startWatch(first time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if first > 0 && !c.ending.failing && !c.ending.isShut {
		c.watch.timer = time.AfterFunc(first, c.look)
	}
}

func (w *watch) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

// look ends a connection whose peer keeps this end waiting, and asks an idle one for a sign
// of life.
func (c *Conn) look() {
	c.pump.reap() // the last keep-alive may have completed
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending.failing || c.ending.isShut {
		return
	}
	w := &c.watch
	if err := w.overdue(c); err != nil {
		c.fail(err)
		return
	}
	if c.shape.keepAlive < 0 {
		return
	}
	if !w.heard && !w.asking {
		c.keepAlive()
	}
	w.heard = false
	w.timer.Reset(c.shape.keepAlive)
}

// overdue says what the peer should have done by now; nil: nothing.
func (w *watch) overdue(c *Conn) error {
	f := &c.fetch
	switch {
	case !c.isOpen:
		return fmt.Errorf("%w: the peer sent nothing for %v after it connected", syscall.ETIMEDOUT, firstFrameLimit)
	case f.under == 0 || f.reads != w.reads:
		w.stuckAt = time.Time{}
	case w.stuckAt.IsZero():
		w.stuckAt = time.Now()
	case time.Since(w.stuckAt) >= readLimit:
		return fmt.Errorf("%w: the peer handed out nothing of a large message for %v", syscall.ETIMEDOUT, readLimit)
	}
	w.reads = f.reads
	return nil
}

// keepAlive writes no bytes to the peer, which does not hear of it. It fails when the peer has
// gone.
func (c *Conn) keepAlive() {
	c.watch.asking = true
	_ = c.post([]verbs.SendWR{{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGL: make([]verbs.SGE, 1),
		WRID: uint64(newWRID(c.id, kindKeepAlive, 0, 0))}})
}
