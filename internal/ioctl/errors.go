package ioctl

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
)

// ErrStaleNode means that a device node has another number than the device it
// is named after: it was left behind by one that is gone.
var ErrStaleNode = errors.New("device node belongs to another device (stale node; recreate it from the kernel's device number)")

// Refusal is an errno that means "not supported", with the method or command that gave it.
type Refusal struct {
	Object, Method uint16
	Command        uint32 // of the method INVOKE_WRITE
	Err            error  // errors.As finds a syscall.Errno
}

func (e *Refusal) Error() string { return fmt.Sprintf("%v (%s)", e.Err, e.what()) }

// Unwrap gives errors.Is the errno.
func (e *Refusal) Unwrap() error { return e.Err }

// what is how the kernel calls what it lacks.
func (e *Refusal) what() string {
	if e.Object != abi.UVERBS_OBJECT_DEVICE || e.Method != abi.UVERBS_METHOD_INVOKE_WRITE {
		object, method := uint32(e.Object), uint32(e.Method)
		return fmt.Sprintf("the kernel's object %s, method %s", named(objectName(object), object), named(methodName(object, method), method))
	}
	name := writeName(e.Command)
	if n := e.Command &^ abi.IB_USER_VERBS_CMD_FLAG_EXTENDED; n != e.Command {
		name = exName(n)
	}
	return "the kernel's command " + named(name, e.Command)
}

func named(name string, number uint32) string {
	if name == "" {
		return fmt.Sprintf("%#x", number)
	}
	return name
}

// refusal adds to an errno what a request asked for.
func (r *Request) refusal(err error) error {
	if errno, ok := err.(syscall.Errno); !ok || !unsupported(errno) { // allocates nothing for most
		return err
	}
	e := &Refusal{Object: r.hdr.ObjectId, Method: r.hdr.MethodId, Err: err}
	if i, ok := r.index(abi.UVERBS_ATTR_WRITE_CMD); ok {
		e.Command = uint32(r.attrs[i].Data)
	}
	return e
}

// Unsupported reports whether err is one of the several errnos by which the RDMA
// stack says that an object, a method, a command or a feature is not there.
func Unsupported(err error) bool {
	var errno syscall.Errno
	return errors.As(err, &errno) && unsupported(errno)
}

func unsupported(errno syscall.Errno) bool {
	switch errno {
	case syscall.EPROTONOSUPPORT, // no such ioctl object, method or mandatory attribute
		syscall.EOPNOTSUPP, // no such write command, or the driver says no
		syscall.ENOSYS,     // rdma_cm's GET_OPTION
		syscall.ENOTTY:     // not a uverbs device, or a kernel without the ioctl
		return true
	}
	return false
}
