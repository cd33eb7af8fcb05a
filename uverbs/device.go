package uverbs

import (
	"errors"
	"fmt"
	"io"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/verbs"
)

// Device is an open RDMA device.
//
// The driver decides what the removal of the RDMA device does to a Device. With mlx5, erdma and most other drivers,
// AsyncEvent returns [verbs.EventDeviceFatal] once. From then on all waits, and all calls that reach the kernel, fail
// with EIO, except Close. The drivers siw and efa, and rxe before Linux 7.3, report nothing, and the Device works as
// before: the kernel waits, and so does the command that removes the device, until every process has closed it. In both
// cases no process can find the device or open it any more, and connections of package rdmacm end with an error.
//
// C: struct ibv_context
type Device struct {
	object
	info        DeviceInfo
	file        *deviceFile
	provider    driver.Context // nil if the program links none that fits
	mismatch    string         // why the linked provider does not fit, or ""
	compVectors uint32
	cookies     atomic.Uint64
	attr        atomic.Pointer[verbs.DeviceAttr] // set by the first Attr
	regions     regions
	windows     map[uint32]*MW // by the upper 24 bits of their keys; guarded by graph
	events      *asyncEvents
	counting    sync.Mutex // held while flow rules with counters are created and closed
	cleanup     runtime.Cleanup
}

// newDevice returns a Device on an open uverbs file, of the kernel or of a model. It takes
// ownership of file, even if it fails. getContext creates the kernel's context or, for an
// imported device, queries the existing one.
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
	d.events, d.file.events = events, events
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
	if d.mismatch = d.info.mismatch(p); d.mismatch != "" {
		return d.openBare()
	}
	if _, err := d.provide(p.Open, d.issueGetContext); err != nil {
		return d.fail("open", err, contextHint(err))
	}
	return nil
}

// provide opens the device through its provider. issue makes the call to the kernel. The
// provider's memory is freed with the device, unless the caller frees it.
func (d *Device) provide(open func(*driver.Open) (driver.Context, error), issue func(driver.UHW, []driver.Attr) error) (*memory, error) {
	c := d.creation(nil)
	r := &driver.Open{Call: c, Device: driverDevice{c.memory, d}}
	c.issue = func(u driver.UHW, extra []driver.Attr) error {
		err := issue(u, extra)
		r.CompVectors = d.compVectors
		return err
	}
	ctx, err := open(r)
	if err = c.made(err, noop); err != nil {
		return nil, err
	}
	d.provider = ctx
	return c.memory, nil
}

func (d *Device) issueGetContext(u driver.UHW, extra []driver.Attr) error {
	r := d.request(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_GET_CONTEXT)
	defer r.Free()
	ioctl.Out(r, abi.UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, &d.compVectors)
	return d.doWith(r, u, extra)
}

// Info returns the device's description from discovery.
func (d *Device) Info() DeviceInfo { return d.info }

// CompVectors returns the number of completion vectors that a CQ can choose from.
func (d *Device) CompVectors() uint32 { return d.compVectors }

// Close closes the device. All objects created from it must be closed first.
//
// C: ibv_close_device
func (d *Device) Close() error {
	if d == nil {
		return closeNil("Device")
	}
	return d.close(noop, func() error {
		d.cleanup.Stop()
		return errors.Join(d.closeProvider(), d.file.Close())
	})
}

// cookie returns a number that identifies an object in the kernel's events. It is never 0
// and never used again, so a late event finds no other object.
func (d *Device) cookie() uint64 { return d.cookies.Add(1) }

func (d *Device) request(object, method uint16) *ioctl.Request {
	return ioctl.New(uint32(d.info.Driver), object, method)
}

// noDevice stands for the device of objects that have none.
var noDevice = &Device{file: &deviceFile{closed: true, pins: make(map[*runtime.Pinner]struct{})}}

