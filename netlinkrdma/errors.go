package netlinkrdma

import (
	"errors"
	"fmt"
	"syscall"
)

// Errors to compare with errors.Is. Those that come from an errno wrap it.
var (
	// ErrNotFound: there is no such device.
	ErrNotFound = errors.New("no such RDMA device")
	// ErrNotSupported: this kernel, or this operating system, has no
	// NETLINK_RDMA. It is also an errors.ErrUnsupported.
	ErrNotSupported = fmt.Errorf("NETLINK_RDMA is not supported here (%w)", errors.ErrUnsupported)
	// ErrPermission: the kernel wants CAP_NET_ADMIN.
	ErrPermission = errors.New("needs CAP_NET_ADMIN in the initial user namespace (run as root, or setcap cap_net_admin+ep)")
	// ErrMalformed: a reply breaks the rules of the protocol.
	ErrMalformed = errors.New("malformed netlink reply")
)

// explain wraps what the kernel answered with the operation and the remedy.
func explain(what string, err error) error {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return fmt.Errorf("netlinkrdma: %s: %w", what, err)
	}
	switch errno {
	case syscall.EPERM, syscall.EACCES:
		return fmt.Errorf("netlinkrdma: %s: %w: %w", what, ErrPermission, err)
	case syscall.EPROTONOSUPPORT, syscall.EAFNOSUPPORT, syscall.ECONNREFUSED:
		// No ib_core: the socket can't be made, or nobody listens on it.
		return fmt.Errorf("netlinkrdma: %s: %w: is the ib_core module loaded (modprobe ib_core)?: %w", what, ErrNotSupported, err)
	}
	return fmt.Errorf("netlinkrdma: %s: %w", what, err)
}
