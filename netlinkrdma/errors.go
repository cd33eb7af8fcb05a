package netlinkrdma

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/goverbs/goverbs/verbs"
)

// Errors to compare with errors.Is. If the cause is an errno, the error matches that
// errno too. The errors that say "not supported" match [errors.ErrUnsupported].
var (
	// ErrNotFound means that there is no such device.
	ErrNotFound = errors.New("no such RDMA device")
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
	ErrEventsLost = errors.New("events were lost (list the devices and ports again)")
	// ErrPermission means that the call needs CAP_NET_ADMIN.
	ErrPermission = errors.New("needs CAP_NET_ADMIN in the initial user namespace (run as root, or setcap cap_net_admin+ep)")
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
	errNoNetlink = notSupported("no NETLINK_RDMA here (on linux: modprobe ib_core)")
	errNoEvents  = notSupported("this kernel sends no events of RDMA devices, Linux 6.12 does (list the devices and ports periodically instead)")
)

// unsupported is an errno that means "not supported". It matches the same errors as
// notSupported.
type unsupported struct{ error }

func (e unsupported) Unwrap() error      { return e.error }
func (unsupported) Is(target error) bool { return notSupported("").Is(target) }

// remedy adds a hint to an error that matches errno.
func remedy(err error, errno syscall.Errno, text string) error {
	if errors.Is(err, errno) {
		return fmt.Errorf("%w (%s)", err, text)
	}
	return err
}

// explain adds the operation and a remedy to the error with which the kernel answered req.
func explain(op string, req Request, err error) error {
	var errno syscall.Errno
	var enter *os.PathError // entering a network namespace failed before the request was sent
	if errors.As(err, &errno) && !errors.As(err, &enter) {
		switch errno {
		case syscall.EPERM, syscall.EACCES:
			err = fmt.Errorf("%w: %w", ErrPermission, err)
		case syscall.EPROTONOSUPPORT, syscall.EAFNOSUPPORT, syscall.ECONNREFUSED:
			// Without ib_core, socket or sendto fails.
			err = fmt.Errorf("%w: %w", errNoNetlink, err)
		case syscall.EOPNOTSUPP, syscall.ENOSYS:
			err = unsupported{err}
		case syscall.EINTR:
			if req.Dump {
				err = fmt.Errorf("%w (objects came or went while they were listed: try again)", err)
			}
		case syscall.EINVAL:
			if meaning := req.invalid(); meaning != nil {
				err = fmt.Errorf("%w: %w", meaning, err)
			}
		}
	}
	return fmt.Errorf("netlinkrdma: %s: %w", op, err)
}