// noProvider returns the error of creating an object with queues without a provider.
func (d *Device) noProvider(op, object string) error {
	if d.isZero() {
		return d.fail("use", verbs.ErrNoProvider, "")
	}
	if d.mismatch != "" {
		return &verbs.Error{Op: op, Object: object, Device: d.info.Name, Err: verbs.ErrNoProvider, Hint: d.mismatch}
	}
	return &verbs.Error{Op: op, Object: object, Device: d.info.Name, Err: verbs.ErrNoProvider,
		Hint: fmt.Sprintf("import _ %q, if it exists for this driver", fmt.Sprintf("github.com/goverbs/goverbs/provider/%v", d.info.Driver))}
}

// writeCommand returns a request for a command that predates the ioctl interface.
func writeCommand[T any](d *Device, command uint32, in *T) *ioctl.Request {
	return ioctl.Write(uint32(d.info.Driver), command, in)
}

// newCommand is like writeCommand, but the command can be issued many times. It bypasses
// deviceFile's check for Close, because the command's object is closed before its device.
func newCommand[In, Answer any](d *Device, command uint32, in In) *ioctl.Command {
	return ioctl.NewCommand[In, Answer](d.file.File, uint32(d.info.Driver), command, in)
}

// QueryDevice returns the device's attributes, as the kernel reports them now.
//
// C: ibv_query_device_ex
func (d *Device) QueryDevice() (*verbs.DeviceAttr, error) {
	p, ok := d.provider.(driver.AttrExtender)
	if !ok || p.AttrBytes() == 0 {
		return d.query(nil)
	}
	private := make([]byte, p.AttrBytes())
	a, err := d.query(private)
	if err == nil {
		p.ExtendAttr(a, private)
	}
	return a, err
}

// query is Query with room for the driver's private bytes in out.
func (d *Device) query(out []byte) (*verbs.DeviceAttr, error) {
	var resp abi.IbUverbsExQueryDeviceResp
	r := writeCommand(d, ioctl.Extended(abi.IB_USER_VERBS_EX_CMD_QUERY_DEVICE), &abi.IbUverbsExQueryDevice{})
	defer r.Free()
	ioctl.Out(r, abi.UVERBS_ATTR_CORE_OUT, &resp)
	r.Driver(nil, out)
	if err := r.Do(d.file); err != nil {
		return nil, d.fail("query", err, "")
	}
	return newDeviceAttr(&resp), nil
}

// Attr returns a copy of the result of the first Query. Most attributes never change, and
// each Query is a system call.
//
// C: the attributes that verbs_context keeps for its providers and librdmacm
func (d *Device) Attr() (*verbs.DeviceAttr, error) {
	a := d.attr.Load()
	if a == nil {
		var err error
		if a, err = d.QueryDevice(); err != nil {
			return nil, err
		}
		d.attr.Store(a)
	}
	attr := *a // it has no slices or pointers
	return &attr, nil
}

