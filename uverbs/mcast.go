package uverbs

import (
	"errors"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

// AttachMcast has a UD QP receive what is sent to a multicast group. lid is the
// group's LID, 0 on RoCE.
//
// C: ibv_attach_mcast
func (qp *QP) AttachMcast(gid verbs.GID, lid uint16) error {
	return qp.using("attach to a multicast group", func() error {
		in := &abi.IbUverbsAttachMcast{Gid: gid, QpHandle: qp.handle, Mlid: lid}
		r := writeCommand(qp.dev, abi.IB_USER_VERBS_CMD_ATTACH_MCAST, in)
		defer r.Free()
		if err := r.Do(qp.dev.file); err != nil {
			return qp.fail("attach to multicast group "+gid.String(), err, qp.mcastHint(err, gid))
		}
		return nil
	})
}

// DetachMcast ends what AttachMcast began; the QP can't be closed before.
//
// C: ibv_detach_mcast
func (qp *QP) DetachMcast(gid verbs.GID, lid uint16) error {
	return qp.using("detach from a multicast group", func() error {
		in := &abi.IbUverbsDetachMcast{Gid: gid, QpHandle: qp.handle, Mlid: lid}
		r := writeCommand(qp.dev, abi.IB_USER_VERBS_CMD_DETACH_MCAST, in)
		defer r.Free()
		if err := r.Do(qp.dev.file); err != nil {
			return qp.fail("detach from multicast group "+gid.String(), err, "")
		}
		return nil
	})
}

func (qp *QP) mcastHint(err error, gid verbs.GID) string {
	switch {
	case !errors.Is(err, syscall.EINVAL):
		return ""
	case qp.typ != verbs.QPTypeUD:
		return "only UD QPs take part in multicast"
	case !gid.IsMulticast():
		return "a multicast GID begins with ff, or stands for an IPv4 group (GIDFromAddr)"
	}
	return ""
}
