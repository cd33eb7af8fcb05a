//go:build !linux

package driver

import "time"

func sleep(d time.Duration) { time.Sleep(d) }