func newDeviceAttr(resp *abi.IbUverbsExQueryDeviceResp) *verbs.DeviceAttr {
	b := &resp.Base
	a := &verbs.DeviceAttr{
		FWVer: b.FwVer, NodeGUID: guidFromBE(b.NodeGuid), SysImageGUID: guidFromBE(b.SysImageGuid),
		MaxMRSize: b.MaxMrSize, PageSizeCap: b.PageSizeCap,
		VendorID: b.VendorId, VendorPartID: b.VendorPartId, HWVer: b.HwVer,
		CapFlags: verbs.DeviceCap(b.DeviceCapFlags) | verbs.DeviceCap(resp.DeviceCapFlagsEx),
		MaxQP:    b.MaxQp, MaxQPWR: b.MaxQpWr, MaxSGE: b.MaxSge, MaxSGERead: b.MaxSgeRd,
		MaxCQ: b.MaxCq, MaxCQE: b.MaxCqe, MaxMR: b.MaxMr, MaxPD: b.MaxPd, MaxMW: b.MaxMw, MaxAH: b.MaxAh,
		MaxQPRDAtom: b.MaxQpRdAtom, MaxResRDAtom: b.MaxResRdAtom, MaxQPInitRDAtom: b.MaxQpInitRdAtom,
		AtomicCap: verbs.AtomicCap(b.AtomicCap), MaxMcastGrp: b.MaxMcastGrp, MaxMcastQPAttach: b.MaxMcastQpAttach,
		MaxTotalMcastQPAttach: b.MaxTotalMcastQpAttach,
		MaxSRQ:                b.MaxSrq, MaxSRQWR: b.MaxSrqWr, MaxSRQSGE: b.MaxSrqSge,
		MaxPKeys: b.MaxPkeys, LocalCAAckDelay: b.LocalCaAckDelay, PhysPortCnt: int(b.PhysPortCnt),
		TimestampMask: resp.TimestampMask, HCACoreClock: resp.HcaCoreClock, MaxDMSize: resp.MaxDmSize,
		ODP: newODPCaps(resp),
	}
	a.CQModerationMaxCount = resp.CqModerationCaps.MaxCqModerationCount
	a.CQModerationMaxPeriod = resp.CqModerationCaps.MaxCqModerationPeriod
	a.RSS = verbs.RSSCaps{
		SupportedQPTypes: resp.RssCaps.SupportedQpts, MaxIndirectionTables: resp.RssCaps.MaxRwqIndirectionTables,
		MaxIndirectionTableSize: resp.RssCaps.MaxRwqIndirectionTableSize,
	}
	a.MaxWQTypeRQ, a.RawPacketCaps = resp.MaxWqTypeRq, resp.RawPacketCaps
	a.TagMatching = verbs.TagMatchingCaps{
		MaxRndvHdrSize: resp.TmCaps.MaxRndvHdrSize, MaxTags: resp.TmCaps.MaxNumTags, Flags: resp.TmCaps.Flags,
		MaxOps: resp.TmCaps.MaxOps, MaxSGE: resp.TmCaps.MaxSge,
	}
	return a
}

// guidFromBE converts a GUID from the kernel's big-endian form. Both supported platforms are
// little-endian.
func guidFromBE(v uint64) verbs.GUID { return verbs.GUID(bits.ReverseBytes64(v)) }

func newODPCaps(resp *abi.IbUverbsExQueryDeviceResp) verbs.ODPCaps {
	c := &resp.OdpCaps.PerTransportCaps
	return verbs.ODPCaps{
		General: verbs.ODPGeneral(resp.OdpCaps.GeneralCaps),
		RC:      verbs.ODPTransport(c.RcOdpCaps), UC: verbs.ODPTransport(c.UcOdpCaps), UD: verbs.ODPTransport(c.UdOdpCaps),
		XRC: verbs.ODPTransport(resp.XrcOdpCaps),
	}
}

// QueryClock reads the device's clock, which also provides the timestamps of completions
// ([verbs.WCExtTimestamp]). [verbs.DeviceAttr].HCACoreClock is the number of ticks in a
// millisecond. To get the ticks between two readings, subtract them and mask the difference with
// [verbs.DeviceAttr].TimestampMask, because the clock wraps around. Only the first reading
// makes a system call.
//
// mlx5 devices have such a clock. For others the error matches ErrNotSupported.
//
// C: ibv_query_rt_values_ex with IBV_VALUES_MASK_RAW_CLOCK
func (d *Device) QueryClock() (ticks uint64, err error) {
	err = d.using("query the clock of", func() error {
		p, ok := d.provider.(driver.ClockReader)
		if !ok {
			return d.fail("query the clock of", verbs.ErrNotSupported, "the device has no clock that programs can read")
		}
		if ticks, err = p.Clock(); err != nil {
			return d.fail("query the clock of", err, "")
		}
		return nil
	})
	return ticks, err
}

// Handles returns the kernel's handles of all objects of a kind that were created through
// this Device's descriptor, also by other processes that have it. Use it to find objects that
// were left open.
func (d *Device) Handles(kind verbs.ObjectKind) (handles []uint32, err error) {
	const most = 65535 / 4 // a request has room for no more
	err = d.using("list the objects of", func() error {
		for room := 64; ; room *= 4 {
			handles = make([]uint32, min(room, most))
			n, err := d.issueHandles(kind, handles)
			if err != nil {
				handles = nil
				return d.fail("list the objects of", err, "")
			}
			if int(n) < len(handles) || len(handles) == most { // the kernel counts only as many as there is room for
				handles = handles[:min(int(n), len(handles))]
				return nil
			}
		}
	})
	return handles, err
}

