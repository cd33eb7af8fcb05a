package ioctl

import "github.com/goverbs/goverbs/internal/abi"

// Write begins a call of a command from before the ioctl interface, carried by
// the device object's INVOKE_WRITE method: the only way, without write(2), to
// the commands that never got a method of their own. The kernel then ignores
// the response address that many command structs begin with.
//
// C: execute_write_bufs
func Write[T any](driver, command uint32, in *T) *Request {
	r := New(driver, abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_INVOKE_WRITE)
	r.Const(abi.UVERBS_ATTR_WRITE_CMD, uint64(command))
	In(r, abi.UVERBS_ATTR_CORE_IN, in)
	return r
}

// WriteBytes is Write for a command whose input ends with an array.
func WriteBytes(driver, command uint32, in []byte) *Request {
	r := New(driver, abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_INVOKE_WRITE)
	r.Const(abi.UVERBS_ATTR_WRITE_CMD, uint64(command))
	r.InBytes(abi.UVERBS_ATTR_CORE_IN, in)
	return r
}

// Extended marks a command id as one of the extended commands.
func Extended(command uint32) uint32 {
	return command | abi.IB_USER_VERBS_CMD_FLAG_EXTENDED
}
