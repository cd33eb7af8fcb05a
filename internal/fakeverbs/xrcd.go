package fakeverbs

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// domain is an XRC domain of a device. It is guarded by the device's lock.
type domain struct {
	inode   uint64 // of the file that it is shared by; 0 if it is not
	users   int
	targets map[uint32]*target // by number
}

// hardwareCalls are those that no driver in software has.
var hardwareCalls = map[string]bool{
	"OPEN_XRCD": true, "XRCD_DESTROY": true, "OPEN_QP": true,
	"WQ_CREATE": true, "WQ_DESTROY": true, "MODIFY_WQ": true, "CREATE_RWQ_IND_TBL": true, "RWQ_IND_TBL_DESTROY": true,
	"CREATE_FLOW": true, "FLOW_DESTROY": true, "COUNTERS_CREATE": true, "COUNTERS_DESTROY": true, "COUNTERS_READ": true,
	"DM_ALLOC": true, "DM_FREE": true, "DM_MR_REG": true, "MODIFY_CQ": true,
	"DMAH_ALLOC": true, "DMAH_FREE": true,
}

// has tells whether the device's driver has a call.
func (k *Kernel) has(call string) bool {
	return k.Model.Has(call) && (k.Newest || !newest[call]) && !(k.isSoftware() && hardwareCalls[call])
}

// isSoftware tells of the drivers that have no more than the software ones of Linux.
func (k *Kernel) isSoftware() bool {
	return k.Device.driver.Software
}

func (k *Kernel) openXRCD(r *ioctl.Request) error {
	const create, exclusive = 0o100, 0o200 // O_CREAT and O_EXCL
	in := request[abi.IbUverbsOpenXrcd](r)
	d := &domain{targets: make(map[uint32]*target)}
	if fd := int32(in.Fd); fd != -1 {
		inode, err := k.Inode(fd)
		if err != nil {
			return syscall.EBADF
		}
		k.Device.mu.Lock()
		defer k.Device.mu.Unlock()
		switch found := k.Device.domains[inode]; {
		case found == nil && in.Oflags&create == 0:
			return syscall.EAGAIN
		case found != nil && in.Oflags&exclusive != 0:
			return syscall.EINVAL
		case found != nil:
			d = found
		default:
			d.inode = inode
			k.Device.domains[inode] = d
		}
	}
	d.users++
	h := k.Add("XRCD", d, func() { k.Device.leave(d) })
	return respond(r, abi.IbUverbsOpenXrcdResp{XrcdHandle: h})
}

func (d *Device) leave(x *domain) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if x.users--; x.users == 0 && x.inode != 0 {
		delete(d.domains, x.inode)
	}
}

func (k *Kernel) destroyXRCD(r *ioctl.Request) error {
	h, _ := r.Value(abi.UVERBS_ATTR_DESTROY_XRCD_HANDLE)
	return k.Remove("XRCD", uint32(h))
}

// Domains is how many XRC domains there are that a file shares.
func (d *Device) Domains() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.domains)
}