func (d *Device) issueHandles(kind verbs.ObjectKind, handles []uint32) (n uint32, err error) {
	r := d.request(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_INFO_HANDLES)
	defer r.Free()
	r.Const(abi.UVERBS_ATTR_INFO_OBJECT_ID, uint64(kind))
	ioctl.Out(r, abi.UVERBS_ATTR_INFO_TOTAL_HANDLES, &n)
	ioctl.OutSlice(r, abi.UVERBS_ATTR_INFO_HANDLES_LIST, handles)
	err = r.Do(d.file)
	return n, err
}

// Supports reports whether a QP of type t on this device accepts send work requests with
// opcode op. It makes no system call. For example, siw accepts no immediate data. PostSend
// refuses other opcodes with an error that matches ErrNotSupported. Supports asks the
// provider, so it returns false if there is none ([DeviceInfo.Provider] says why) or if the
// provider does not know.
//
// A device that supports an opcode may still refuse some requests with it. For example,
// [verbs.DeviceCap] has the types of OpFlush that a device supports. [Device.Probe] knows the
// other verbs.
func (d *Device) Supports(t verbs.QPType, op verbs.Opcode) bool {
	p, ok := d.provider.(driver.Supporter)
	return ok && p.Supports(t, op)
}

// deviceFile holds all resources of the kernel that the process has for one device: the
// descriptor and the queues that are mapped through it. Every mapping keeps the kernel's
// context alive, so the cleanup of an unreachable Device must unmap them as well as close the
// descriptor. That is safe, because a queue in use keeps its Device reachable.
type deviceFile struct {
	ioctl.File
	events *asyncEvents // nil until they are open
	calls  sync.RWMutex // held for reading by calls, for writing by Close
	closed bool
	mu     sync.Mutex                   // guards the fields below
	memory map[io.Closer]struct{}       // mappings and memory of queues
	pins   map[*runtime.Pinner]struct{} // of registered Go memory; the runtime panics if it collects a Pinner that pins
}

func newDeviceFile(f ioctl.File) *deviceFile {
	return &deviceFile{File: f, memory: make(map[io.Closer]struct{}), pins: make(map[*runtime.Pinner]struct{})}
}

// Ioctl refuses calls after Close, because the descriptor's number may belong to another
// file then.
func (f *deviceFile) Ioctl(r *ioctl.Request) error {
	if f == nil { // of a zero Device
		return verbs.ErrClosed
	}
	f.calls.RLock()
	defer f.calls.RUnlock()
	if f.closed {
		return verbs.ErrClosed
	}
	return f.File.Ioctl(r)
}

func (f *deviceFile) hold(c io.Closer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.memory[c] = struct{}{}
}

func (f *deviceFile) release(c io.Closer) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.memory, c)
	return c.Close()
}

// pin keeps b in place until unpin.
func (f *deviceFile) pin(b []byte) *runtime.Pinner {
	p := new(runtime.Pinner)
	p.Pin(&b[0])
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pins[p] = struct{}{}
	return p
}

func (f *deviceFile) unpin(p *runtime.Pinner) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.pins, p)
	p.Unpin()
}

// Close frees all resources, mappings first, because a mapping keeps the kernel's context
// alive. Closed objects have freed theirs; the mappings of the provider for the whole device
// remain.
func (f *deviceFile) Close() error {
	var errs []error
	if f.events != nil {
		errs = append(errs, f.events.close()) // first, because their goroutine makes calls
	}
	f.calls.Lock()
	defer f.calls.Unlock()
	f.closed = true
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.memory {
		errs = append(errs, c.Close())
	}
	clear(f.memory)
	errs = append(errs, f.File.Close())
	for p := range f.pins {
		p.Unpin()
	}
	clear(f.pins)
	return errors.Join(errs...)
}

// abandon is the cleanup of an unreachable Device.
func (f *deviceFile) abandon() { _ = f.Close() } // there is no caller to return the error to
