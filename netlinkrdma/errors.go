package netlinkrdma

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/goverbs/goverbs/verbs"
)

// Errors to compare with errors.Is. They are the causes of errors of type *verbs.Error. If the kernel answered with an
// errno, the error matches that errno too. The errors that say "not supported" match [errors.ErrUnsupported].
var (
	// ErrNotFound means that there is no such device. It is verbs.ErrNoDevice.
	ErrNotFound = verbs.ErrNoDevice
	// ErrNoObject means that the device has no such object.
	ErrNoObject = errors.New("no such object")
	// ErrNoProcess means that a kernel module created the object, or that the thread that
	// created it has ended or belongs to another PID namespace.
	ErrNoProcess = errors.New("process not known")
	// ErrNoRaw means that the driver or the kernel does not support raw data of this kind
	// of object, or that there is no such device.
	ErrNoRaw error = notSupported("the driver does not report raw data of its objects")
	// ErrNoFRMRPools means that the kernel does not support FRMR pools, because it is
	// older than Linux 7.2, or that there is no such device.
	ErrNoFRMRPools error = notSupported("no such device, or a kernel without FRMR pools, older than Linux 7.2")
	// ErrNoStatistics means that the driver does not support these counters, or that there
	// is no such device or port.
	ErrNoStatistics error = notSupported("no such device or port, or the driver has no such statistics")
	// ErrEventsLost means that events arrived faster than they were read, and that some
	// were dropped. Later events can be read. List the devices and ports again first.
	ErrEventsLost = errors.New("events were lost")
	// ErrPermission means that the call needs CAP_NET_ADMIN.
	ErrPermission = errors.New("needs CAP_NET_ADMIN in the initial user namespace")
	// ErrInvalidName means that the kernel would refuse the name or cut it short.
	ErrInvalidName = errors.New("invalid name")
	// ErrMalformed means that a reply breaks the rules of the protocol.
	ErrMalformed = errors.New("malformed netlink reply")
)

// notSupported is an error that matches errors.ErrUnsupported and verbs.ErrNotSupported.
type notSupported string

func (e notSupported) Error() string { return string(e) }

func (notSupported) Is(target error) bool {
	return target == errors.ErrUnsupported || target == verbs.ErrNotSupported
}

// The errors of systems without NETLINK_RDMA, and of kernels that send no events.
const (
	errNoNetlink = notSupported("no NETLINK_RDMA here")
	errNoEvents  = notSupported("this kernel sends no events of RDMA devices, Linux 6.12 does")
)

// operation is what failed, in errors: a verb and its object.
type operation struct{ verb, object string }

func (o operation) failed(err error) error {
	return &verbs.Error{Op: o.verb, Object: o.object, Err: err}
}

func (o operation) nilPointer() error {
	return hint(o.failed(os.ErrInvalid), os.ErrInvalid, "the pointer is nil")
}

// hint adds a remedy to a new *verbs.Error that matches target.
func hint(err, target error, text string) error {
	if e, ok := err.(*verbs.Error); ok && errors.Is(err, target) {
		if e.Hint != "" {
			text = e.Hint + "; " + text
		}
		e.Hint = text
	}
	return err
}

// explain returns the error of an operation whose request the kernel answered with err.
func explain(op operation, req Request, err error) error {
	e := &verbs.Error{Op: op.verb, Object: op.object, Err: err}
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return e
	}
	if enter := new(os.PathError); errors.As(err, &enter) { // the request was not sent
		return hint(e, syscall.EPERM, "to enter a network namespace needs CAP_SYS_ADMIN")
	}
	switch errno {
	case syscall.EPERM, syscall.EACCES:
		e.Err, e.Hint = fmt.Errorf("%w: %w", ErrPermission, err), "run as root, or setcap cap_net_admin+ep"
	case syscall.EPROTONOSUPPORT, syscall.EAFNOSUPPORT, syscall.ECONNREFUSED:
		// Without ib_core, socket or sendto fails.
		e.Err, e.Hint = fmt.Errorf("%w: %w", errNoNetlink, err), "on Linux: modprobe ib_core"
	case syscall.EINTR:
		if req.Dump {
			e.Hint = "objects came or went while they were listed: try again"
		}
	case syscall.EINVAL:
		if meaning := req.invalid(); meaning != nil {
			e.Err = fmt.Errorf("%w: %w", meaning, err)
		}
	}
	return e
}
