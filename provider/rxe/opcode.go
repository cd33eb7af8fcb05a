package rxe

import (
	"fmt"

	"github.com/goverbs/goverbs/verbs"
)

// opcode lists the QP types that an opcode can be posted to, and the fields that it uses.
type opcode struct {
	types services
	has   parts
	needs verbs.DeviceCap // the kernel supports it if the device has one of these; 0: all kernels do
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
	withAH   // on UD QPs, with every opcode
	withRest // more than one SGE, with every opcode

	// The opcode has no special rules for SGL, or for Inline.
	easySGL
	easyInline

	unusual = withImm | withInv | withAtomic | withBind | withFlush | withAH | withRest
)

// opcodes lists the opcodes that the kernel can carry out. RDMA_READ_WITH_INV, and
// SEND_WITH_INV on UC, are in the kernel's table, but have no packet format: the kernel
// would complete them with an error, and the QP would fail.
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

// partsOf returns the parts of each opcode, 0 for those that a QP of this type must not
// send. The kernel must never see another opcode: it uses the number as an index.
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

// refusal returns the error for an opcode that the QP does not support.
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
