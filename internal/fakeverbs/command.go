package fakeverbs

import (
	"encoding/binary"
	"reflect"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
)

// Command carries out a command that came by write(2), as ib_uverbs_write does: a
// doorbell, or an arming. It allocates nothing.
func (k *Kernel) Command(wire []byte) error {
	k.mu.Lock()
	defer k.unlock()
	switch {
	case k.closed:
		return syscall.EBADF
	case k.isGone():
		return syscall.EIO
	case k.OtherCredentials:
		return syscall.EACCES
	case len(wire) < commandHeader:
		return syscall.EINVAL
	}
	c, ok := commands[u32(wire, 0)]
	if !ok || c.quick == nil || !k.has(c.name) {
		return syscall.EOPNOTSUPP
	}
	if err := c.checkWire(wire); err != nil {
		return err
	}
	if !k.context {
		return syscall.EINVAL
	}
	if err := k.fault(c.name); err != nil {
		return err
	}
	return c.quick(k, wire[commandHeader:])
}

// commandHeader is the size of struct ib_uverbs_cmd_hdr: the command, and the lengths of
// all that is written and of the answer, in words.
const commandHeader = 8

// checkWire is verify_hdr. It also wants the answer to go where a command has room for
// it: right behind itself.
func (c *command) checkWire(wire []byte) error {
	words := u32(wire, 4)
	switch written, answered := int(words&0xffff)*4, int(words>>16)*4; {
	case written != len(wire):
		return syscall.EINVAL
	case len(wire) < commandHeader+c.in, answered < c.out:
		return syscall.ENOSPC
	case c.out > 0 && u64(wire, commandHeader) != uint64(reflect.ValueOf(&wire[0]).Pointer())+uint64(len(wire)):
		return syscall.EFAULT
	}
	return nil
}

// quickPostSend reads struct ib_uverbs_post_send.
func (k *Kernel) quickPostSend(in []byte) error {
	return k.ringDoorbell(&abi.IbUverbsPostSend{QpHandle: u32(in, 8), WrCount: u32(in, 12), SgeCount: u32(in, 16), WqeSize: u32(in, 20)})
}

// quickNotifyCQ reads struct ib_uverbs_req_notify_cq.
func (k *Kernel) quickNotifyCQ(in []byte) error {
	return k.armCQ(&abi.IbUverbsReqNotifyCq{CqHandle: u32(in, 0), SolicitedOnly: u32(in, 4)})
}

func u64(b []byte, at int) uint64 { return binary.NativeEndian.Uint64(b[at:]) }
func u32(b []byte, at int) uint32 { return binary.NativeEndian.Uint32(b[at:]) }
