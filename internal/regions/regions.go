// Package regions counts the regions of package mmap, for tests of leaks.
package regions

import "sync/atomic"

var live atomic.Int64

// Add adds n to the number of regions that are not closed.
func Add(n int64) { live.Add(n) }

// Live returns the number of regions that are not closed.
func Live() int { return int(live.Load()) }
