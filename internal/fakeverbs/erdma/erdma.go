// Package erdma is the model of the eRDMA driver and its device, for package fakeverbs.
package erdma

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/mmap"
)

func init() {
	fakeverbs.Register(&fakeverbs.Driver{
		ID: abi.RDMA_DRIVER_ERDMA, Limits: limits, New: func(k *fakeverbs.Kernel) fakeverbs.Model { return &model{k: k} },
		NewShared: func() any { return new(device) },
		OnRoCE:    onRoCE,
		LetsGo:    true,
		Software:  true, // it has only the features of software drivers
		Refusals:  map[string]fakeverbs.Refusal{"GET_CONTEXT": {Out: 40, Err: syscall.EINVAL}},
	})
}

// model is a model of the eRDMA driver and of its device. Queues and doorbell records are user memory,
// doorbells are registers. The rules come from the kernel driver and from rdma-core's provider. A comment
// marks choices where these are silent. The model records each breach of a rule as a violation; see
// [fakeverbs.Kernel.Violations].
type model struct {
	fakeverbs.Bare
	k       *fakeverbs.Kernel
	options Options
	page    []byte // buffer for reading new queues
}

// Options are the differences between eRDMA devices.
type Options struct {
	// SDBType is the layout of the context's send doorbells, an sdb number. SDBOffset is their
	// offset with type 1.
	SDBType, SDBOffset uint32
	NoAtomics          bool
	// OldRecords permits the behavior of rdma-core before version 65: records of CQs may initially be
	// 0, and those of QPs may have the former contents of the memory.
	OldRecords bool
	// Late means that the device sees stores some time after they were made, when there may have been
	// further ones. So records may be newer, and doorbells may be missing.
	Late bool
}

// The layouts of a page of send doorbells.
const (
	sdbEntry  = 1
	erdmaPage = 4096
	maxWR     = 8192
	maxCQE    = 1 << 20
	maxSGE    = 6
	maxInline = 96
)

// The offsets at which the pages of doorbells are mapped, in system pages.
const (
	sdb = iota + 1
	rdb
	cdb
)

func limits() fakeverbs.Limits {
	l := fakeverbs.BareLimits()
	d := &l.Device
	d.VendorId, d.VendorPartId, d.MaxQpWr, d.MaxCqe = 0x1ded, 0x107f, maxWR, maxCQE
	d.MaxCq, d.MaxMr, d.MaxPd, d.MaxSge = 1<<17, 1<<17, 1<<17, 1 // the least of 6 to send and 1 to receive
	d.MaxQpRdAtom, d.MaxQpInitRdAtom, d.AtomicCap, d.PageSizeCap = 128, 128, 2, 0x7ffff000
	l.Port.MaxMsgSz = 1<<32 - 1
	return l
}

// onRoCE changes the limits of a device that is on RoCE v2 instead of iWARP. Only the kernel uses its
// address handles.
func onRoCE(l *fakeverbs.Limits) {
	l.Device.MaxPkeys, l.Device.MaxAh = maxPKeys, 1<<16
	l.Port.GidTblLen, l.Port.PkeyTblLen, l.Port.Flags = 16, maxPKeys, abi.IB_UVERBS_QPF_GRH_REQUIRED
}

const maxPKeys = 1

// Has returns false for calls that erdma doesn't implement. On RoCE the driver creates address handles, but
// not for user space, which would need another function.
func (*model) Has(call string) bool {
	switch call {
	case "CREATE_AH", "AH_DESTROY", "ALLOC_MW", "MW_DESTROY", "RESIZE_CQ", "REQ_NOTIFY_CQ", "POST_SEND", "ATTACH_MCAST", "DETACH_MCAST",
		"REREG_MR", "SRQ_CREATE", "SRQ_DESTROY", "MODIFY_SRQ", "QUERY_SRQ":
		return false
	}
	return true
}

