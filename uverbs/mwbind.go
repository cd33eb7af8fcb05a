package uverbs

import (
	"fmt"
	"syscall"

	"github.com/goverbs/goverbs/verbs"
)

// IncRKey returns the key that follows key: the next tag in the low byte, the
// same index above.
//
// C: ibv_inc_rkey
func IncRKey(key uint32) uint32 { return key&^0xff | (key+1)&0xff }

// Bind posts the binding of a type 1 window to qp. Its key changes at once; the
// peer may use the new one when the work request has completed. b.MW and b.RKey
// are filled in.
//
// C: ibv_bind_mw
func (mw *MW) Bind(qp *QP, wrID uint64, flags verbs.SendFlags, b verbs.BindMW) error {
	if mw.typ != verbs.MWType1 {
		return mw.fail("bind", syscall.EINVAL, fmt.Sprintf("it is of %v: post OpBindMW", mw.typ))
	}
	return mw.alone("bind", func() error {
		b.MW, b.RKey = mw, IncRKey(mw.RKey())
		_, err := qp.PostSend([]verbs.SendWR{{WRID: wrID, Opcode: verbs.OpBindMW, Flags: flags, Bind: &b}})
		return err
	})
}
