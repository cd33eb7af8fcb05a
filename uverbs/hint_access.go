package uverbs

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// lack explains a refusal of access flags that the device or its driver lacks.
// Some kernels say EINVAL of what others call not supported; it is all the latter.
func (d *Device) lack(err error, access Access) (hint string, _ error) {
	if !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.EOPNOTSUPP) {
		return "", err
	}
	attr, queryErr := d.Attr()
	if queryErr != nil {
		return "", err
	}
	missing := lacked(attr, access)
	switch odd := access & (AccessZeroBased | AccessHugeTLB); {
	case missing != 0:
		hint = fmt.Sprintf("the device, or this kernel, has no %v (see DeviceAttr)", missing)
	case odd != 0 && ioctl.Unsupported(err): // no capability tells of these
		hint = fmt.Sprintf("the driver takes no %v", odd)
	case access&AccessFlushPersistent != 0 && errors.Is(err, syscall.EINVAL):
		return "FlushPersistent wants persistent memory", err
	default:
		return "", err
	}
	if !ioctl.Unsupported(err) {
		err = fmt.Errorf("%w (%w)", ErrNotSupported, err)
	}
	return hint, err
}

// accessDefined are the flags that some kernel knows. A kernel ignores an optional flag
// that it does not know.
const accessDefined = AccessFlushPersistent<<1 - 1 | Access(abi.IB_UVERBS_ACCESS_OPTIONAL_RANGE)

// lacked tells which flags stand for something that the device has not.
func lacked(a *DeviceAttr, access Access) (missing Access) {
	const windows = DeviceCapMemWindow | DeviceCapMemWindowType2A | DeviceCapMemWindowType2B
	for _, c := range []struct {
		flag Access
		has  bool
	}{
		{AccessOnDemand, a.ODP.General&ODPSupport != 0},
		{AccessMWBind, a.CapFlags&windows != 0},
		{AccessFlushGlobal, a.CapFlags&DeviceCapFlushGlobal != 0},
		{AccessFlushPersistent, a.CapFlags&DeviceCapFlushPersistent != 0},
		{AccessRemoteAtomic, a.AtomicCap != AtomicNone},
	} {
		if access&c.flag != 0 && !c.has {
			missing |= c.flag
		}
	}
	return missing | access&^accessDefined
}

// accessHint tells which flags are missing.
func accessHint(access Access) string {
	if access&(AccessRemoteWrite|AccessRemoteAtomic) != 0 && access&AccessLocalWrite == 0 {
		return "remote write and remote atomic need AccessLocalWrite too"
	}
	return ""
}
