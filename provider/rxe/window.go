package rxe

import (
	"fmt"

	"github.com/goverbs/goverbs/uverbs/driver"
)

// followWindow tells of a binding, and of the end of one, before it is queued. It
// comes after all checks, for it changes what is known of the window.
//
// A window that is bound counts among the references to its QP, for which the
// kernel waits when it destroys the QP: 50 seconds, and then frees it all the same.
// One that is not has no QP, and the kernel that is told to end its binding looks
// for it nevertheless, at address 0 (rxe_do_invalidate_mw, Linux 6.1 to 7.2).
func (q *qp) followWindow(wr *driver.SendWR) error {
	switch {
	case wr.Opcode == driver.OpBindMW:
		return q.bind(wr.Bind, wr.Bind.MW.Type() == driver.MWType2)
	case wr.Opcode == driver.OpLocalInv && isWindow(wr.InvalidateRKey) && !q.unbind(wr.InvalidateRKey):
		return fmt.Errorf("%w: %#x is the key of no window of type 2 that is bound", driver.ErrInvalidWR, wr.InvalidateRKey)
	}
	return nil
}

// isWindow tells the keys of windows from those of regions, as rkey_is_mw does.
func isWindow(rkey uint32) bool { return rkey>>8 > maxMRIndex }

const maxMRIndex = 1 << 19 // RXE_MAX_MR_INDEX
