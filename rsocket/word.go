package rsocket

import "fmt"

// word is what a message tells the peer: an op in the three upper bits and a value
// in the others. On InfiniBand and RoCE it is the immediate data of an RDMA WRITE; on
// iWARP it is a SEND of four bytes.
type word uint32

type op uint8

// The ops. Those that are missing are reserved.
const (
	opData    op = 0 // so many bytes were written where the last offer says
	opSGL     op = 4 // the new credit limit, and maybe an offer before it
	opIOMap   op = 6 // an entry in the table of mappings
	opControl op = 7
)

// The values of opControl.
const (
	ctrlDisconnect uint32 = 0
	ctrlKeepAlive  uint32 = 1
	ctrlShutdown   uint32 = 2
)

const (
	opShift   = 29
	valueMask = 1<<opShift - 1
)

func newWord(o op, value uint32) word { return word(uint32(o)<<opShift | value&valueMask) }

func (w word) op() op        { return op(w >> opShift) }
func (w word) value() uint32 { return uint32(w) & valueMask }

func (w word) String() string { return fmt.Sprintf("op %d, value %d", w.op(), w.value()) }
