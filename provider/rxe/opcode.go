package rxe

import (
	"fmt"

	"github.com/goverbs/goverbs/verbs"
)

// opcode says what a work request of some opcode may be and have.
type opcode struct {
	types services
	has   parts
	needs verbs.DeviceCap // one of these tells that the kernel knows it; 0: all do
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
	withAH   // on UD QPs, whatever the opcode
	withRest // more SGEs than one, whatever the opcode

	// The opcode has no rules of its own for SGL, or for Inline.
	easySGL
	easyInline

	unusual = withImm | withInv | withAtomic | withBind | withFlush | withAH | withRest
)

// opcodes is what the kernel carries out. RDMA_READ_WITH_INV, and SEND_WITH_INV
// on UC, are in the kernel's table, but there is no packet for them: it would
// answer with an error and a QP in the error state.
var opcodes = [...]opcode{
	verbs.OpRDMAWrite:    {types: onRC | onUC, has: withSGL | withInline | withRemote},
	verbs.OpRDMAWriteImm: {types: onRC | onUC, has: withSGL | withInline | withRemote | withImm},
	verbs.OpSend:         {types: onRC | onUC | onUD, has: withSGL | withInline},
	verbs.OpSendImm:      {types: onRC | onUC | onUD, has: withSGL | withInline | withImm},
	verbs.OpSendWithInv:  {types: onRC, has: withSGL | withInline | withInv},
	verbs.OpRDMARead:     {types: onRC, has: withSGL | withRemote},
	verbs.OpCompareSwap:  {types: onRC, has: withSGL | withRemote | withAtomic},
	verbs.OpFetchAdd:     {types: onRC, has: withSGL | withRemote | withAtomic},
	verbs.OpLocalInv:     {types: onRC, has: withInv},
	verbs.OpBindMW:       {types: onRC | onUC, has: withBind},
	verbs.OpFlush: {types: onRC, has: withRemote | withFlush,
		needs: verbs.DeviceCapFlushGlobal | verbs.DeviceCapFlushPersistent},
	verbs.OpAtomicWrite: {types: onRC, has: withInline | withRemote, needs: verbs.DeviceCapAtomicWrite},
}

// Supports implements driver.Supporter.
func (c *rxeContext) Supports(t verbs.QPType, op verbs.Opcode) bool {
	return int64(op) < int64(len(opcodes)) && opcodes[op].isOn(t) && opcodes[op].isIn(c.caps)
}

// partsOf lists what a QP can be trusted with: the parts of each opcode, 0 for
// none. The kernel must never see any other: it takes the number for an index.
func partsOf(t verbs.QPType, caps verbs.DeviceCap) (all [len(opcodes)]parts) {
	for op := range all {
		if o := &opcodes[op]; o.isOn(t) && o.isIn(caps) {
			all[op] = o.has
			if o.has&(withSGL|withAtomic) == withSGL {
				all[op] |= easySGL
			}
			if o.has&(withSGL|withInline) == withSGL|withInline {
				all[op] |= easyInline
			}
			if t == verbs.QPTypeUD {
				all[op] |= withAH
			}
		}
	}
	return all
}

func (o *opcode) isOn(t verbs.QPType) bool { return o.types&service(t) != 0 }

func (o *opcode) isIn(caps verbs.DeviceCap) bool { return o.needs == 0 || o.needs&caps != 0 }

// refusal says why an opcode is none of the QP's.
func refusal(op verbs.Opcode, t verbs.QPType) error {
	if int64(op) < int64(len(opcodes)) && opcodes[op].isOn(t) {
		return fmt.Errorf("%w: this kernel's rxe has no %v", verbs.ErrNotSupported, op)
	}
	return fmt.Errorf("%w: rxe has no %v on %v QPs", verbs.ErrNotSupported, op, t)
}

func service(t verbs.QPType) services {
	switch t {
	case verbs.QPTypeRC:
		return onRC
	case verbs.QPTypeUC:
		return onUC
	case verbs.QPTypeUD:
		return onUD
	}
	return 0
}
