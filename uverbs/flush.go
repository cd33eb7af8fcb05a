package uverbs

import "github.com/goverbs/goverbs/uverbs/driver"

// Flush is what OpFlush asks of the memory at RemoteAddr.
//
// C: the arguments of ibv_wr_flush
type Flush = driver.Flush

// FlushType is where data must have got to; the values combine with |.
//
// C: enum ibv_placement_type
type FlushType = driver.FlushType

// Documented at [driver.FlushType].
const (
	FlushGlobal     FlushType = driver.FlushGlobal
	FlushPersistent FlushType = driver.FlushPersistent
)

// FlushLevel says which memory is meant.
//
// C: enum ibv_selectivity_level
type FlushLevel = driver.FlushLevel

// Documented at [driver.FlushLevel].
const (
	FlushRange FlushLevel = driver.FlushRange
	FlushMR    FlushLevel = driver.FlushMR
)
