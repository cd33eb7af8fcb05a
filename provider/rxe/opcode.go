package rxe

import (
	"fmt"

	"github.com/goverbs/goverbs/uverbs/driver"
)

// opcode says what a work request of some opcode may be and have.
type opcode struct {
	types services
	has   parts
	needs driver.DeviceCap // one of these tells that the kernel knows it; 0: all do
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
	driver.OpRDMAWrite:    {types: onRC | onUC, has: withSGL | withInline | withRemote},
	driver.OpRDMAWriteImm: {types: onRC | onUC, has: withSGL | withInline | withRemote | withImm},
	driver.OpSend:         {types: onRC | onUC | onUD, has: withSGL | withInline},
	driver.OpSendImm:      {types: onRC | onUC | onUD, has: withSGL | withInline | withImm},
	driver.OpSendWithInv:  {types: onRC, has: withSGL | withInline | withInv},
	driver.OpRDMARead:     {types: onRC, has: withSGL | withRemote},
	driver.OpCompareSwap:  {types: onRC, has: withSGL | withRemote | withAtomic},
	driver.OpFetchAdd:     {types: onRC, has: withSGL | withRemote | withAtomic},
	driver.OpLocalInv:     {types: onRC, has: withInv},
	driver.OpBindMW:       {types: onRC | onUC, has: withBind},
	driver.OpFlush: {types: onRC, has: withRemote | withFlush,
		needs: driver.DeviceCapFlushGlobal | driver.DeviceCapFlushPersistent},
	driver.OpAtomicWrite: {types: onRC, has: withInline | withRemote, needs: driver.DeviceCapAtomicWrite},
}

// Supports implements driver.Supporter.
func (c *rxeContext) Supports(t driver.QPType, op driver.Opcode) bool {
	return int64(op) < int64(len(opcodes)) && opcodes[op].isOn(t) && opcodes[op].isIn(c.caps)
}

// partsOf lists what a QP can be trusted with: the parts of each opcode, 0 for
// none. The kernel must never see any other: it takes the number for an index.
func partsOf(t driver.QPType, caps driver.DeviceCap) (all [len(opcodes)]parts) {
	for op := range all {
		if o := &opcodes[op]; o.isOn(t) && o.isIn(caps) {
			all[op] = o.has
			if o.has&(withSGL|withAtomic) == withSGL {
				all[op] |= easySGL
			}
			if o.has&(withSGL|withInline) == withSGL|withInline {
				all[op] |= easyInline
			}
			if t == driver.QPTypeUD {
				all[op] |= withAH
			}
		}
	}
	return all
}

func (o *opcode) isOn(t driver.QPType) bool { return o.types&service(t) != 0 }

func (o *opcode) isIn(caps driver.DeviceCap) bool { return o.needs == 0 || o.needs&caps != 0 }

// refusal says why an opcode is none of the QP's.
func refusal(op driver.Opcode, t driver.QPType) error {
	if int64(op) < int64(len(opcodes)) && opcodes[op].isOn(t) {
		return fmt.Errorf("%w: this kernel's rxe has no %v", driver.ErrNotSupported, op)
	}
	return fmt.Errorf("%w: rxe has no %v on %v QPs", driver.ErrNotSupported, op, t)
}

func service(t driver.QPType) services {
	switch t {
	case driver.QPTypeRC:
		return onRC
	case driver.QPTypeUC:
		return onUC
	case driver.QPTypeUD:
		return onUD
	}
	return 0
}
