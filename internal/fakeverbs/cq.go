package fakeverbs

import (
	"encoding/binary"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/wait"
)

// CQ is the kernel's side of a completion queue.
type CQ struct {
	Moderation abi.IbUverbsCqModeration
	Cookie     uint64
	Entries    uint32
	Flags      uint64

	// Queue is the model's queue, or nil if the model has none.
	Queue CQQueue

	k       *Kernel
	ID      uint32
	channel *channel
	events  int
	Mem     QueueMemory
}

// CQQueue is a model's side of a completion queue. The kernel's lock is held.
type CQQueue interface {
	// IsArmed reports whether user space has requested an event.
	IsArmed() bool
	// Free is called when the CQ is destroyed.
	Free()
}

// NewCQ adds cq to the opening, for models that need a CQ without a request.
func NewCQ(k *Kernel, cq *CQ) *CQ {
	cq.k = k
	return cq
}

// Kernel returns the opening that the CQ belongs to.
func (cq *CQ) Kernel() *Kernel { return cq.k }

// HasChannel reports whether the CQ has a completion channel.
func (cq *CQ) HasChannel() bool { return cq.channel != nil }

func (k *Kernel) createCQ(r *ioctl.Request) error {
	n, _ := r.Value(abi.UVERBS_ATTR_CREATE_CQ_CQE)
	vector, _ := r.Value(abi.UVERBS_ATTR_CREATE_CQ_COMP_VECTOR)
	if n == 0 || vector >= CompVectors || !k.context {
		return syscall.EINVAL
	}
	cq := &CQ{k: k, Entries: RoundPow2(uint32(n))}
	cq.Flags, _ = r.Value(abi.UVERBS_ATTR_CREATE_CQ_FLAGS)
	cq.Cookie, _ = r.Value(abi.UVERBS_ATTR_CREATE_CQ_USER_HANDLE)
	if fd, ok := r.Value(abi.UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL); ok {
		if cq.channel = k.files[int32(fd)]; cq.channel == nil {
			return syscall.EBADF
		}
	}
	cq.ID = k.Add("CQ", cq, cq.free)
	if err := k.Model.CreateCQ(cq, r); err != nil {
		_ = k.Remove("CQ", cq.ID)
		return err
	}
	r.SetObject(abi.UVERBS_ATTR_CREATE_CQ_HANDLE, cq.ID)
	return Answer(r, abi.UVERBS_ATTR_CREATE_CQ_RESP_CQE, cq.Entries)
}

func (cq *CQ) free() {
	if cq.Queue != nil {
		cq.Queue.Free()
	}
	cq.Mem.Free()
}

func (k *Kernel) destroyCQ(r *ioctl.Request) error {
	h, _ := r.Value(abi.UVERBS_ATTR_DESTROY_CQ_HANDLE)
	_, cq, err := find[*CQ](k, "CQ", uint32(h))
	if err != nil {
		return err
	}
	if err := k.Remove("CQ", uint32(h)); err != nil {
		return err
	}
	return Answer(r, abi.UVERBS_ATTR_DESTROY_CQ_RESP, abi.IbUverbsDestroyCqResp{
		CompEventsReported:  cq.channel.reported(cq.Cookie, compEventSize),
		AsyncEventsReported: k.async.reported(cq.Cookie, asyncEventSize),
	})
}

// CQs returns the completion queues, lowest handle first.
func (k *Kernel) CQs() []*CQ { return bodies[*CQ](k) }

// resizeCQ resizes a CQ. The driver checks the room, because it knows the queue's entries.
func (k *Kernel) resizeCQ(r *ioctl.Request) error {
	in := request[abi.IbUverbsResizeCq](r)
	_, cq, err := find[*CQ](k, "CQ", in.CqHandle)
	if err != nil {
		return err
	}
	if err := k.Model.ResizeCQ(cq, in.Cqe, r); err != nil {
		return err
	}
	return respond(r, abi.IbUverbsResizeCqResp{Cqe: cq.Entries})
}

// reqNotifyCQ arms a CQ. It does not allocate.
func (k *Kernel) reqNotifyCQ(r *ioctl.Request) error {
	var in abi.IbUverbsReqNotifyCq
	ioctl.Argument(r, abi.UVERBS_ATTR_CORE_IN, &in)
	return k.armCQ(&in)
}

