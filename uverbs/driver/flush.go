package driver

// Flush is what OpFlush asks of the memory at RemoteAddr: that what was written
// there before be visible, or durable, when the request completes.
//
// C: the arguments of ibv_wr_flush
type Flush struct {
	Length uint32 // bytes from RemoteAddr on; ignored with FlushMR
	Type   FlushType
	Level  FlushLevel
}

// FlushType is where data must have got to; the values combine with |.
//
// C: enum ibv_placement_type
type FlushType uint8

// The MR and the QP must allow each with the Access of the same name.
const (
	FlushGlobal     FlushType = 1 << 0 // every reader sees it
	FlushPersistent FlushType = 1 << 1 // it survives a loss of power
)

// FlushLevel says which memory is meant.
//
// C: enum ibv_selectivity_level
type FlushLevel uint8

// Either the range that the work request names, or the whole region of its RKey.
const (
	FlushRange FlushLevel = 0
	FlushMR    FlushLevel = 1
)
