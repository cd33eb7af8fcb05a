package ioctl

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
)

// ErrStaleNode means that the device number of a node is not that of the device with its
// name: the node belonged to a device that is gone.
var ErrStaleNode = errors.New("device node belongs to another device (stale node; recreate it from the kernel's device number)")

// Refusal is an errno that means "not supported", and the method or command that returned it.
type Refusal struct {
	Object, Method uint16
	Command        uint32 // set if the method is INVOKE_WRITE
	Err            error  // wraps a syscall.Errno
}

func (e *Refusal) Error() string { return fmt.Sprintf("%v (%s)", e.Err, e.missing()) }

// Unwrap returns the errno.
func (e *Refusal) Unwrap() error { return e.Err }

// missing returns the kernel's name of the method or command.
func (e *Refusal) missing() string {
	if e.Object != abi.UVERBS_OBJECT_DEVICE || e.Method != abi.UVERBS_METHOD_INVOKE_WRITE {
		object, method := uint32(e.Object), uint32(e.Method)
		return fmt.Sprintf("the kernel's object %s, method %s", named(abi.ObjectName(object), object), named(abi.MethodName(object, method), method))
	}
	return "the kernel's command " + commandName(e.Command)
}

func named(name string, number uint32) string {
	if name == "" {
		return fmt.Sprintf("%#x", number)
	}
	return name
}

// refusal turns an errno that means "not supported" into a Refusal, and returns all other
// errors unchanged, without an allocation.
func (r *Request) refusal(err error) error {
	if errno, ok := err.(syscall.Errno); !ok || !unsupported(errno) {
		return err
	}
	e := &Refusal{Object: r.hdr.ObjectId, Method: r.hdr.MethodId, Err: err}
	if i, ok := r.index(abi.UVERBS_ATTR_WRITE_CMD); ok {
		e.Command = uint32(r.attrs[i].Data)
	}
	return e
}

// Unsupported reports whether err is one of the errnos by which the RDMA stack says that it
// does not support an object, a method, a command or a feature.
func Unsupported(err error) bool {
	var errno syscall.Errno
	return errors.As(err, &errno) && unsupported(errno)
}

func unsupported(errno syscall.Errno) bool {
	switch errno {
	case syscall.EPROTONOSUPPORT, // no such ioctl object, method or mandatory attribute
		syscall.EOPNOTSUPP, // no such write command, or the driver does not support it
		syscall.ENOSYS,     // rdma_cm's GET_OPTION
		syscall.ENOTTY:     // not a uverbs device, or a kernel without the ioctl
		return true
	}
	return false
}
