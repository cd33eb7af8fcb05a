package rdmacm

import (
	"encoding/binary"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
)

// newCommand explains the answer of a kernel to a command that it does not know.
const newCommand = "the ID is in the wrong state, or the kernel is too old: Linux 6.12 does not have this yet"

// WriteEvent has the ID's channel report an event of the caller's own, EventUser with Arg
// and, unless cause is 0, Err. So it wakes a goroutine, or another process with the same
// channel, that waits in Get. The ID may be in any state.
//
// C: rdma_write_cm_event
func (id *ID) WriteEvent(cause syscall.Errno, arg uint64) error {
	err := command(id, abi.RDMA_USER_CM_CMD_WRITE_CM_EVENT, func(b *abi.RdmaUcmWriteCmEvent) {
		b.Id, b.Event, b.Status = id.handle, uint32(EventUser), uint32(-int32(cause))
		binary.NativeEndian.PutUint64(b.Param[:], arg)
	})
	return hinted("write an event of", id, err, map[syscall.Errno]string{syscall.EINVAL: newCommand})
}
