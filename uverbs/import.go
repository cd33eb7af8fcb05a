package uverbs

import (
	"errors"
	"math"
	"os"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/verbs"
)

// ImportFile opens the RDMA device of a file that another process uses and has sent over a Unix
// socket (SCM_RIGHTS). Both processes share the kernel's context and its objects.
// [Device.ImportPD] and [PD.ImportMR] import objects of the other process by their handles. Each
// process owns the objects that it creates, so Close of the imported device does not destroy
// objects of the other process. The kernel frees everything when both have closed the file.
//
// Among the drivers of Linux 6.12, only mlx5 supports this, in a context with dynamic UARs. For
// others the error matches ErrNotSupported. For a file that is not in use the error is EINVAL; use
// [OpenFile]. The Device has a duplicate of the descriptor; the caller closes f.
//
// Experimental: may change in any release; see docs/stability.md.
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
	if d.mismatch = d.info.mismatch(p); d.mismatch != "" {
		return d.noProvider("import", "device")
	}
	i, ok := p.(driver.Importer)
	if !ok {
		return d.notShared()
	}
	if _, err := d.provide(i.Import, d.issueQueryContext); err != nil {
		return d.importFailed(err)
	}
	return nil
}

func (d *Device) notShared() error {
	return d.fail("import", verbs.ErrNotSupported, "the driver does not share a context between processes")
}

func (d *Device) importFailed(err error) error {
	hint := contextHint(err)
	if errors.Is(err, syscall.EINVAL) {
		hint = "the descriptor has no context, or one that can't be shared"
	}
	return d.fail("import", err, hint)
}

func (d *Device) issueQueryContext(u driver.UHW, extra []driver.Attr) error {
	r := d.request(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_QUERY_CONTEXT)
	defer r.Free()
	ioctl.Out(r, abi.UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, &d.compVectors)
	return d.doWith(r, u, extra)
}

// ImportPD imports a protection domain by its handle ([PD.Handle]). Its owner is another process
// with the same descriptor ([ImportFile]), or this one. The owner must keep the domain open while
// this process uses it. For an unknown handle the error is ENOENT.
//
// Experimental: may change in any release; see docs/stability.md.
//
// C: ibv_import_pd
func (d *Device) ImportPD(handle uint32) (*PD, error) {
	pd := &PD{dev: d, handle: handle, memory: &memory{file: d.file}, lent: true}
	if err := pd.attach("PD", &d.object); err != nil {
		return nil, err
	}
	if err := pd.identify(); err != nil {
		pd.detach()
		return nil, pd.fail("import", err, importHint(err))
	}
	pd.created(pd, handle)
	return pd, nil
}

func (pd *PD) identify() (err error) {
	p, ok := pd.device().provider.(driver.PDImporter)
	if !ok {
		return verbs.ErrNotSupported
	}
	pd.data, err = p.ImportPD(pd.handle)
	return err
}

// ImportMR imports a memory region by its handle ([MR.Handle]), for use in its domain or an
// imported one. [MR.Addr], [MR.Len] and the keys are those of the owner. [MR.Bytes] is nil,
// because the memory need not be mapped in this process. The device can write to the region, but
// a provider that writes short messages itself, such as mlx5's, can't. For an unknown handle the
// error is ENOENT.
//
// Experimental: may change in any release; see docs/stability.md.
//
// C: ibv_import_mr
func (pd *PD) ImportMR(handle uint32) (*MR, error) {
	mr := &MR{pd: pd, handle: handle, memory: &memory{file: pd.device().file}, lent: true}
	if err := mr.attach("MR", &pd.object); err != nil {
		return nil, err
	}
	if err := mr.identify(); err != nil {
		mr.detach()
		return nil, mr.fail("import", err, importHint(err))
	}
	mr.created(mr, handle)
	return mr, nil
}

func (mr *MR) identify() error {
	attr, err := mr.pd.dev.issueQueryMR(mr.handle)
	switch {
	case err != nil:
		return err
	case attr.Length > math.MaxInt:
		return syscall.EOVERFLOW
	}
	mr.lkey, mr.rkey, mr.length, mr.iova = attr.LKey, attr.RKey, int(attr.Length), attr.IOVA
	return nil
}

// ImportDM imports device memory by its handle ([DM.Handle]) and maps it into this process, so
// both processes see the same bytes. The owner must keep it allocated while this process uses
// it. For an unknown handle the error is ENOENT.
//
// Experimental: may change in any release; see docs/stability.md.
//
// C: ibv_import_dm
func (d *Device) ImportDM(handle uint32) (*DM, error) {
	if d.provider == nil {
		return nil, d.noProvider("import", "DM")
	}
	dm := &DM{dev: d, handle: handle, memory: &memory{file: d.file}, lent: true}
	if err := dm.attach("DM", &d.object); err != nil {
		return nil, err
	}
	if err := dm.identify(); err != nil {
		dm.detach()
		return nil, dm.fail("import", err, importHint(err))
	}
	dm.created(dm, handle)
	return dm, nil
}

func (dm *DM) identify() (err error) {
	p, ok := dm.dev.provider.(driver.DMImporter)
	if !ok {
		return verbs.ErrNotSupported
	}
	r := &driver.ImportDM{Memory: dm.memory, Handle: dm.handle}
	dm.data, err = p.ImportDM(r)
	if r.Length > math.MaxInt {
		return errors.Join(err, syscall.EOVERFLOW)
	}
	dm.length = int(r.Length)
	return err
}

func importHint(err error) string {
	if err == syscall.ENOENT {
		return "the descriptor has no such object"
	}
	return ""
}
