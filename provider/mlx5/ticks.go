package mlx5

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

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
	size := os.Getpagesize()
	if offset > uint64(size)-8 {
		return fmt.Errorf("mlx5: the kernel tells of a clock at %#x of a page, which can't be", offset)
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
