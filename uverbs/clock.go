package uverbs

import (
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/verbs"
)

// QueryClock reads the device's clock, by which completions are stamped ([verbs.WCExtTimestamp]). It
// makes as many ticks in a millisecond as [verbs.DeviceAttr].HCACoreClock says, and wraps around in as
// many bits as [verbs.DeviceAttr].TimestampMask has: ticks between two readings are their difference
// and that mask. Only the first reading makes a system call.
//
// mlx5 devices have it; others are ErrNotSupported.
//
// C: ibv_query_rt_values_ex with IBV_VALUES_MASK_RAW_CLOCK
func (d *Device) QueryClock() (ticks uint64, err error) {
	err = d.using("query the clock of", func() error {
		p, ok := d.provider.(driver.ClockReader)
		if !ok {
			return d.fail("query the clock of", verbs.ErrNotSupported, "it has no clock that programs can read")
		}
		if ticks, err = p.Clock(); err != nil {
			return d.fail("query the clock of", err, "")
		}
		return nil
	})
	return ticks, err
}
