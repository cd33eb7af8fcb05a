package mlx5

import (
	"encoding/binary"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/mmap"
)

// The device's clock, of whose ticks completions are stamped: 156.25 MHz, in 41 bits.
const (
	clockKHz  = 156250
	clockMask = 1<<41 - 1
	tickShift = 20
	tickMult  = 6_710_886 // of 6.4 ns

	clockKey = 7 << 8 // of the page by which ticks become times, in pages
	ticksKey = 5 << 8 // of the page that has the clock itself
	ticksAt  = 0x78   // and where in it
)

// clock is the device's clock, and the page of it that programs map.
type clock struct {
	offer   fakeverbs.Offer
	page    *mmap.Region
	updated uint64    // when the page was brought up to date
	start   time.Time // when the clock was first asked
	ticks   struct {  // the page of the clock itself
		offer fakeverbs.Offer
		page  *mmap.Region
	}
}

func ticks(n uint64) uint64 {
	const ns, ticks = 32, 5 // as many of both
	return (n/ns*ticks + n%ns*ticks/ns) & clockMask
}

// Map maps the pages of the clock, read-only, or memory of the device's, and nothing else:
// queues are user memory.
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

// mapTicks maps the clock itself. A load can't be seen, so the clock moves when the opening
// hears of something: a call, a store.
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

// show has the clock's register be so many ticks, in big-endian.
func (c *clock) show(ticks uint64) {
	w, _ := c.ticks.page.Word64(ticksAt)
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], ticks)
	w.Store(binary.NativeEndian.Uint64(b[:]))
}

// Close ends the pages, with the file.
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

// now is the time in nanoseconds, by the monotonic clock, which takes half as long to ask
// as both clocks.
func (c *clock) now() uint64 {
	if c.start.IsZero() {
		c.start = time.Now()
	}
	return uint64(c.start.UnixNano()) + uint64(time.Since(c.start))
}

// stamp is the time of a completion. The kernel brings its page up to date now and then.
func (c *clock) stamp() uint64 {
	now := c.now()
	if c.page != nil && now-c.updated > uint64(time.Second) {
		c.update(now)
	}
	return ticks(now)
}
