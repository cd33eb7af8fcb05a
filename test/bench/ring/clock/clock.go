// Package clock reads the processor's own clock, which is no system call where
// the time of day is one.
package clock

import "time"

// NsPerTick measures for a tenth of a second how long a tick is.
func NsPerTick() float64 {
	start, ticks := time.Now(), Ticks()
	time.Sleep(time.Second / 10)
	return float64(time.Since(start)) / float64(Ticks()-ticks)
}
