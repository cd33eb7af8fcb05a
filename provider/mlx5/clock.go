package mlx5

import (
	"fmt"
	"os"
	"sync"

	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

// clock makes times of the ticks of the device's clock, with what the kernel says of it in a
// page that it keeps up to date.
type clock struct {
	mu   sync.Mutex
	page *mmap.Region // nil: not mapped yet
}

// clockKey is the page's place in the device's file, in pages.
const clockKey = 7 << 8

// Where the page has what. The first word is odd while the kernel writes the others.
const (
	clockSign   = 0
	clockNsec   = 8
	clockCycles = 16
	clockFrac   = 24
	clockMult   = 32 // and in the upper half the shift
	clockMask   = 40
)

func (c *clock) open(d driver.Device) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.page != nil {
		return nil
	}
	size := os.Getpagesize()
	page, err := d.Map(clockKey*int64(size), size, mmap.ProtRead)
	if err == nil {
		c.page = page
	}
	return err
}

// reading is what the kernel said of the clock once.
type reading struct {
	nsec, cycles, frac, mask uint64
	mult                     uint64
	shift                    uint8
}

// read is called after open.
func (c *clock) read() (r reading) {
	load := func(at int) uint64 {
		w, err := c.page.Word64(at)
		if err != nil {
			return 0 // a page has room for all of them
		}
		return w.Load()
	}
	for {
		before := uint32(load(clockSign))
		ratio := load(clockMult)
		r = reading{nsec: load(clockNsec), cycles: load(clockCycles), frac: load(clockFrac), mask: load(clockMask),
			mult: ratio & (1<<32 - 1), shift: uint8(ratio >> 32)}
		if before&1 == 0 && uint32(load(clockSign)) == before {
			return r
		}
	}
}

// time is the time of a tick, which is the nearest of those with that number.
func (r *reading) time(ticks uint64) int64 {
	if after := (ticks - r.cycles) & r.mask; after <= r.mask/2 {
		return int64(r.nsec + (after*r.mult+r.frac)>>r.shift)
	}
	before := (r.cycles - ticks) & r.mask
	return int64(r.nsec - (before*r.mult-r.frac)>>r.shift)
}

// extend readies a CQ to tell more than work completions do.
func (q *cq) extend(want verbs.WCExtMask) error {
	if odd := want &^ (verbs.WCExtTimestamp | verbs.WCExtWallClock); odd != 0 {
		return fmt.Errorf("%w: this mlx5 provider tells time stamps of completions, and nothing else beside them", verbs.ErrNotSupported)
	}
	q.ext = want
	if want&verbs.WCExtWallClock == 0 {
		return nil
	}
	if q.ctx.limits.ClockInfoVersions&1 == 0 {
		return fmt.Errorf("%w: this kernel does not tell how to make times of the device's clock", verbs.ErrNotSupported)
	}
	return q.ctx.clock.open(q.ctx.device)
}

// PollExt implements driver.ExtPoller.
func (q *cq) PollExt(wcs []verbs.WC, ext []verbs.WCExt) (n int, bad bool, err error) {
	if q.lost {
		return 0, false, errLost
	}
	var now reading
	if q.ext&verbs.WCExtWallClock != 0 {
		now = q.ctx.clock.read()
	}
	odd, first := verbs.StatusSuccess, q.ci
	for n < len(wcs) && q.ready(1) > 0 {
		if q.complete(q.ci, &wcs[n]) {
			odd |= wcs[n].Status
			ext[n] = verbs.WCExt{}
			if wcs[n].Status == verbs.StatusSuccess { // others have none
				ticks := be64(q.at(q.ci).timestamp())
				if q.ext&verbs.WCExtTimestamp != 0 {
					ext[n].Timestamp = ticks
				}
				if q.ext&verbs.WCExtWallClock != 0 {
					ext[n].WallClock = now.time(ticks)
				}
			}
			n++
		}
		q.ci++
	}
	if q.ci != first {
		q.consumed()
	}
	return n, odd != verbs.StatusSuccess, nil
}
