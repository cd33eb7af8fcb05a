package qpstate

import (
	"testing"
	"time"
)

// TestTimers checks that durations are rounded up to those that queue pairs have, and refused beyond them.
func TestTimers(t *testing.T) {
	for _, c := range []struct {
		name   string
		encode func(time.Duration) (uint8, bool)
		decode func(uint8) time.Duration
		want   map[time.Duration]uint8
		refuse []time.Duration
	}{
		{"acknowledgement timeout", AckTimeoutCode, AckTimeout, map[time.Duration]uint8{0: 0, 1: 1, ackUnit: 1, 2 * ackUnit: 1,
			2*ackUnit + 1: 2, 4 * ackUnit: 2, 4*ackUnit + 1: 3, time.Second: 18, ackUnit<<30 + 1: 31, MaxAckTimeout: 31},
			[]time.Duration{-1, MaxAckTimeout + 1}},
		{"RNR timer", RNRTimerCode, RNRTimer, map[time.Duration]uint8{0: 1, 1: 1, 10 * time.Microsecond: 1, 10*time.Microsecond + 1: 2,
			640 * time.Microsecond: 12, 491520 * time.Microsecond: 31, 491520*time.Microsecond + 1: 0, MaxRNRTimer: 0},
			[]time.Duration{-1, MaxRNRTimer + 1}},
	} {
		for d, want := range c.want {
			if got, ok := c.encode(d); got != want || !ok {
				t.Errorf("%s of %v: %d, %v, want %d", c.name, d, got, ok, want)
			}
		}
		for _, d := range c.refuse {
			if code, ok := c.encode(d); ok {
				t.Errorf("%s of %v: %d", c.name, d, code)
			}
		}
		for code := range uint8(32) {
			if got, ok := c.encode(c.decode(code)); got != code || !ok {
				t.Errorf("%s %d is %v, which is %d", c.name, code, c.decode(code), got)
			}
		}
	}
}
