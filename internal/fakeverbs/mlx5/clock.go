package mlx5

import (
	"encoding/binary"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/mmap"
)

// The device's clock has 156.25 MHz and 41 bits. Its ticks are the time stamps of completions.
const (
	clockKHz  = 156250
	clockMask = 1<<41 - 1
	tickShift = 20
	tickMult  = 6_710_886 // a tick is 6.4 ns

	clockKey = 7 << 8 // offset in pages of the page for converting ticks to times
	ticksKey = 5 << 8 // offset in pages of the page with the clock itself
	ticksAt  = 0x78   // offset of the clock in its page
)

// clock is the device's clock, and the page that programs map.
type clock struct {
	offer   fakeverbs.Offer
	page    *mmap.Region
	updated uint64    // time of the last update of the page
	start   time.Time // time of the first reading
	ticks   struct {  // the page with the clock itself
		offer fakeverbs.Offer
		page  *mmap.Region
	}
}

func ticks(n uint64) uint64 {
	const ns, ticks = 32, 5 // as many of both
	return (n/ns*ticks + n%ns*ticks/ns) & clockMask
}

// Map maps the pages of the clock, read-only, or device memory. It maps nothing else, because queues are
// user memory.
func (m *model) Map(k *fakeverbs.Kernel, offset int64, length int) (*mmap.Region, error) {
	if offset == int64(ticksKey)*int64(m.k.PageSize()) && length == m.k.PageSize() && !m.options.NoTicks {
		return m.mapTicks(k, offset)
	}
	if dm, ok := m.dms[offset]; ok && length > 0 && length <= dm.region.Len() {
		return dm.offer.Mapped(length)
	}
	if offset != int64(clockKey)*int64(m.k.PageSize()) || length != m.k.PageSize() || m.options.NoClock {
		return nil, syscall.EINVAL
	}
	if m.clock.page == nil {
		var err error
		if m.clock.offer, m.clock.page, err = k.ShareMemory(offset, m.k.PageSize()); err != nil {
			return nil, syscall.ENOMEM
		}
		m.clock.update(m.clock.now())
	}
	return m.clock.offer.Mapped(m.k.PageSize())
}

// mapTicks maps the clock itself. The model can't see loads, so the clock advances at each call and store of
// the opening.
func (m *model) mapTicks(k *fakeverbs.Kernel, offset int64) (_ *mmap.Region, err error) {
	t := &m.clock.ticks
	if t.page == nil {
		if t.offer, t.page, err = k.ShareMemory(offset, m.k.PageSize()); err != nil {
			return nil, syscall.ENOMEM
		}
		k.Tick = func() { m.clock.show(ticks(m.clock.now())) }
		k.Tick()
	}
	return t.offer.Mapped(m.k.PageSize())
}

// show writes ticks to the clock's register, in big-endian order.
func (c *clock) show(ticks uint64) {
	w, _ := c.ticks.page.Word64(ticksAt)
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], ticks)
	w.Store(binary.NativeEndian.Uint64(b[:]))
}

// Close closes the pages when the file is closed.
func (m *model) Close() {
	m.k.Tick = nil
	for _, page := range []**mmap.Region{&m.clock.page, &m.clock.ticks.page} {
		if *page != nil {
			_ = (*page).Close()
			*page = nil
		}
	}
}

// update writes the time to the page, whose first word is odd meanwhile.
func (c *clock) update(now uint64) {
	sign, _ := c.page.Word(0)
	sign.Add(1)
	info := abi.Mlx5IbClockInfo{Nsec: now, Cycles: ticks(now), Mult: tickMult, Shift: tickShift, Mask: clockMask}
	for at := 8; at < len(abi.Bytes(&info)); at += 8 {
		w, _ := c.page.Word64(at)
		w.Store(binary.NativeEndian.Uint64(abi.Bytes(&info)[at:]))
	}
	sign.Add(1)
	c.updated = now
}

// now returns the time in nanoseconds. It uses only the monotonic clock, which takes half as long to read as
// both clocks.
func (c *clock) now() uint64 {
	if c.start.IsZero() {
		c.start = time.Now()
	}
	return uint64(c.start.UnixNano()) + uint64(time.Since(c.start))
}

// stamp returns the time stamp of a completion. From time to time it also updates the page, as the kernel
// does.
func (c *clock) stamp() uint64 {
	now := c.now()
	if c.page != nil && now-c.updated > uint64(time.Second) {
		c.update(now)
	}
	return ticks(now)
}