func (e *model) Context(r *ioctl.Request) error {
	e.wantNoInput("GET_CONTEXT", r)
	o := &e.options
	page := uint64(fakeverbs.PageSize)
	return fakeverbs.AnswerDriver(r, abi.ErdmaUrespAllocCtx{DevId: 0x107f, SdbType: o.SDBType, SdbOffset: o.SDBOffset,
		Sdb: sdb * page, Rdb: rdb * page, Cdb: cdb * page})
}

// wantNoInput checks that there are no private bytes, which newer kernels refuse for the method.
func (e *model) wantNoInput(call string, r *ioctl.Request) {
	if in, ok := r.Bytes(abi.UVERBS_ATTR_UHW_IN); ok && len(in) > 0 {
		e.note("%s carries %d private bytes, and takes none", call, len(in))
	}
}

func (e *model) note(format string, args ...any) { e.k.Device.Note(format, args...) }

// MapRegisters requires the length that was offered.
func (e *model) MapRegisters(_ *fakeverbs.Kernel, key int64, length int) error {
	if page := key / int64(fakeverbs.PageSize); key%int64(fakeverbs.PageSize) != 0 || page < sdb || page > cdb || fakeverbs.RoundUp(length) != fakeverbs.RoundUp(erdmaPage) {
		return syscall.EINVAL
	}
	return nil
}

// Map fails, because the queues are user memory.
func (*model) Map(*fakeverbs.Kernel, int64, int) (*mmap.Region, error) { return nil, syscall.EINVAL }

// input reads the private bytes of a create call. Linux 6.12 accepts fewer bytes, and leaves the rest
// uninitialized.
func input[T any](e *model, call string, r *ioctl.Request) (in T, err error) {
	b, _ := r.Bytes(abi.UVERBS_ATTR_UHW_IN)
	if len(b) != len(abi.Bytes(&in)) {
		e.note("%s carries %d private bytes, and takes %d", call, len(b), len(abi.Bytes(&in)))
		return in, syscall.EINVAL
	}
	ioctl.Argument(r, abi.UVERBS_ATTR_UHW_IN, &in)
	return in, nil
}

// answerWhole writes an answer that the kernel writes completely, even if there is too little room.
func answerWhole[T any](e *model, call string, r *ioctl.Request, v T) error {
	if room, _ := r.Bytes(abi.UVERBS_ATTR_UHW_OUT); len(room) < len(abi.Bytes(&v)) {
		e.note("%s has room for %d private bytes, and the kernel writes %d", call, len(room), len(abi.Bytes(&v)))
		return syscall.EFAULT
	}
	return fakeverbs.AnswerDriver(r, v)
}

func (e *model) RegMR(h uint32, r *ioctl.Request) (uint32, error) {
	e.wantNoInput("REG_MR", r)
	return (h + 1) << 8, nil
}

// OptionsOf returns the options of an opening, to be set before use, or nil if its
// device is another driver's.
func OptionsOf(k *fakeverbs.Kernel) *Options {
	if e, ok := k.Model.(*model); ok {
		return &e.options
	}
	return nil
}

// CQOf returns the device's side of a completion queue, or nil.
func CQOf(cq *fakeverbs.CQ) *CQ {
	q, _ := cq.Queue.(*CQ)
	return q
}

// QPOf returns the device's side of a queue pair, or nil.
func QPOf(qp *fakeverbs.QP) *QP {
	q, _ := qp.Made.(*QP)
	return q
}

// IsArmed implements [fakeverbs.CQQueue].
func (q *CQ) IsArmed() bool { return q.armed }

func (e *model) AdjustLimits(l *fakeverbs.Limits) {
	if e.options.NoAtomics {
		l.Device.AtomicCap = 0
	}
}

const entry = 32 // bytes of any entry

