package rxe

import (
	"fmt"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

// A binding, and the end of one, is told before it is queued.
//
// A window that is bound counts among the references to its QP, for which the
// kernel waits when it destroys the QP: 50 seconds, and then frees it all the same.
// One that is not has no QP, and the kernel that is told to end its binding looks
// for it nevertheless, at address 0 (rxe_do_invalidate_mw, Linux 6.1 to 7.2).

// putBind checks what only rxe asks for, and leaves to bind what is the same for all
// drivers. Both see a copy, which the program that posts can't change.
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
	q.binding = verbs.BindMW{} // it would keep the window and the region reachable
	return err
}

var errNoWindow = fmt.Errorf("%w: there is no window to bind", verbs.ErrInvalidWR)

// putInvalidate tells of the end of an own window, by LOCAL_INV, which sends nothing.
// What SEND_WITH_INV ends is the peer's.
func (q *qp) putInvalidate(e *abi.RxeSendWqe, has parts, rkey uint32) error {
	e.Wr.Ex = rkey
	if has&withSGL == 0 && isWindow(rkey) && !q.unbind(rkey) {
		return fmt.Errorf("%w: %#x is the key of no window of type 2 that is bound", verbs.ErrInvalidWR, rkey)
	}
	return nil
}

// isWindow tells the keys of windows from those of regions, as rkey_is_mw does.
func isWindow(rkey uint32) bool { return rkey>>8 > maxMRIndex }

const maxMRIndex = 1 << 19 // RXE_MAX_MR_INDEX
