package uverbs

import "github.com/goverbs/goverbs/uverbs/driver"

// SGE names a piece of registered memory.
//
// C: struct ibv_sge
type SGE = driver.SGE

// BadLength is the Length of an SGE that [MR.SGE] could not make as asked. It is
// documented at [driver.BadLength].
const BadLength = driver.BadLength

// SendWR is a work request for the send queue.
//
// C: struct ibv_send_wr
type SendWR = driver.SendWR

// RecvWR is a work request for a receive queue.
//
// C: struct ibv_recv_wr
type RecvWR = driver.RecvWR

// SendFlags refine a send work request; the values combine with |.
//
// C: enum ibv_send_flags
type SendFlags = driver.SendFlags

// Documented at [driver.SendFlags].
const (
	SendFence     SendFlags = driver.SendFence
	SendSignaled  SendFlags = driver.SendSignaled
	SendSolicited SendFlags = driver.SendSolicited
	SendIPCsum    SendFlags = driver.SendIPCsum
)
