package uverbs

import (
	"errors"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

// call implements driver.Call, one call to the kernel that the provider makes, so that it can
// act before and after the kernel.
type call struct {
	*memory
	own   memory // memory of a new object, which keeps the call alive for it
	issue func(driver.UHW, []driver.Attr) error
	again bool // Do may be called more than once
	done  bool // Do has succeeded
}

// Do implements driver.Call.
func (c *call) Do(u driver.UHW, extra ...driver.Attr) error {
	if c.done && !c.again {
		return errMadeTwice
	}
	if err := c.issue(u, extra); err != nil {
		return err
	}
	c.done = true
	return nil
}

// creation returns a call that creates an object, with memory for that object.
func (d *Device) creation(issue func(driver.UHW, []driver.Attr) error) *call {
	c := &call{own: memory{file: d.file}, issue: issue}
	c.memory = &c.own
	return c
}

// made finishes a creation and returns its error. If the provider failed or did not call Do,
// made destroys the kernel's object, if there is one, and then frees the memory.
func (c *call) made(err error, destroy func() error) error {
	c.issue = nil // frees everything that the closure holds
	switch {
	case err == nil && c.done:
		return nil
	case err == nil:
		err = errNotMade
	case c.done:
		err = errors.Join(err, destroy())
	}
	return errors.Join(err, c.memory.free())
}

// destroy destroys a kernel's object through its provider if that is a driver.Destroyer, or
// else directly. It succeeds if the kernel has destroyed the object, even if the provider
// then returns an error.
func destroy(provider any, do func() error) error {
	d, ok := provider.(driver.Destroyer)
	if !ok {
		return do()
	}
	var gone bool
	err := d.Destroy(func() error {
		err := do()
		gone = err == nil
		return err
	})
	switch {
	case gone:
		return nil
	case err == nil:
		return errNotMade
	}
	return err
}

// replacement returns a call that may replace the memory of an object.
func (d *Device) replacement(of *memory) *call {
	return &call{memory: &memory{file: d.file, owner: of}, again: true}
}

// replaced finishes a replacement and returns its error. If the provider succeeded, the
// object takes over the new memory; the provider has freed the old memory.
func (c *call) replaced(of *memory, err error) error {
	switch {
	case err != nil:
		return errors.Join(err, c.memory.free())
	case !c.done:
		return errors.Join(errNotMade, c.memory.free())
	}
	of.adopt(c.memory)
	return nil
}

var (
	errMadeTwice = errors.New("the provider made a call twice")
	errNotMade   = errors.New("the provider made no call")
)

// driverPart adds the driver's private bytes and attributes to a request.
func driverPart(r *ioctl.Request, u driver.UHW, extra []driver.Attr) {
	r.Driver(u.In, u.Out)
	for i := range extra {
		switch a := &extra[i]; {
		case a.New:
			r.NewObject(a.ID)
		case a.In != nil:
			r.InBytes(a.ID, a.In)
		case a.Out != nil:
			r.OutBytes(a.ID, a.Out)
		default:
			r.Handle(a.ID, a.Handle)
		}
	}
}

// doWith issues a request with the driver's private bytes and attributes.
func (d *Device) doWith(r *ioctl.Request, u driver.UHW, extra []driver.Attr) error {
	driverPart(r, u, extra)
	if err := r.Do(d.file); err != nil {
		return err
	}
	for i := range extra {
		if a := &extra[i]; a.New {
			a.Handle = r.Created(a.ID)
		}
	}
	return nil
}

// driverDevice implements driver.Device, a provider's view of a Device.
type driverDevice struct {
	*memory
	dev *Device
}

// Info implements driver.Device.
func (d driverDevice) Info() driver.Info {
	return driver.Info{Name: d.dev.info.Name, ABI: d.dev.info.ABI, Ports: uint32(d.dev.info.Ports)}
}

// Query implements driver.Device.
func (d driverDevice) Query(out []byte) (*verbs.DeviceAttr, error) {
	if out == nil {
		return d.dev.Attr()
	}
	return d.dev.query(out)
}

// GID implements driver.Device.
func (d driverDevice) GID(port int, index uint32) (*verbs.GIDEntry, error) {
	return d.dev.QueryGID(port, index)
}

// Invoke implements driver.Device.
func (d driverDevice) Invoke(object, method uint16, attrs ...driver.Attr) error {
	r := d.dev.request(object, method)
	defer r.Free()
	return d.dev.doWith(r, driver.UHW{}, attrs)
}

// AllocPD implements driver.Device.
func (d driverDevice) AllocPD(u driver.UHW) (handle uint32, err error) {
	return d.dev.issueAllocPD(u, nil)
}

// DeallocPD implements driver.Device.
func (d driverDevice) DeallocPD(handle uint32) error { return d.dev.issueDeallocPD(handle) }

// RegisterQueue implements driver.Device.
func (d driverDevice) RegisterQueue(pd uint32, queue *mmap.Region, u driver.UHW) (handle uint32, err error) {
	in := &abi.IbUverbsRegMr{Start: queue.Addr(), Length: uint64(queue.Len()), HcaVa: queue.Addr(),
		PdHandle: pd, AccessFlags: uint32(verbs.AccessLocalWrite)}
	resp, err := d.dev.issueRegMR(in, u, nil)
	return resp.MrHandle, err
}

// DeregisterQueue implements driver.Device.
func (d driverDevice) DeregisterQueue(handle uint32) error { return d.dev.issueDeregMR(handle) }

// Doorbell implements driver.Device.
func (d driverDevice) Doorbell(qp uint32) func() error {
	in := abi.IbUverbsPostSend{QpHandle: qp, WqeSize: sendWRSize}
	c := newCommand[abi.IbUverbsPostSend, abi.IbUverbsPostSendResp](d.dev, abi.IB_USER_VERBS_CMD_POST_SEND, in)
	return c.Do
}

// Notifier implements driver.Device.
func (d driverDevice) Notifier(cq uint32) func(solicitedOnly bool) error {
	n := &notifier{dev: d.dev, cq: cq}
	return n.arm
}

// notifier arms the CQs of drivers that arm them with a system call.
type notifier struct {
	dev            *Device
	cq             uint32
	any, solicited *ioctl.Command // nil until needed, as few CQs need both
}

// arm requests one event. It allocates only at its first use.
func (n *notifier) arm(solicitedOnly bool) error {
	if solicitedOnly {
		return n.issue(&n.solicited, 1)
	}
	return n.issue(&n.any, 0)
}

func (n *notifier) issue(c **ioctl.Command, solicited uint32) error {
	if *c == nil {
		in := abi.IbUverbsReqNotifyCq{CqHandle: n.cq, SolicitedOnly: solicited}
		*c = newCommand[abi.IbUverbsReqNotifyCq, struct{}](n.dev, abi.IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, in)
	}
	return (*c).Do()
}

// Unbind implements driver.Device.
func (d driverDevice) Unbind(rkey uint32) bool { return d.dev.unbind(rkey) }

// Read implements driver.Device.
func (d driverDevice) Read(lkey uint32, addr uint64, b []byte) bool {
	return d.dev.regions.read(lkey, addr, b)
}

// Write implements driver.Device.
func (d driverDevice) Write(lkey uint32, addr uint64, b []byte) bool {
	return d.dev.regions.write(lkey, addr, b)
}

// bareBytes describes the private bytes that a kernel driver requires at least, so that a
// device can be opened, and can have PDs and MRs, without a provider. The driver's response
// is ignored. Its buffer is as long as the longest known response, because some drivers write
// all of it, whatever length the request has.
type bareBytes struct {
	openIn  []byte
	openOut int
	pdOut   int
	mrIn    int // zeros
	mrOut   int
	xrcIn   int // zeros, for target QPs
	xrcOut  int
}

var bareDrivers = map[verbs.DriverID]bareBytes{
	// Two pages of registers, version 1 CQEs, and no register for the context if the
	// kernel needs none.
	// C: struct mlx5_ib_alloc_ucontext_req_v2
	verbs.DriverMLX5: {openIn: []byte{0: 16, 4: 4, 16: 1, 24: 3, 31: 0}, openOut: 72, pdOut: 4, xrcIn: 56, xrcOut: 40},
	verbs.DriverMLX4: {openOut: 16, pdOut: 4},
	// The capabilities of batches and of a minimal send queue, which some devices
	// require.
	// C: struct efa_ibv_alloc_ucontext_cmd
	verbs.DriverEFA: {openIn: []byte{0: 3, 7: 0}, openOut: 24},
	// C: struct erdma_uresp_alloc_ctx
	verbs.DriverERDMA: {openOut: 40},
	// The version of the interface. A response of 16 bytes would mean first-generation
	// hardware.
	// C: struct irdma_alloc_ucontext_req
	verbs.DriverIRDMA: {openIn: []byte{4: 5, 15: 0}, openOut: 80, pdOut: 8, mrIn: 8},
	verbs.DriverIonic: {openIn: make([]byte, 8), openOut: 40},
	// With a shorter response, the driver turns off a page for the whole device.
	// C: struct c4iw_alloc_ucontext_resp
	verbs.DriverCXGB4:  {openOut: 16, pdOut: 4},
	verbs.DriverOCRDMA: {openOut: 80, pdOut: 24},
	verbs.DriverMTHCA:  {openOut: 8, pdOut: 4},
	verbs.DriverPVRDMA: {openOut: 8, pdOut: 8},
	verbs.DriverSIW:    {openOut: 8, mrIn: 8, mrOut: 8},
}

// bare returns the private bytes of a device without a provider. They are empty for a device
// that has one.
func (d *Device) bare() bareBytes {
	if d.provider != nil {
		return bareBytes{}
	}
	return bareDrivers[d.info.Driver]
}

func (b bareBytes) open() driver.UHW { return driver.UHW{In: b.openIn, Out: room(b.openOut)} }
func (b bareBytes) pd() driver.UHW   { return driver.UHW{Out: room(b.pdOut)} }
func (b bareBytes) mr() driver.UHW   { return driver.UHW{In: room(b.mrIn), Out: room(b.mrOut)} }

func (b bareBytes) target() driver.UHW {
	return driver.UHW{In: room(b.xrcIn), Out: room(b.xrcOut)}
}

func room(n int) []byte {
	if n == 0 {
		return nil
	}
	return make([]byte, n)
}

// openBare opens the device without a provider.
func (d *Device) openBare() error {
	err := d.issueGetContext(d.bare().open(), nil)
	if err == nil {
		return nil
	}
	hint := contextHint(err)
	if _, known := bareDrivers[d.info.Driver]; hint == "" && !known && (errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EFAULT)) {
		hint = "this kernel driver may require private bytes, which only a provider for it knows"
	}
	return d.fail("open", err, hint)
}