func (k *Kernel) armCQ(in *abi.IbUverbsReqNotifyCq) error {
	if k.Cross != nil && !k.crossDoorbell("REQ_NOTIFY_CQ", abi.Bytes(in), in.CqHandle, 0) {
		return nil
	}
	_, cq, err := find[*CQ](k, "CQ", in.CqHandle)
	if err != nil {
		return err
	}
	if in.SolicitedOnly != 0 {
		return k.Model.Notify(cq, abi.IB_CQ_SOLICITED)
	}
	return k.Model.Notify(cq, abi.IB_CQ_NEXT_COMP)
}

// Armed reports whether user space has requested an event.
func (cq *CQ) Armed() bool {
	cq.k.mu.Lock()
	defer cq.k.mu.Unlock()
	return cq.Queue != nil && cq.Queue.IsArmed()
}

// Awaited reports whether a reader waits for the events of the CQ's channel.
func (cq *CQ) Awaited() bool { return cq.channel.readers.Load() > 0 }

// mostOverflows is the number of lost completions that an opening reports. A kernel has no limit, but here
// there may be no reader, and the descriptor has room for four times that number.
const mostOverflows = 1000

// Overflow reports a lost completion.
func (cq *CQ) Overflow() {
	if cq.k.overflows < mostOverflows {
		cq.k.overflows++
		cq.k.Raise(cq.Cookie, abi.IB_EVENT_CQ_ERR)
	}
}

// Event raises an event, whether or not one was requested.
func (cq *CQ) Event() {
	cq.k.mu.Lock()
	defer cq.k.mu.Unlock()
	cq.RaiseEvent()
}

// Events returns the number of events that the CQ has raised.
func (cq *CQ) Events() int {
	cq.k.mu.Lock()
	defer cq.k.mu.Unlock()
	return cq.events
}

// EventBytes sends arbitrary bytes to the channel.
func (cq *CQ) EventBytes(b []byte) {
	cq.k.mu.Lock()
	defer cq.k.mu.Unlock()
	cq.channel.send(b)
}

// RaiseEvent raises a completion event. The lock is held.
func (cq *CQ) RaiseEvent() {
	cq.events++
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], cq.Cookie)
	cq.channel.send(b[:])
}

// Raise raises an asynchronous event of the object with a cookie. The lock is held.
func (k *Kernel) Raise(element uint64, typ uint32) {
	var b [16]byte
	binary.NativeEndian.PutUint64(b[:], element)
	binary.NativeEndian.PutUint32(b[8:], typ)
	k.async.send(b[:])
}

// RoundPow2 rounds up to a power of two, or to 1<<31.
func RoundPow2(n uint32) uint32 {
	p := uint32(1)
	for p < n && p < 1<<31 {
		p <<= 1
	}
	return p
}

// modifyCQ changes when a CQ raises events.
func (k *Kernel) modifyCQ(r *ioctl.Request) error {
	in := request[abi.IbUverbsExModifyCq](r)
	switch {
	case in.AttrMask == 0, in.Reserved != 0:
		return syscall.EINVAL
	case in.AttrMask > 1:
		return syscall.EOPNOTSUPP
	}
	_, cq, err := find[*CQ](k, "CQ", in.CqHandle)
	most := &k.Device.Limits.Moderation
	if err != nil || in.Attr.CqCount > most.MaxCqModerationCount || in.Attr.CqPeriod > most.MaxCqModerationPeriod {
		return syscall.EINVAL
	}
	cq.Moderation = in.Attr
	return nil
}

// channel is an event descriptor. It is a pipe, so that the reading end is in Go's netpoller as the real
// one is. In a synctest bubble it is in memory.
type channel struct {
	k           *Kernel
	fd          int32
	sink        Events        // for another process, or
	memory      *memoryEvents // in a bubble, or
	read, write *os.File
	readers     atomic.Int32 // readers that are in a system call or parked
}

// eventFile is the user's end.
type eventFile struct {
	wait.Source
	k *Kernel
	c *channel
}

func (f eventFile) Await(limit time.Duration) bool {
	f.c.readers.Add(1)
	defer f.c.readers.Add(-1)
	return f.Source.Await(limit)
}

