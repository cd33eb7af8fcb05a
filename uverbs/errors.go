package uverbs

import (
	"errors"
	"strings"

	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/verbs"
)

// Error is a verb that failed. Where it failed because something is not supported,
// errors.Is matches it with errors.ErrUnsupported and [verbs.ErrNotSupported].
type Error struct {
	Op     string // what was attempted: "create"
	Object string // on which object: "QP", "CQ 3"
	Device string // of which device: "siw0"
	Driver string // of which driver, where that is what lacks something: "siw"
	Err    error  // why: a syscall.Errno or one of the sentinels
	Hint   string // what to do about it; may be empty
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("uverbs: ")
	b.WriteString(e.Op)
	if e.Object != "" {
		b.WriteString(" " + e.Object)
	}
	if e.Device != "" {
		b.WriteString(" on " + e.Device)
	}
	if e.Driver != "" {
		b.WriteString(" (driver " + e.Driver + ")")
	}
	b.WriteString(": " + e.Err.Error())
	if e.Hint != "" {
		b.WriteString(": " + e.Hint)
	}
	return b.String()
}

// Unwrap gives errors.Is and errors.As the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is makes all that means "not supported" match ErrNotSupported and errors.ErrUnsupported.
func (e *Error) Is(target error) bool {
	return (target == verbs.ErrNotSupported || target == errors.ErrUnsupported) && unsupported(e.Err)
}

// unsupported reports whether the operating system, the kernel, the driver or the provider
// says that it lacks something.
func unsupported(err error) bool {
	return errors.Is(err, errors.ErrUnsupported) || ioctl.Unsupported(err)
}
