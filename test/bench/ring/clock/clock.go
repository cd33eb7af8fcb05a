// Package clock reads the processor's clock. Unlike the time of day, it never needs a system call.
package clock

import "time"

// NsPerTick returns the duration of a tick. It measures for 0.1 s.
func NsPerTick() float64 {
	start, ticks := time.Now(), Ticks()
	time.Sleep(time.Second / 10)
	return float64(time.Since(start)) / float64(Ticks()-ticks)
}
