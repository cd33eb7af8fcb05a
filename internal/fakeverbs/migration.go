package fakeverbs

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
)

// Automatic path migration, IBA 17.2.8: a device on InfiniBand changes to the alternate path of a queue
// pair when the first one fails, and its peer follows.

// checkMigration refuses what a device refuses: only devices arm, and one without an alternate path
// can't prepare for it.
func (qp *QP) checkMigration(in *abi.IbUverbsModifyQp) error {
	if in.AttrMask&abi.IB_QP_PATH_MIG_STATE == 0 || !qp.k.Device.IsInfiniBand() {
		return nil
	}
	hasPath := qp.Attrs.AltPortNum != 0 || in.AttrMask&abi.IB_QP_ALT_PATH != 0
	if in.PathMigState > abi.IB_MIG_REARM || in.PathMigState == abi.IB_MIG_REARM && !hasPath {
		return syscall.EINVAL
	}
	return nil
}

// forcesMigration reports whether a modification makes an armed queue pair change its path.
func (qp *QP) forcesMigration(in *abi.IbUverbsModifyQp) bool {
	return in.AttrMask&abi.IB_QP_PATH_MIG_STATE != 0 && in.PathMigState == abi.IB_MIG_MIGRATED && qp.isArmed()
}

// isArmed reports whether the queue pair can migrate. On RoCE, where there are no alternate paths, programs may set
// the state as they like.
func (qp *QP) isArmed() bool {
	return qp.Attrs.PathMigState == abi.IB_MIG_ARMED && qp.Attrs.AltPortNum != 0
}

// switchPath changes to the alternate path. The lock is held.
func (qp *QP) switchPath() {
	a := &qp.Attrs
	a.Dest, a.PkeyIndex, a.Timeout = a.AltDest, a.AltPkeyIndex, a.AltTimeout
	a.AltDest, a.AltPortNum, a.PathMigState = abi.IbUverbsQpDest{}, 0, abi.IB_MIG_MIGRATED
}

// Migrate changes to the alternate path of an armed queue pair, and reports whether it was armed.
func (qp *QP) Migrate() (migrated bool) {
	qp.update(func() {
		if migrated = qp.isArmed(); migrated {
			qp.switchPath()
		}
	})
	if migrated {
		qp.Raise(abi.IB_EVENT_PATH_MIG)
	}
	return migrated
}

// Arm lets the device migrate from now on: the peer is prepared, too.
func (qp *QP) Arm() {
	qp.update(func() {
		if qp.Attrs.PathMigState == abi.IB_MIG_REARM {
			qp.Attrs.PathMigState = abi.IB_MIG_ARMED
		}
	})
}

func (qp *QP) update(f func()) {
	qp.k.enter()
	defer qp.k.leave()
	_ = qp.Shared(func() error { f(); return nil })
}
