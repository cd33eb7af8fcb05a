package uverbs

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/verbs"
)

// lack explains the refusal of access flags that the device or its driver does not support.
// Some kernels return EINVAL where others say that a flag is not supported. lack makes both
// match ErrNotSupported.
func (d *Device) lack(err error, access verbs.Access) (hint string, _ error) {
	if !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.EOPNOTSUPP) {
		return "", err
	}
	attr, queryErr := d.Attr()
	if queryErr != nil {
		return "", err
	}
	missing := lacked(attr, access)
	switch unlisted := access & (verbs.AccessZeroBased | verbs.AccessHugeTLB); {
	case missing != 0:
		hint = fmt.Sprintf("the device or this kernel does not support %v (see DeviceAttr)", missing)
	case unlisted != 0 && ioctl.Unsupported(err): // no capability bit exists for these
		hint = fmt.Sprintf("the driver does not support %v", unlisted)
	case access&verbs.AccessFlushPersistent != 0 && errors.Is(err, syscall.EINVAL):
		return "FlushPersistent needs persistent memory", err
	default:
		return "", err
	}
	if !ioctl.Unsupported(err) {
		err = fmt.Errorf("%w (%w)", verbs.ErrNotSupported, err)
	}
	return hint, err
}

// accessDefined has the flags that at least one kernel defines. A kernel ignores optional flags
// that it does not know.
const accessDefined = verbs.AccessFlushPersistent<<1 - 1 | verbs.Access(abi.IB_UVERBS_ACCESS_OPTIONAL_RANGE)

// lacked returns the flags that the device does not support.
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

// mrHint explains why memory could not be registered.
func (d *Device) mrHint(err error, access verbs.Access, size int) string {
	if !errors.Is(err, syscall.ENOMEM) && !errors.Is(err, syscall.EPERM) {
		return registerHint(err, access)
	}
	if own, ok := d.file.File.(ioctl.MemoryLimiter); ok {
		if limit, ok := own.MemoryLimit(); ok && limit >= 0 {
			return fmt.Sprintf("the device's host allows %d KiB of pinned memory and the region needs %d KiB more than is pinned already: raise the limit (rdmatest.Host.SetMemlock)", limit>>10, kib(size))
		} else if ok {
			return ""
		}
	}
	return memlockHint(size)
}

// kib returns a size in KiB, rounded up.
func kib(size int) int { return (size + 1023) >> 10 }

// accessHint explains which flag is missing, or returns "".
func accessHint(access verbs.Access) string {
	if access&(verbs.AccessRemoteWrite|verbs.AccessRemoteAtomic) != 0 && access&verbs.AccessLocalWrite == 0 {
		return "remote write and remote atomic need AccessLocalWrite too"
	}
	return ""
}

// limit is a requested number and the device's maximum.
type limit struct {
	field       string
	asked, most uint32
	from        string // the field of DeviceAttr with the maximum
}

// capHint names the number that exceeds a limit of the device. The kernel only returns EINVAL.
func (d *Device) capHint(err error, limits func(*verbs.DeviceAttr) []limit) string {
	if !errors.Is(err, syscall.EINVAL) {
		return createHint(err)
	}
	attr, err := d.Attr()
	if err != nil {
		return ""
	}
	for _, l := range limits(attr) {
		if l.asked > l.most {
			return fmt.Sprintf("%s %d is more than the device's limit of %d (DeviceAttr.%s)", l.field, l.asked, l.most, l.from)
		}
	}
	return ""
}

func (qp *QP) createHint(err error, c verbs.QPCap) string {
	if hint := qp.dev.capHint(err, func(a *verbs.DeviceAttr) []limit {
		return []limit{
			{"MaxSendWR", c.MaxSendWR, a.MaxQPWR, "MaxQPWR"}, {"MaxRecvWR", c.MaxRecvWR, a.MaxQPWR, "MaxQPWR"},
			{"MaxSendSGE", c.MaxSendSGE, a.MaxSGE, "MaxSGE"}, {"MaxRecvSGE", c.MaxRecvSGE, a.MaxSGE, "MaxSGE"},
		}
	}); hint != "" || c.MaxInline == 0 || !errors.Is(err, syscall.EINVAL) {
		return hint
	}
	return fmt.Sprintf("MaxInline %d may be more than the driver allows (it does not report its limit)", c.MaxInline)
}

func (s *SRQ) createHint(err error, o *SRQOptions) string {
	if o.MaxWR == 0 && errors.Is(err, syscall.EINVAL) {
		return "MaxWR is 0"
	}
	return s.dev.capHint(err, func(a *verbs.DeviceAttr) []limit {
		return []limit{{"MaxWR", o.MaxWR, a.MaxSRQWR, "MaxSRQWR"}, {"MaxSGE", o.MaxSGE, a.MaxSRQSGE, "MaxSRQSGE"}}
	})
}

func (cq *CQ) createHint(err error, entries int, vector uint32) string {
	if vector >= cq.dev.compVectors && errors.Is(err, syscall.EINVAL) {
		return fmt.Sprintf("CompVector %d is not below Device.CompVectors (%d)", vector, cq.dev.compVectors)
	}
	return cq.dev.capHint(err, func(a *verbs.DeviceAttr) []limit {
		return []limit{{"entries", entryCount(entries), a.MaxCQE, "MaxCQE"}}
	})
}

// contextHint returns a remedy for a device that could not be opened.
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

// createHint returns a remedy for an object that could not be created.
func createHint(err error) string {
	switch {
	case errors.Is(err, syscall.EAGAIN):
		return limitHint
	case errors.Is(err, syscall.EPERM):
		return "needs CAP_NET_RAW in the initial user namespace"
	}
	return ""
}

// destroyHint explains why an object could not be destroyed.
func destroyHint(err error) string {
	if errors.Is(err, syscall.EBUSY) {
		return "the kernel still uses it"
	}
	return ""
}

// postHint explains why a work request was refused.
func postHint(err error) string {
	if errors.Is(err, syscall.ENOTCONN) {
		return "the QP is not connected"
	}
	return ""
}

// errNoData is Linux's ENODATA, which the kernel returns for an empty slot of a GID table. Some
// systems that this package must compile on do not define it.
const errNoData = syscall.Errno(61)
