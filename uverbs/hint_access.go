package uverbs

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/verbs"
)

// lack explains a refusal of access flags that the device or its driver lacks.
// Some kernels say EINVAL of what others call not supported; it is all the latter.
func (d *Device) lack(err error, access verbs.Access) (hint string, _ error) {
	if !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.EOPNOTSUPP) {
		return "", err
	}
	attr, queryErr := d.Attr()
	if queryErr != nil {
		return "", err
	}
	missing := lacked(attr, access)
	switch odd := access & (verbs.AccessZeroBased | verbs.AccessHugeTLB); {
	case missing != 0:
		hint = fmt.Sprintf("the device, or this kernel, has no %v (see DeviceAttr)", missing)
	case odd != 0 && ioctl.Unsupported(err): // no capability tells of these
		hint = fmt.Sprintf("the driver takes no %v", odd)
	case access&verbs.AccessFlushPersistent != 0 && errors.Is(err, syscall.EINVAL):
		return "FlushPersistent wants persistent memory", err
	default:
		return "", err
	}
	if !ioctl.Unsupported(err) {
		err = fmt.Errorf("%w (%w)", verbs.ErrNotSupported, err)
	}
	return hint, err
}

// accessDefined are the flags that some kernel knows. A kernel ignores an optional flag
// that it does not know.
const accessDefined = verbs.AccessFlushPersistent<<1 - 1 | verbs.Access(abi.IB_UVERBS_ACCESS_OPTIONAL_RANGE)

// lacked tells which flags stand for something that the device has not.
func lacked(a *verbs.DeviceAttr, access verbs.Access) (missing verbs.Access) {
	const windows = verbs.DeviceCapMemWindow | verbs.DeviceCapMemWindowType2A | verbs.DeviceCapMemWindowType2B
	for _, c := range []struct {
		flag verbs.Access
		has  bool
	}{
		{verbs.AccessOnDemand, a.ODP.General&verbs.ODPSupport != 0},
		{verbs.AccessMWBind, a.CapFlags&windows != 0},
		{verbs.AccessFlushGlobal, a.CapFlags&verbs.DeviceCapFlushGlobal != 0},
		{verbs.AccessFlushPersistent, a.CapFlags&verbs.DeviceCapFlushPersistent != 0},
		{verbs.AccessRemoteAtomic, a.AtomicCap != verbs.AtomicNone},
	} {
		if access&c.flag != 0 && !c.has {
			missing |= c.flag
		}
	}
	return missing | access&^accessDefined
}

// accessHint tells which flags are missing.
func accessHint(access verbs.Access) string {
	if access&(verbs.AccessRemoteWrite|verbs.AccessRemoteAtomic) != 0 && access&verbs.AccessLocalWrite == 0 {
		return "remote write and remote atomic need AccessLocalWrite too"
	}
	return ""
}
