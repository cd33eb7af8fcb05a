package rxe

import (
	"fmt"

	"github.com/goverbs/goverbs/uverbs"
)

// opcode says what a work request of some opcode may be and have.
type opcode struct {
	types services
	has   parts
	needs uverbs.DeviceCap // one of these tells that the kernel knows it; 0: all do
}

type services uint8

const (
	onRC services = 1 << iota
	onUC
	onUD
)

type parts uint16

const (
	withSGL    parts = 1 << iota // data named by SGL
	withInline                   // or in Inline
	withRemote                   // RemoteAddr and RKey
	withImm
	withInv    // InvalidateRKey
	withAtomic // CompareAdd and Swap
	withBind
	withFlush
	withAH // on UD QPs, whatever the opcode

	unusual = withImm | withInv | withAtomic | withBind | withFlush | withAH
)

// opcodes is what the kernel carries out. RDMA_READ_WITH_INV, and SEND_WITH_INV
// on UC, are in the kernel's table, but there is no packet for them: it would
// answer with an error and a QP in the error state.
var opcodes = [...]opcode{
	uverbs.OpRDMAWrite:    {types: onRC | onUC, has: withSGL | withInline | withRemote},
	uverbs.OpRDMAWriteImm: {types: onRC | onUC, has: withSGL | withInline | withRemote | withImm},
	uverbs.OpSend:         {types: onRC | onUC | onUD, has: withSGL | withInline},
	uverbs.OpSendImm:      {types: onRC | onUC | onUD, has: withSGL | withInline | withImm},
	uverbs.OpSendWithInv:  {types: onRC, has: withSGL | withInline | withInv},
	uverbs.OpRDMARead:     {types: onRC, has: withSGL | withRemote},
	uverbs.OpCompareSwap:  {types: onRC, has: withSGL | withRemote | withAtomic},
	uverbs.OpFetchAdd:     {types: onRC, has: withSGL | withRemote | withAtomic},
	uverbs.OpLocalInv:     {types: onRC, has: withInv},
	uverbs.OpBindMW:       {types: onRC | onUC, has: withBind},
	uverbs.OpFlush: {types: onRC, has: withRemote | withFlush,
		needs: uverbs.DeviceCapFlushGlobal | uverbs.DeviceCapFlushPersistent},
	uverbs.OpAtomicWrite: {types: onRC, has: withInline | withRemote, needs: uverbs.DeviceCapAtomicWrite},
}

// partsOf lists what a QP can be trusted with: the parts of each opcode, 0 for
// none. The kernel must never see any other: it takes the number for an index.
func partsOf(t uverbs.QPType, caps uverbs.DeviceCap) (all [len(opcodes)]parts) {
	for op := range all {
		if o := &opcodes[op]; o.isOn(t) && o.isIn(caps) {
			all[op] = o.has
			if t == uverbs.QPTypeUD {
				all[op] |= withAH
			}
		}
	}
	return all
}

func (o *opcode) isOn(t uverbs.QPType) bool { return o.types&service(t) != 0 }

func (o *opcode) isIn(caps uverbs.DeviceCap) bool { return o.needs == 0 || o.needs&caps != 0 }

// refusal says why an opcode is none of the QP's.
func refusal(op uverbs.Opcode, t uverbs.QPType) error {
	if int64(op) < int64(len(opcodes)) && opcodes[op].isOn(t) {
		return fmt.Errorf("%w: this kernel's rxe has no %v", uverbs.ErrNotSupported, op)
	}
	return fmt.Errorf("%w: rxe has no %v on %v QPs", uverbs.ErrNotSupported, op, t)
}

func service(t uverbs.QPType) services {
	switch t {
	case uverbs.QPTypeRC:
		return onRC
	case uverbs.QPTypeUC:
		return onUC
	case uverbs.QPTypeUD:
		return onUD
	}
	return 0
}
