package mlx5

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

// clock converts ticks of the device's clock to times, with the parameters in a page that
// the kernel keeps up to date.
type clock struct {
	mu   sync.Mutex
	page *mmap.Region // nil: not mapped yet
}

// clockKey is the page's offset in the device's file, in pages.
const clockKey = 7 << 8

// Offsets in the page. The first word is odd while the kernel writes the others.
const (
	clockSign   = 0
	clockNsec   = 8
	clockCycles = 16
	clockFrac   = 24
	clockMult   = 32 // the upper half is the shift
	clockMask   = 40
)

func (c *clock) open(d driver.Device) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.page != nil {
		return nil
	}
	size := d.PageSize()
	page, err := d.Map(clockKey*int64(size), size, mmap.ProtRead)
	if err == nil {
		c.page = page
	}
	return err
}

// reading is one copy of the clock's parameters.
type reading struct {
	nsec, cycles, frac, mask uint64
	mult                     uint64
	shift                    uint8
}

// read copies the page. open must have succeeded.
func (c *clock) read() (r reading) {
	load := func(at int) uint64 {
		w, err := c.page.Word64(at)
		if err != nil {
			return 0 // the page has room for all words
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

// time returns the time of a tick, the nearest one with that number.
func (r *reading) time(ticks uint64) int64 {
	if after := (ticks - r.cycles) & r.mask; after <= r.mask/2 {
		return int64(r.nsec + (after*r.mult+r.frac)>>r.shift)
	}
	before := (r.cycles - ticks) & r.mask
	return int64(r.nsec - (before*r.mult-r.frac)>>r.shift)
}

// ticks is the device's clock: two big-endian words in a page of its registers.
type ticks struct {
	mu        sync.Mutex
	high, low *atomic.Uint32 // nil: not mapped yet
}

// ticksKey is the page's offset in the device's file, in pages.
const ticksKey = abi.MLX5_IB_MMAP_CORE_CLOCK << 8

// Clock implements driver.ClockReader.
func (c *mlx5Context) Clock() (uint64, error) {
	if c.limits.CompMask&abi.MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_CORE_CLOCK_OFFSET == 0 {
		return 0, fmt.Errorf("%w: this kernel does not let programs read the device's clock", verbs.ErrNotSupported)
	}
	if err := c.ticks.open(c.device, c.limits.HcaCoreClockOffset); err != nil {
		return 0, err
	}
	return c.ticks.read(), nil
}

func (t *ticks) open(d driver.Device, offset uint64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.low != nil {
		return nil
	}
	size := d.PageSize()
	if offset > uint64(size)-8 {
		return fmt.Errorf("the kernel returned invalid offset %#x of the clock in its page", offset)
	}
	page, err := d.Map(ticksKey*int64(size), size, mmap.ProtRead)
	if err != nil {
		return err
	}
	high, err := page.Word(int(offset))
	if err != nil {
		return err
	}
	low, err := page.Word(int(offset) + 4)
	t.high, t.low = high, low
	return err
}

// read returns the clock. It makes sure that both words belong to the same time: the high
// one changes every 2^32 ticks.
func (t *ticks) read() uint64 {
	for high := t.high.Load(); ; {
		low, again := t.low.Load(), t.high.Load()
		if again == high {
			return uint64(be32(high))<<32 | uint64(be32(low))
		}
		high = again
	}
}
