package fakeverbs

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// command is one of those that came before the ioctl interface.
type command struct {
	name    string
	in, out int
	run     func(*Kernel, *ioctl.Request) error
	quick   func(k *Kernel, in []byte) error // by write(2), of those that user space issues so
}

const extended = abi.IB_USER_VERBS_CMD_FLAG_EXTENDED

var commands = map[uint32]command{
	abi.IB_USER_VERBS_CMD_QUERY_DEVICE:                     {"QUERY_DEVICE_LEGACY", 8, 176, (*Kernel).queryDeviceLegacy, nil},
	abi.IB_USER_VERBS_CMD_ALLOC_PD:                         {"ALLOC_PD", 8, 4, (*Kernel).allocPD, nil},
	abi.IB_USER_VERBS_CMD_CREATE_AH:                        {"CREATE_AH", 56, 4, (*Kernel).createAH, nil},
	abi.IB_USER_VERBS_CMD_REREG_MR:                         {"REREG_MR", 48, 8, (*Kernel).reregMR, nil},
	abi.IB_USER_VERBS_CMD_ALLOC_MW:                         {"ALLOC_MW", 16, 8, (*Kernel).allocMW, nil},
	abi.IB_USER_VERBS_CMD_RESIZE_CQ:                        {"RESIZE_CQ", 16, 8, (*Kernel).resizeCQ, nil},
	abi.IB_USER_VERBS_CMD_REQ_NOTIFY_CQ:                    {"REQ_NOTIFY_CQ", 8, 0, (*Kernel).reqNotifyCQ, (*Kernel).quickNotifyCQ},
	abi.IB_USER_VERBS_CMD_ATTACH_MCAST:                     {"ATTACH_MCAST", 24, 0, (*Kernel).attachMcast, nil},
	abi.IB_USER_VERBS_CMD_DETACH_MCAST:                     {"DETACH_MCAST", 24, 0, (*Kernel).detachMcast, nil},
	abi.IB_USER_VERBS_CMD_REG_MR:                           {"REG_MR", 40, 12, (*Kernel).regMR, nil},
	abi.IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL:              {"CREATE_COMP_CHANNEL", 8, 4, (*Kernel).createCompChannel, nil},
	abi.IB_USER_VERBS_CMD_QUERY_QP:                         {"QUERY_QP", 16, 128, (*Kernel).queryQP, nil},
	abi.IB_USER_VERBS_CMD_MODIFY_QP:                        {"MODIFY_QP", 112, 0, (*Kernel).modifyQP, nil},
	abi.IB_USER_VERBS_CMD_POST_SEND:                        {"POST_SEND", 24, 4, (*Kernel).postSend, (*Kernel).quickPostSend},
	abi.IB_USER_VERBS_CMD_MODIFY_SRQ:                       {"MODIFY_SRQ", 16, 0, (*Kernel).modifySRQ, nil},
	abi.IB_USER_VERBS_CMD_QUERY_SRQ:                        {"QUERY_SRQ", 16, 16, (*Kernel).querySRQ, nil},
	abi.IB_USER_VERBS_CMD_OPEN_XRCD:                        {"OPEN_XRCD", 16, 4, (*Kernel).openXRCD, nil},
	abi.IB_USER_VERBS_CMD_OPEN_QP:                          {"OPEN_QP", 32, 32, (*Kernel).openQP, nil},
	abi.IB_USER_VERBS_EX_CMD_MODIFY_QP | extended:          {"EX_MODIFY_QP", 120, 8, (*Kernel).exModifyQP, nil},
	abi.IB_USER_VERBS_EX_CMD_MODIFY_WQ | extended:          {"MODIFY_WQ", 24, 0, (*Kernel).modifyWQ, nil},
	abi.IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL | extended: {"CREATE_RWQ_IND_TBL", 8, 16, (*Kernel).createIndTable, nil},
	abi.IB_USER_VERBS_EX_CMD_CREATE_FLOW | extended:        {"CREATE_FLOW", 24, 8, (*Kernel).createFlow, nil},
	abi.IB_USER_VERBS_EX_CMD_MODIFY_CQ | extended:          {"MODIFY_CQ", 16, 0, (*Kernel).modifyCQ, nil},
	abi.IB_USER_VERBS_EX_CMD_QUERY_DEVICE | extended:       {"QUERY_DEVICE", 8, 304, (*Kernel).queryDevice, nil},
}

func (k *Kernel) invokeWrite(r *ioctl.Request) error {
	id, _ := r.Command()
	c, ok := commands[id]
	if !ok || !k.has(c.name) {
		return syscall.EOPNOTSUPP
	}
	in, _ := r.Bytes(abi.UVERBS_ATTR_CORE_IN)
	out, _ := r.Bytes(abi.UVERBS_ATTR_CORE_OUT)
	if len(in) < c.in || len(out) < c.out {
		return syscall.ENOSPC
	}
	if !k.context {
		return syscall.EINVAL
	}
	return c.run(k, r)
}

// request reads a command's input.
func request[T any](r *ioctl.Request) (v T) {
	ioctl.Argument(r, abi.UVERBS_ATTR_CORE_IN, &v)
	return v
}

func respond[T any](r *ioctl.Request, v T) error { return Answer(r, abi.UVERBS_ATTR_CORE_OUT, v) }

// Answer writes an output, or returns EINVAL when there is no room for it.
func Answer[T any](r *ioctl.Request, id uint16, v T) error {
	if !ioctl.Answer(r, id, &v) {
		return syscall.EINVAL
	}
	return nil
}

// AnswerDriver writes a driver's answer, or returns EINVAL when there is no room for all of it.
func AnswerDriver[T any](r *ioctl.Request, v T) error { return Answer(r, abi.UVERBS_ATTR_UHW_OUT, v) }

// HasRoom reports whether a driver's answer of n bytes would fit.
func HasRoom(r *ioctl.Request, n int) bool {
	b, _ := r.Bytes(abi.UVERBS_ATTR_UHW_OUT)
	return len(b) >= n
}
