package rxe

import (
	"fmt"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

// Bindings and invalidations are recorded before they are queued.
//
// A bound window holds a reference to its QP. When the kernel destroys the QP, it waits 50
// seconds for such references, and then frees the QP anyway. A window that is not bound has
// no QP; a kernel that invalidates it reads the QP nevertheless, at address 0
// (rxe_do_invalidate_mw, Linux 6.1 to 7.2).

// putBind fills in a BIND_MW. It makes the checks that only rxe needs; bind makes those
// that are the same for all drivers. Both use a copy, which the program can't change.
func (q *qp) putBind(e *abi.RxeSendWqe, asked *verbs.BindMW) error {
	if asked == nil {
		return errNoWindow
	}
	q.binding = *asked
	b := &q.binding
	switch {
	case b.MW == nil:
		return errNoWindow
	case b.MR == nil && b.Length > 0:
		return fmt.Errorf("%w: a window of %d bytes needs an MR", verbs.ErrInvalidWR, b.Length)
	}
	mw := abi.RxeSendWrMw{Addr: b.Addr, Length: b.Length, MwRkey: b.MW.RKey(), Rkey: b.RKey, Access: uint32(b.Access)}
	if b.MR != nil {
		mw.MrLkey = b.MR.LKey()
	}
	*arm[abi.RxeSendWrMw](&e.Wr) = mw
	err := q.bind(b, b.MW.Type() == verbs.MWType2)
	q.binding = verbs.BindMW{} // so that the QP does not keep the window and the region reachable
	return err
}

var errNoWindow = fmt.Errorf("%w: there is no window to bind", verbs.ErrInvalidWR)

// putInvalidate fills in the key to invalidate. For LOCAL_INV of a window it also records
// that the binding ends. The key of a SEND_WITH_INV is the peer's.
func (q *qp) putInvalidate(e *abi.RxeSendWqe, has parts, rkey uint32) error {
	e.Wr.Ex = rkey
	if has&withSGL == 0 && isWindow(rkey) && !q.unbind(rkey) {
		return fmt.Errorf("%w: %#x is the key of no window of type 2 that is bound", verbs.ErrInvalidWR, rkey)
	}
	return nil
}

// isWindow reports whether a key is a window's, as rkey_is_mw does.
func isWindow(rkey uint32) bool { return rkey>>8 > maxMRIndex }

const maxMRIndex = 1 << 19 // RXE_MAX_MR_INDEX
