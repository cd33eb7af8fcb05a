package qpstate

import (
	"math/bits"
	"time"
)

// The acknowledgement timeouts of queue pairs are ackUnit times 2 to a power of 1 to 31. A power of 0
// stands for no timeout.
const (
	ackUnit       = 4096 * time.Nanosecond
	MaxAckTimeout = ackUnit << 31
)

// AckTimeout decodes an acknowledgement timeout, and returns 0 for none.
func AckTimeout(code uint8) time.Duration {
	if code &= 31; code != 0 {
		return ackUnit << code
	}
	return 0
}

// AckTimeoutCode encodes the shortest timeout that is at least d, and 0 as none. ok is false if there
// is no such timeout.
func AckTimeoutCode(d time.Duration) (code uint8, ok bool) {
	switch {
	case d < 0 || d > MaxAckTimeout:
		return 0, false
	case d == 0:
		return 0, true
	}
	return uint8(max(bits.Len64(uint64((d-1)/ackUnit)), 1)), true
}

// rnrTimers are table 45 of the InfiniBand specification.
var rnrTimers = func() (timers [32]time.Duration) {
	for i, hundredths := range [...]time.Duration{65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024,
		1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152} {
		timers[i] = hundredths * time.Millisecond / 100
	}
	return timers
}()

// MaxRNRTimer is the longest RNR timer.
const MaxRNRTimer = 655360 * time.Microsecond

// RNRTimer decodes an RNR timer.
func RNRTimer(code uint8) time.Duration { return rnrTimers[code&31] }

// RNRTimerCode encodes the shortest timer that is at least d. ok is false if d is negative or there is
// no such timer.
func RNRTimerCode(d time.Duration) (code uint8, ok bool) {
	for i, timer := range rnrTimers[1:] {
		if d <= timer {
			return uint8(i + 1), d >= 0
		}
	}
	return 0, d <= MaxRNRTimer
}
