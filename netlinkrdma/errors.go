package netlinkrdma

import (
	"errors"
	"fmt"
	"syscall"
)

// Errors to compare with errors.Is. Where an errno is behind one, that errno
// is in the chain too.
var (
	// ErrNotFound: there is no such device.
	ErrNotFound = errors.New("no such RDMA device")
	// ErrNoObject: the device has no such object any more, or never had.
	ErrNoObject = errors.New("no such object")
	// ErrNoRaw: this driver, or this kernel, does not tell what the device holds
	// of its objects, or the device went away.
	ErrNoRaw = errors.New("the driver gives no raw data of its objects")
	// ErrNotSupported: this kernel, or this operating system, has no
	// NETLINK_RDMA. It is also an errors.ErrUnsupported.
	ErrNotSupported error = notSupported{}
	// ErrPermission: the kernel wants CAP_NET_ADMIN.
	ErrPermission = errors.New("needs CAP_NET_ADMIN in the initial user namespace (run as root, or setcap cap_net_admin+ep)")
	// ErrInvalidName: the kernel would refuse this name, or cut it short.
	ErrInvalidName = errors.New("invalid name")
	// ErrMalformed: a reply breaks the rules of the protocol.
	ErrMalformed = errors.New("malformed netlink reply")
)

type notSupported struct{}

func (notSupported) Error() string        { return "no NETLINK_RDMA here (on linux: modprobe ib_core)" }
func (notSupported) Is(target error) bool { return target == errors.ErrUnsupported }

// explain wraps what the kernel answered to req with the operation and the
// remedy.
func explain(what string, req Request, err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		switch errno {
		case syscall.EPERM, syscall.EACCES:
			err = fmt.Errorf("%w: %w", ErrPermission, err)
		case syscall.EPROTONOSUPPORT, syscall.EAFNOSUPPORT, syscall.ECONNREFUSED:
			// Without ib_core the socket can't be made, or nobody listens on it.
			err = fmt.Errorf("%w: %w", ErrNotSupported, err)
		case syscall.EINVAL:
			switch {
			case req.readsRaw():
				err = fmt.Errorf("%w: %w", ErrNoRaw, err)
			case req.readsDevice():
				err = fmt.Errorf("%w: %w", ErrNotFound, err)
			}
		}
	}
	return fmt.Errorf("netlinkrdma: %s: %w", what, err)
}