// pin pins a queue, as the kernel does. All of its memory must exist.
func (e *model) pin(what string, addr uint64, length, least uint32) error {
	if addr%erdmaPage != 0 {
		e.note("%s: the queue at %#x is not page-aligned", what, addr)
	}
	if length < least || length == 0 {
		return syscall.EINVAL
	}
	if length%erdmaPage != 0 {
		e.note("%s: the queue has %d bytes, which are no pages", what, length)
	}
	return e.k.User.Check(addr, uint64(length))
}

// wantZeros checks that a new queue is empty.
func (e *model) wantZeros(what string, addr uint64, length uint32) {
	if e.page == nil {
		e.page = make([]byte, erdmaPage)
	}
	for at := uint64(0); at < uint64(length); at += erdmaPage {
		part := e.page[:min(erdmaPage, uint64(length)-at)]
		if e.k.User.Read(addr+at, part) != nil {
			return
		}
		if i := slices.IndexFunc(part, func(v byte) bool { return v != 0 }); i >= 0 {
			e.note("%s: the new queue is not zeroed at %#x", what, at+uint64(i))
			return
		}
	}
}

// recordSize is the length of a slot of doorbell records.
const recordSize = 16

// pinRecord pins the page of a slot of doorbell records, as the kernel does.
func (e *model) pinRecord(what string, addr uint64) error {
	if addr%recordSize != 0 {
		e.note("%s: the doorbell record at %#x is not aligned to 16 bytes", what, addr)
	}
	if owner := e.recordOwner(addr); owner != "" {
		e.note("%s: the doorbell record at %#x is that of %s", what, addr, owner)
	}
	page := addr &^ uint64(fakeverbs.PageSize-1)
	return e.k.User.Check(page, uint64(fakeverbs.PageSize))
}

// recordSlot is a slot of an opening's memory.
type recordSlot struct {
	k    *fakeverbs.Kernel
	addr uint64
}

// device is the state that all openings of an eRDMA device share, apart from queue pairs. The device's lock
// guards it.
type device struct {
	records map[recordSlot]string
	lastCQN uint32
	cqs     map[uint32]*CQ
}

func shared(d *fakeverbs.Device) *device { return d.Shared.(*device) }

// keepRecord records the owner of a slot, until forgetRecord.
func (e *model) keepRecord(addr uint64, owner string) {
	d := e.k.Device
	d.Lock()
	defer d.Unlock()
	if shared(d).records == nil {
		shared(d).records = make(map[recordSlot]string)
	}
	shared(d).records[recordSlot{e.k, addr}] = owner
}

func (e *model) recordOwner(addr uint64) string {
	d := e.k.Device
	d.Lock()
	defer d.Unlock()
	return shared(d).records[recordSlot{e.k, addr}]
}

func (e *model) forgetRecord(addr uint64) {
	d := e.k.Device
	d.Lock()
	defer d.Unlock()
	delete(shared(d).records, recordSlot{e.k, addr})
}

// load reads a word of a record. The page is pinned, so it exists as long as the process keeps to the rules.
func (e *model) load(what fmt.Stringer, object uint32, addr uint64) (v uint64, ok bool) {
	return e.loadAs(fakeverbs.Crossing{Object: object}, what, addr)
}

// loadAs is load, but passes c with the word to the observer.
func (e *model) loadAs(c fakeverbs.Crossing, what fmt.Stringer, addr uint64) (v uint64, ok bool) {
	v, err := e.k.User.Load64(addr)
	if err != nil {
		e.gone(err, "%s: the doorbell record at %#x is gone", what, addr)
		return 0, false
	}
	if e.k.Cross == nil {
		return v, true
	}
	c.Kind, c.Value = fakeverbs.Record, v
	return e.k.ShowCrossing(c).Value, true
}

// gone records a violation because memory doesn't exist, unless the process has ended.
func (e *model) gone(err error, format string, args ...any) {
	if !errors.Is(err, syscall.ESRCH) {
		e.note(format, args...)
	}
}
