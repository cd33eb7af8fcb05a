package uverbs

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/verbs"
)

// Device is an open RDMA device.
//
// C: struct ibv_context
type Device struct {
	object
	info        DeviceInfo
	file        *deviceFile
	provider    driver.Context // nil when the program links none that fits
	foreign     string         // why a provider that is linked does not
	compVectors uint32
	cookies     atomic.Uint64
	attr        atomic.Pointer[verbs.DeviceAttr] // once somebody asked
	regions     regions
	windows     map[uint32]*MW // by the upper 24 bits of their keys; guarded by graph
	events      *asyncEvents
	cleanup     runtime.Cleanup
}

// newDevice makes a Device of an open uverbs file, the kernel's or one that stands in
// for it. The Device owns file from then on, also when this fails.
// getContext gives it its context: a new one or, of an imported device, the one that is there.
func newDevice(info DeviceInfo, file ioctl.File, getContext func(*Device) error) (*Device, error) {
	d := &Device{info: info, file: newDeviceFile(file)}
	d.root(info.Name, info.Driver.String())
	if err := d.start(getContext); err != nil {
		return nil, errors.Join(err, d.file.Close())
	}
	d.cleanup = runtime.AddCleanup(d, (*deviceFile).abandon, d.file)
	return d, nil
}

func (d *Device) start(getContext func(*Device) error) error {
	if err := getContext(d); err != nil {
		return err
	}
	events, err := d.openAsyncEvents()
	if err != nil {
		return errors.Join(err, d.closeProvider())
	}
	d.events = events
	return nil
}

func (d *Device) closeProvider() error {
	if c, ok := d.provider.(driver.Closer); ok {
		return c.Close()
	}
	return nil
}

func (d *Device) getContext() error {
	p := driver.Lookup(d.info.Driver)
	if p == nil {
		return d.openBare()
	}
	if d.foreign = d.info.foreign(p); d.foreign != "" {
		return d.openBare()
	}
	if err := d.provide(p.Open, d.issueGetContext); err != nil {
		return d.fail("open", err, contextHint(err))
	}
	return nil
}

// provide has the provider make its view of the context, with a call that issue carries out.
func (d *Device) provide(open func(*driver.Open) (driver.Context, error), issue func(driver.UHW, []driver.Attr) error) error {
	c := d.creation(nil)
	r := &driver.Open{Call: c, Device: driverDevice{c.memory, d}}
	c.issue = func(u driver.UHW, extra []driver.Attr) error {
		err := issue(u, extra)
		r.CompVectors = d.compVectors
		return err
	}
	ctx, err := open(r)
	if err = c.made(err, nothing); err == nil {
		d.provider = ctx
	}
	return err
}

func (d *Device) issueGetContext(u driver.UHW, extra []driver.Attr) error {
	r := d.request(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_GET_CONTEXT)
	defer r.Free()
	ioctl.Out(r, abi.UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, &d.compVectors)
	return d.doWith(r, u, extra)
}

// Info returns what discovery found out about the device.
func (d *Device) Info() DeviceInfo { return d.info }

// CompVectors is the number of completion vectors a CQ can choose from.
func (d *Device) CompVectors() uint32 { return d.compVectors }

// Close closes the device. Everything made from it must be closed before.
//
// C: ibv_close_device
func (d *Device) Close() error {
	if d == nil {
		return closeNil("Device")
	}
	return d.close(nothing, func() error {
		d.cleanup.Stop()
		return errors.Join(d.closeProvider(), d.events.close(), d.file.Close())
	})
}

// cookie is a number that stands for an object in the kernel's events: never 0,
// never used again, and harmless when it arrives late.
func (d *Device) cookie() uint64 { return d.cookies.Add(1) }

func (d *Device) request(object, method uint16) *ioctl.Request {
	return ioctl.New(uint32(d.info.Driver), object, method)
}

// noProvider explains why an object with queues can't be made.
func (d *Device) noProvider(op, object string) error {
	if d.foreign != "" {
		return &Error{Op: op, Object: object, Device: d.info.Name, Err: verbs.ErrNoProvider, Hint: d.foreign}
	}
	return &Error{Op: op, Object: object, Device: d.info.Name, Err: verbs.ErrNoProvider,
		Hint: fmt.Sprintf("import _ %q, if it exists for this driver", fmt.Sprintf("github.com/goverbs/goverbs/provider/%v", d.info.Driver))}
}

// writeCommand begins a command from before the ioctl interface.
func writeCommand[T any](d *Device, command uint32, in *T) *ioctl.Request {
	return ioctl.Write(uint32(d.info.Driver), command, in)
}

// newCommand makes such a command for many times. It goes straight to the kernel:
// what it is for is closed before its device.
func newCommand[In, Answer any](d *Device, command uint32, in In) *ioctl.Command {
	return ioctl.NewCommand[In, Answer](d.file.File, uint32(d.info.Driver), command, in)
}
