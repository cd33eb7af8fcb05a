package netlinkrdma

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/goverbs/goverbs/verbs"
)

// Errors to compare with errors.Is. Where an errno is behind one, that errno
// is in the chain too.
var (
	// ErrNotFound: there is no such device.
	ErrNotFound = errors.New("no such RDMA device")
	// ErrNoObject: the device has no such object any more, or never had.
	ErrNoObject = errors.New("no such object")
	// ErrNoProcess: the object is a kernel module's, or the thread that made it has
	// ended or is of another PID namespace.
	ErrNoProcess = errors.New("no process is known")
	// ErrNoRaw: this driver, or this kernel, does not tell what the device holds
	// of its objects, or the device went away.
	ErrNoRaw = errors.New("the driver gives no raw data of its objects")
	// ErrNoFRMRPools: this kernel, older than Linux 7.2, keeps no such pools, or
	// there is no such device.
	ErrNoFRMRPools = errors.New("this kernel keeps no FRMR pools, Linux 7.2 does, or there is no such device")
	// ErrNoStatistics: the driver does not count this, or there is no such device
	// or port.
	ErrNoStatistics = errors.New("the driver has no such statistics, or there is no such device or port")
	// ErrEventsLost: events came faster than they were read, and some are gone.
	// Those that follow can be read; list the devices and ports again first.
	ErrEventsLost = errors.New("events were lost (list the devices and ports again)")
	// ErrPermission: the kernel wants CAP_NET_ADMIN.
	ErrPermission = errors.New("needs CAP_NET_ADMIN in the initial user namespace (run as root, or setcap cap_net_admin+ep)")
	// ErrInvalidName: the kernel would refuse this name, or cut it short.
	ErrInvalidName = errors.New("invalid name")
	// ErrMalformed: a reply breaks the rules of the protocol.
	ErrMalformed = errors.New("malformed netlink reply")
)

type notSupported string

func (e notSupported) Error() string { return string(e) }

func (notSupported) Is(target error) bool {
	return target == errors.ErrUnsupported || target == verbs.ErrNotSupported
}

// The ErrNotSupported of machines without NETLINK_RDMA, and of kernels that have it.
const (
	errNoNetlink = notSupported("no NETLINK_RDMA here (on linux: modprobe ib_core)")
	errNoEvents  = notSupported("this kernel sends no events of RDMA devices, Linux 6.12 does (list the devices and ports from time to time instead)")
)

// unsupported makes an errno that means so match ErrNotSupported.
type unsupported struct{ error }

func (e unsupported) Unwrap() error      { return e.error }
func (unsupported) Is(target error) bool { return target == verbs.ErrNotSupported }

// remedy adds what to do to an error that errno is behind.
func remedy(err error, errno syscall.Errno, text string) error {
	if errors.Is(err, errno) {
		return fmt.Errorf("%w (%s)", err, text)
	}
	return err
}

// explain wraps what the kernel answered to req with the operation and the
// remedy.
func explain(what string, req Request, err error) error {
	var errno syscall.Errno
	var enter *os.PathError // a namespace was not entered, and the kernel not asked
	if errors.As(err, &errno) && !errors.As(err, &enter) {
		switch errno {
		case syscall.EPERM, syscall.EACCES:
			err = fmt.Errorf("%w: %w", ErrPermission, err)
		case syscall.EPROTONOSUPPORT, syscall.EAFNOSUPPORT, syscall.ECONNREFUSED:
			// Without ib_core the socket can't be made, or nobody listens on it.
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
	return fmt.Errorf("netlinkrdma: %s: %w", what, err)
}