func (f eventFile) Read(b []byte) (int, error) {
	f.c.readers.Add(1)
	defer f.c.readers.Add(-1)
	return f.Source.Read(b)
}

func (f eventFile) Close() error {
	f.k.mu.Lock()
	defer f.k.mu.Unlock()
	f.c.forget()
	err := f.Source.Close() // first, so that a reader gets this error and not the end of a pipe
	f.c.closeEnds()
	return err
}

// firstFD is the first fake descriptor. Real ones are smaller.
const firstFD = 1 << 20

func (k *Kernel) newChannel() (*channel, error) {
	c := &channel{k: k, fd: firstFD + int32(k.fds.Take(func(i uint32) bool { return k.files[firstFD+int32(i)] != nil }))}
	if err := c.open(); err != nil {
		c.forget()
		return nil, err
	}
	k.files[c.fd] = c
	return c, nil
}

func (c *channel) close() {
	c.forget()
	c.closeEnds()
}

// forget frees the descriptor.
func (c *channel) forget() {
	delete(c.k.files, c.fd)
	c.k.fds.Free(uint32(c.fd - firstFD))
}

func (c *channel) open() (err error) {
	if c.k.Channel != nil {
		c.sink, err = c.k.Channel(c.fd)
		return err
	}
	if c.k.InBubble {
		c.memory = newMemoryEvents()
		return nil
	}
	c.read, c.write, err = os.Pipe()
	return err
}

// events returns the reading end.
func (c *channel) events() (wait.Source, error) {
	if c.memory != nil {
		return c.memory, nil
	}
	return wait.OpenFile(c.read)
}

func (c *channel) closeEnds() {
	if c.sink != nil {
		c.sink.Close()
		return
	}
	if c.memory != nil {
		_ = c.memory.Close()
		return
	}
	_ = c.read.Close()
	_ = c.write.Close()
}

// hangUp makes reads fail after all events have been read.
func (c *channel) hangUp(err error) {
	if c.memory != nil {
		c.memory.end(err)
	}
}

// send sends a record. With a pipe it does not allocate.
func (c *channel) send(record []byte) {
	switch {
	case c == nil:
	case c.sink != nil:
		c.sink.Send(append([]byte(nil), record...))
	case c.memory != nil:
		c.memory.send(record)
	default:
		_, _ = c.write.Write(record) // an error means that there is no reader
	}
}

func (k *Kernel) createCompChannel(r *ioctl.Request) error {
	c, err := k.newChannel()
	if err != nil {
		return err
	}
	return respond(r, abi.IbUverbsCreateCompChannelResp{Fd: uint32(c.fd)})
}

func (k *Kernel) asyncEventAlloc(r *ioctl.Request) error {
	c, err := k.newChannel()
	if err != nil {
		return err
	}
	if k.async == nil {
		k.async = c
	}
	r.SetObject(abi.UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, uint32(c.fd))
	return nil
}

// Async raises an asynchronous event. element is the cookie of an object, or a port.
func (k *Kernel) Async(element uint64, typ uint32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.Raise(element, typ)
}

// AsyncBytes sends arbitrary bytes as an asynchronous event.
func (k *Kernel) AsyncBytes(record []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.async.send(record)
}

// Events receives the completion or asynchronous events of a descriptor in place of a pipe of this
// process. Its methods are called with the kernel's lock held.
type Events interface {
	Send(record []byte)
	// Reported is called when an object is destroyed. It drops the object's unread records and
	// returns their number. A record has size bytes and begins with the cookie.
	Reported(cookie uint64, size int) uint32
	Close()
}

// CloseChannel closes a descriptor from CREATE_COMP_CHANNEL or ASYNC_EVENT_ALLOC. Sources that Events
// returned close theirs themselves.
func (k *Kernel) CloseChannel(fd int32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c := k.files[fd]; c != nil {
		c.close()
	}
}

// Sizes of the records.
const (
	compEventSize  = 8
	asyncEventSize = 16
)

// reported returns the number of read events of an object, if it is known.
func (c *channel) reported(cookie uint64, size int) uint32 {
	if c == nil || c.sink == nil {
		return 0
	}
	return c.sink.Reported(cookie, size)
}
