package uverbs

import (
	"errors"
	"syscall"
)

// contextHint tells what to do about a device that would not open.
func contextHint(err error) string {
	switch {
	case errors.Is(err, syscall.EAGAIN):
		return limitHint
	case errors.Is(err, syscall.EPERM):
		return "the device belongs to another network namespace (`rdma system` shows exclusive mode)"
	case errors.Is(err, syscall.EACCES):
		return "no permission for the device node; its mode is normally 0666"
	}
	return ""
}

const limitHint = "the cgroup's limit in rdma.max is reached"

// createHint tells what to do about an object that could not be made.
func createHint(err error) string {
	switch {
	case errors.Is(err, syscall.EAGAIN):
		return limitHint
	case errors.Is(err, syscall.EPERM):
		return "needs CAP_NET_RAW in the initial user namespace"
	}
	return ""
}

// destroyHint tells why an object would not go.
func destroyHint(err error) string {
	if errors.Is(err, syscall.EBUSY) {
		return "the kernel still uses it"
	}
	return ""
}

// postHint tells why a work request was refused.
func postHint(err error) string {
	if errors.Is(err, syscall.ENOTCONN) {
		return "the QP is not connected"
	}
	return ""
}

// errNoData is Linux's ENODATA, of an empty slot of a GID table; not every system
// that this package must compile on has one.
const errNoData = syscall.Errno(61)
