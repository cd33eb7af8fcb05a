package uverbs

import (
	"errors"
	"strings"

	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/verbs"
)

// Error is the error of a verb. If the cause is a missing feature, the error matches
// errors.ErrUnsupported and [verbs.ErrNotSupported].
type Error struct {
	Op     string // operation: "create"
	Object string // object: "QP", "CQ 3"
	Device string // the object's device: "siw0"
	Driver string // the device's driver, if a feature is missing: "siw"
	Err    error  // cause: a syscall.Errno or a sentinel of package verbs
	Hint   string // remedy; may be empty
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

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is ErrNotSupported or errors.ErrUnsupported and the cause is a
// missing feature, however the kernel, the driver or the provider spells it.
func (e *Error) Is(target error) bool {
	return (target == verbs.ErrNotSupported || target == errors.ErrUnsupported) && unsupported(e.Err)
}

// unsupported reports whether err means that the operating system, the kernel, the driver or
// the provider lacks a feature.
func unsupported(err error) bool {
	return errors.Is(err, errors.ErrUnsupported) || ioctl.Unsupported(err)
}
