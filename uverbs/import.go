package uverbs

import (
	"errors"
	"os"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/verbs"
)

// ImportFile opens the RDMA device of a descriptor that another process uses and has sent
// over a Unix socket (SCM_RIGHTS): both share the kernel's context, and with it the objects.
// [Device.ImportPD] and [PD.ImportMR] take objects of the other process by their handles. What
// either process makes belongs to it alone: Close of the imported device destroys nothing of
// the other's. The kernel frees all when the last of them has closed the descriptor.
//
// Of the drivers of Linux 6.12 mlx5 alone can do it, in a context with dynamic UARs; others
// are ErrNotSupported. A descriptor that is not in use is EINVAL: [OpenFile] takes it. The
// device keeps a copy of the descriptor; the caller closes f.
//
// C: ibv_import_device
func ImportFile(f *os.File) (*Device, error) { return onFile("import", f, DeviceInfo.importOn) }

func (info DeviceInfo) importOn(f ioctl.File) (*Device, error) {
	return newDevice(info, f, (*Device).importContext)
}

func (d *Device) importContext() error {
	p := driver.Lookup(d.info.Driver)
	if p == nil {
		return d.noProvider("import", "device")
	}
	if d.foreign = d.info.foreign(p); d.foreign != "" {
		return d.noProvider("import", "device")
	}
	i, ok := p.(driver.Importer)
	if !ok {
		return d.fail("import", verbs.ErrNotSupported, "the driver does not share a context between processes")
	}
	if err := d.provide(i.Import, d.issueQueryContext); err != nil {
		hint := contextHint(err)
		if errors.Is(err, syscall.EINVAL) {
			hint = "the descriptor has no context, or one that can't be shared"
		}
		return d.fail("import", err, hint)
	}
	return nil
}

func (d *Device) issueQueryContext(u driver.UHW, extra []driver.Attr) error {
	r := d.request(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_QUERY_CONTEXT)
	defer r.Free()
	ioctl.Out(r, abi.UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, &d.compVectors)
	return d.doWith(r, u, extra)
}
