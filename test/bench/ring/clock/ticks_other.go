//go:build !amd64 && !arm64

package clock

import "time"

var start = time.Now()

// Ticks returns the value of the clock.
func Ticks() int64 { return int64(time.Since(start)) }
