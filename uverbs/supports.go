package uverbs

import (
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/verbs"
)

// Supports tells whether a QP of type t on this device takes send work requests of
// opcode op, without a system call: siw takes no immediate data, for instance. PostSend
// refuses what it does not take with an error that matches ErrNotSupported. The answer
// is the provider's, so it is false of all when there is none
// ([DeviceInfo.Provider] says why) or when it does not know.
//
// A device may support an opcode and still refuse some requests of it: of OpFlush,
// [verbs.DeviceCap] tells which types there are.
func (d *Device) Supports(t verbs.QPType, op verbs.Opcode) bool {
	p, ok := d.provider.(driver.Supporter)
	return ok && p.Supports(t, op)
}
