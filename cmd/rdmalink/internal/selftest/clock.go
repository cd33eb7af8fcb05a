package selftest

import (
	"errors"
	"fmt"
	"time"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// event arms a CQ, posts, and waits for the event.
func (p *pair) event(cq *uverbs.CQ, post func() error) error {
	if err := cq.Arm(false); err != nil {
		return err
	}
	if err := post(); err != nil {
		return err
	}
	got, err := cq.Channel().Get(p.ctx)
	if err == nil && got != cq {
		err = errors.New("the event is another CQ's")
	}
	return err
}

// stamped sends, and returns the completion's further fields. It calls before first, with the CQ armed.
func (p *pair) stamped(before func() error) (ext verbs.WCExt, err error) {
	cq := p.ends[0].qp.SendCQ()
	wr := p.write()
	wr.WRID, wr.Flags = p.id(), verbs.SendSignaled
	if err := p.event(cq, func() error { return errors.Join(before(), p.post(wr)) }); err != nil {
		return ext, err
	}
	wcs, exts := make([]verbs.WC, 2), make([]verbs.WCExt, 2)
	n, err := cq.PollExt(wcs, exts)
	switch {
	case err != nil:
		return ext, err
	case n != 1 || wcs[0].WRID != wr.WRID:
		return ext, fmt.Errorf("an event, and %d completions, of request %d and not %d", n, wcs[0].WRID, wr.WRID)
	}
	return exts[0], wcs[0].Err()
}

// stamps takes the time of completions by the device's clock, and compares it with the clock
// before and after.
func stamps(b *environment) (string, error) {
	if b.attr.TimestampMask == 0 {
		return "", none("the device has no clock for completions")
	}
	p, err := b.pairWith(pairOptions{typ: verbs.QPTypeRC, ext: verbs.WCExtTimestamp})
	if err != nil {
		return "", err
	}
	last, err := b.dev.QueryClock()
	readable := err == nil
	if err != nil && !errors.Is(err, verbs.ErrNotSupported) {
		return "", err
	}
	ahead := func(from, to uint64) bool { return (to-from)&b.attr.TimestampMask <= b.attr.TimestampMask/2 }
	const times = 20
	for i := range times {
		now := last
		ext, err := p.stamped(func() (err error) {
			if readable {
				now, err = b.dev.QueryClock()
			}
			return err
		})
		switch {
		case err != nil:
			return "", err
		case !ahead(last, now):
			return "", fmt.Errorf("completion %d is of tick %d, and the clock was at %d after it", i-1, last, now)
		case (i > 0 || readable) && !ahead(now, ext.Timestamp):
			return "", fmt.Errorf("completion %d is of tick %d, and the clock was at %d before it", i, ext.Timestamp, now)
		}
		last = ext.Timestamp
	}
	if !readable {
		return fmt.Sprintf("%d completions, by a clock that programs can't read", times), nil
	}
	return fmt.Sprintf("%d completions, by a clock of %d kHz", times, b.attr.HCACoreClock), nil
}

// wallClock takes the times of completions by both clocks, and compares how far they move.
func wallClock(b *environment) (string, error) {
	if b.attr.TimestampMask == 0 || b.attr.HCACoreClock == 0 {
		return "", none("the device has no clock for completions, or its speed is unknown")
	}
	p, err := b.pairWith(pairOptions{typ: verbs.QPTypeRC, ext: verbs.WCExtTimestamp | verbs.WCExtWallClock})
	if err != nil {
		return "", err
	}
	nothing := func() error { return nil }
	first, err := p.stamped(nothing)
	if err != nil {
		return "", err
	}
	time.Sleep(20 * time.Millisecond) // the measured wait
	second, err := p.stamped(nothing)
	if err != nil {
		return "", err
	}
	ticks := (second.Timestamp - first.Timestamp) & b.attr.TimestampMask
	byTicks := time.Duration(float64(ticks) / float64(b.attr.HCACoreClock) * float64(time.Millisecond))
	byWall := time.Duration(second.WallClock - first.WallClock)
	off := time.Since(time.Unix(0, second.WallClock)).Round(time.Millisecond)
	if d := (byWall - byTicks).Abs(); d > byTicks/10 || byTicks < 19*time.Millisecond {
		return "", fmt.Errorf("between two completions %v passed by the host's clock, and %v by the device's (%d ticks)", byWall, byTicks, ticks)
	}
	return fmt.Sprintf("%v by the host's clock, %v by the device's; it is %v behind this process's", byWall, byTicks, off), nil
}

// moderated delays events until there are several completions, or a time has passed. One
// completion alone waits for the time, and many do not.
func moderated(b *environment) (string, error) {
	if b.attr.CQModerationMaxCount == 0 || b.attr.CQModerationMaxPeriod == 0 {
		return "", none("the device has no moderation")
	}
	p, err := b.pair(verbs.QPTypeRC)
	if err != nil {
		return "", err
	}
	const count, times = 16, 8
	period := time.Duration(min(b.attr.CQModerationMaxPeriod, 4000)) * time.Microsecond
	cq := p.ends[0].qp.SendCQ()
	if err := cq.Moderate(count, period); err != nil {
		return "", err
	}
	alone, err := p.sendEvents(cq, times, 1)
	if err != nil {
		return "", err
	}
	// The device may count the time from the event before, which this process saw late.
	if least := period * (times - 1) / 2; alone < least {
		return "", fmt.Errorf("%d events of one completion each took %v, with moderation of %v", times, alone, period)
	}
	full, err := p.sendEvents(cq, times, count)
	if err != nil {
		return "", err
	}
	if err := cq.Moderate(0, 0); err != nil {
		return "", err
	}
	off, err := p.sendEvents(cq, times, 1)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d events of 1 completion took %v, of %d completions %v, without moderation of %v %v", times, alone.Round(time.Microsecond), count,
		full.Round(time.Microsecond), period, off.Round(time.Microsecond)), nil
}

// sendEvents causes events of so many completions each, and returns the time of all.
func (p *pair) sendEvents(cq *uverbs.CQ, events, completions int) (time.Duration, error) {
	start := time.Now()
	for range events {
		err := p.event(cq, func() error {
			wrs := make([]verbs.SendWR, completions)
			for i := range wrs {
				wrs[i] = p.write()
				wrs[i].WRID, wrs[i].Flags = p.id(), verbs.SendSignaled
			}
			return p.post(wrs...)
		})
		if err != nil {
			return 0, err
		}
		if _, err := p.wait(cq, completions); err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}
