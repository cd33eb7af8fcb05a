package uverbs

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/wait"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

// CQ is a completion queue: where work requests report how they ended.
//
// C: struct ibv_cq
type CQ struct {
	object
	dev     *Device
	channel *CompChannel
	handle  uint32
	cookie  uint64

	events  *wait.Listener
	ended   atomic.Pointer[error] // by End
	ring    driver.CQ             // the same from the CQ's first day to its last
	peek    *mmap.Peek            // of ring; guarded by mu
	cleaner driver.Cleaner
	counter driver.EventCounter
	ext     driver.ExtPoller // of a CQ made with Ext only
	memory  *memory

	mu     driver.Lock // guards what follows, and what ring does
	cqe    int
	old    []verbs.WC    // completions taken off the ring when a QP left, before the device's
	oldExt []verbs.WCExt // beside old, with ext
	made   []verbs.WC    // completions that a provider made itself, behind the device's
	qps    map[uint32]*QP
	closed bool
	odd    bool // closed, or old or made is not empty: Poll goes the long way
}

// CQOptions refine [Device.CreateCQ]. Nil and the zero value mean a CQ to poll.
type CQOptions struct {
	Channel    *CompChannel // where events go; needed for Wait and Arm
	CompVector uint32       // completion vector, below Device.CompVectors
	Flags      verbs.CQFlags
	Ext        verbs.WCExtMask // what PollExt shall tell; not all drivers can
}

// CreateCQ makes a completion queue with room for at least entries completions.
// Overrunning it loses completions, so size it for all work requests that can be
// outstanding on the QPs that use it.
//
// C: ibv_create_cq
func (d *Device) CreateCQ(entries int, opts *CQOptions) (*CQ, error) {
	if d.provider == nil {
		return nil, d.noProvider("create", "CQ")
	}
	if opts == nil {
		opts = &CQOptions{}
	}
	cq := &CQ{dev: d, channel: opts.Channel, cookie: d.cookie()}
	cq.events = wait.NewListener(opts.Channel.events(), cq.cookie, cq)
	if err := cq.attach("CQ", &d.object, opts.Channel.asObject()); err != nil {
		return nil, err
	}
	if err := cq.create(entries, opts); err != nil {
		cq.detach()
		return nil, cq.fail("create", err, cq.createHint(err, entries, opts.CompVector))
	}
	cq.setNumber(cq.handle)
	return cq, nil
}

func (cq *CQ) create(entries int, opts *CQOptions) error {
	c := cq.dev.creation(nil)
	r := &driver.CreateCQ{Call: c, CQE: entryCount(entries), Vector: opts.CompVector, HasChannel: opts.Channel != nil,
		Flags: opts.Flags, Ext: opts.Ext}
	c.issue = func(u driver.UHW, extra []driver.Attr) error { return cq.issueCreate(r, u, extra) }
	ring, err := cq.dev.provider.CreateCQ(r)
	if cq.ext, _ = ring.(driver.ExtPoller); opts.Ext == 0 {
		cq.ext = nil
	} else if err == nil && cq.ext == nil {
		err = verbs.ErrNotSupported
	}
	if err = c.made(err, func() error { return destroy(ring, func() error { return cq.issueDestroy(r.Handle) }) }); err != nil {
		return err
	}
	cq.handle, cq.cqe, cq.ring, cq.memory = r.Handle, int(r.CQE), ring, c.memory
	cq.cleaner, _ = ring.(driver.Cleaner)
	cq.counter, _ = ring.(driver.EventCounter)
	cq.peek = peekOf(ring)
	cq.dev.events.add(cq.cookie, AsyncEvent{CQ: cq})
	if cq.counter != nil {
		cq.events.Counted = cq.countEvent
	}
	cq.events.Begin()
	return nil
}

// peekOf is hidden when ring can't tell.
func peekOf(ring driver.CQ) *mmap.Peek {
	if p, ok := ring.(driver.Peeker); ok {
		return p.Peek()
	}
	return mmap.NewHiddenPeek()
}

func entryCount(n int) uint32 { return uint32(min(max(n, 1), math.MaxInt32)) }

func (cq *CQ) issueCreate(r *driver.CreateCQ, u driver.UHW, extra []driver.Attr) error {
	var granted uint32
	q := cq.dev.request(abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_CREATE)
	defer q.Free()
	q.NewObject(abi.UVERBS_ATTR_CREATE_CQ_HANDLE)
	q.U32(abi.UVERBS_ATTR_CREATE_CQ_CQE, r.CQE)
	q.U64(abi.UVERBS_ATTR_CREATE_CQ_USER_HANDLE, cq.cookie)
	q.U32(abi.UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, r.Vector)
	if cq.channel != nil {
		q.FD(abi.UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL, cq.channel.fd)
	}
	if flags := cqFlags(r); flags != 0 {
		q.Flags(abi.UVERBS_ATTR_CREATE_CQ_FLAGS, flags)
	}
	ioctl.Out(q, abi.UVERBS_ATTR_CREATE_CQ_RESP_CQE, &granted)
	if err := cq.dev.doWith(q, u, extra); err != nil {
		return err
	}
	r.Handle, r.CQE = q.Created(abi.UVERBS_ATTR_CREATE_CQ_HANDLE), granted
	return nil
}

// asObject lets a nil CQ stand for none.
func (cq *CQ) asObject() *object {
	if cq == nil {
		return nil
	}
	return &cq.object
}

// Device returns the device that the CQ belongs to.
func (cq *CQ) Device() *Device { return cq.dev }

// Channel returns the completion channel that the CQ was created with, or nil. The CQs
// of an rdmacm.Conn that has its own share one, so [CompChannel.Get] waits for both.
//
// C: cq->channel
func (cq *CQ) Channel() *CompChannel { return cq.channel }

// Cap is the number of completions that the CQ has room for.
func (cq *CQ) Cap() int {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	return cq.cqe
}

// Poll takes completions off the CQ, without a system call, and says how many
// it stored in wcs. An empty CQ is 0 and no error.
//
// C: ibv_poll_cq
func (cq *CQ) Poll(wcs []verbs.WC) (int, error) {
	ring, peek := cq.ring, cq.peek // before the lock, which holds up what is loaded behind it
	if !cq.mu.TryLock() {
		return cq.pollLate(wcs)
	}
	if cq.odd {
		return cq.pollAll(wcs)
	}
	if peek.Empty() {
		cq.mu.Unlock()
		return 0, nil
	}
	n, bad, err := ring.Poll(wcs)
	if bad || err != nil {
		return cq.polledBad(wcs, 0, n, err)
	}
	cq.mu.Unlock()
	return n, nil
}

// pollLate is Poll when another goroutine holds the CQ.
func (cq *CQ) pollLate(wcs []verbs.WC) (int, error) {
	cq.mu.Lock()
	return cq.pollAll(wcs)
}

// setOdd has Poll see what changed beside the ring. It is called with the lock held.
func (cq *CQ) setOdd() { cq.odd = cq.closed || len(cq.old)+len(cq.made) > 0 }

// pollAll is Poll when the ring is not all there is.
func (cq *CQ) pollAll(wcs []verbs.WC) (int, error) {
	if cq.closed {
		cq.mu.Unlock()
		return 0, cq.fail("poll", verbs.ErrClosed, "")
	}
	old := take(wcs, &cq.old)
	cq.oldExt = cq.oldExt[min(old, len(cq.oldExt)):]
	n, _, err := cq.ring.Poll(wcs[old:])
	n += old
	made := take(wcs[n:], &cq.made)
	cq.setOdd()
	n, err = cq.polledBad(wcs, old, n, err)
	return n + made, err
}

// polledBad ends a Poll with failures among wcs[from:n], or an error. It gives the
// lock back.
func (cq *CQ) polledBad(wcs []verbs.WC, from, n int, err error) (int, error) {
	failed := cq.failures(wcs[from:n])
	cq.mu.Unlock()
	tell(failed)
	if err != nil {
		err = cq.fail("poll", err, "")
	}
	return n, err
}

// take moves the oldest of a list to wcs.
func take[T any](wcs []T, list *[]T) int {
	if len(*list) == 0 {
		return 0
	}
	n := copy(wcs, *list)
	*list = (*list)[:copy(*list, (*list)[n:])]
	return n
}

// complete adds completions made in user space.
func (cq *CQ) complete(wcs []verbs.WC) {
	if len(wcs) == 0 {
		return
	}
	cq.mu.Lock()
	cq.made = append(cq.made, wcs...)
	cq.setOdd()
	cq.mu.Unlock()
	cq.events.Wake()
}

// room is how many completions made in user space the CQ takes: as many as it has
// entries.
func (cq *CQ) room() int {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	return max(cq.cqe-len(cq.made), 0)
}

// countEvent tells the provider of an event.
func (cq *CQ) countEvent() {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	if !cq.closed {
		cq.counter.Event()
	}
}

// Arm asks for an event at the next completion, or with solicitedOnly at the
// next solicited or failed one; not all drivers count the failed. Completions that
// are there already raise none: poll once more after arming. [CQ.Wait] arms by itself,
// but not with solicitedOnly; for that there is [CompChannel.Get].
//
// C: ibv_req_notify_cq
func (cq *CQ) Arm(solicitedOnly bool) error {
	cq.mu.Lock()
	if closed := cq.closed; closed || cq.channel == nil {
		cq.mu.Unlock()
		return cq.cannotArm(closed)
	}
	err := cq.ring.Arm(solicitedOnly)
	cq.mu.Unlock()
	if err != nil {
		return cq.fail("arm", err, "")
	}
	return nil
}

func (cq *CQ) cannotArm(closed bool) error {
	if closed {
		return cq.fail("arm", verbs.ErrClosed, "")
	}
	return cq.fail("arm", verbs.ErrNotSupported, "it was created without a CompChannel")
}

// cqFlags are the kernel's flags for a CQ.
func cqFlags(r *driver.CreateCQ) uint32 {
	flags := uint32(r.Flags)
	if r.Ext&(verbs.WCExtTimestamp|verbs.WCExtWallClock) != 0 {
		flags |= abi.IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION
	}
	return flags
}

// PollExt is [CQ.Poll] of a CQ that was made with [CQOptions].Ext: ext[i] belongs to
// wcs[i]. ext is at least as long as wcs. Completions that were made in user space have
// an empty one.
//
// C: ibv_start_poll, ibv_next_poll, ibv_end_poll
func (cq *CQ) PollExt(wcs []verbs.WC, ext []verbs.WCExt) (int, error) {
	switch {
	case cq.ext == nil:
		return 0, cq.fail("poll", verbs.ErrNotSupported, "it was created without Ext")
	case len(ext) < len(wcs):
		return 0, cq.fail("poll", syscall.EINVAL, "ext is shorter than wcs")
	}
	ext = ext[:len(wcs)]
	cq.mu.Lock()
	if cq.closed {
		cq.mu.Unlock()
		return 0, cq.fail("poll", verbs.ErrClosed, "")
	}
	old := take(wcs, &cq.old)
	take(ext, &cq.oldExt)
	n, _, err := cq.ext.PollExt(wcs[old:], ext[old:])
	n += old
	made := take(wcs[n:], &cq.made)
	clear(ext[n : n+made])
	cq.setOdd()
	n, err = cq.polledBad(wcs, old, n, err)
	return n + made, err
}

// Moderate has an armed CQ raise its event at the count-th completion, or at the end of a
// period that begins with the first one, whichever comes first. 1 and 0 raise it at once. The
// period counts in microseconds; [verbs.DeviceAttr] says how much of both a device takes. Drivers in
// software have no moderation.
//
// C: ibv_modify_cq with IBV_CQ_ATTR_MODERATE
func (cq *CQ) Moderate(count uint16, period time.Duration) error {
	const op, moderate = "moderate", 1
	if period < 0 || period.Microseconds() > math.MaxUint16 {
		return cq.fail(op, syscall.EINVAL, fmt.Sprintf("a period is %d µs at most", math.MaxUint16))
	}
	return cq.using(op, func() error {
		in := &abi.IbUverbsExModifyCq{CqHandle: cq.handle, AttrMask: moderate,
			Attr: abi.IbUverbsCqModeration{CqCount: count, CqPeriod: uint16(period.Microseconds())}}
		r := writeCommand(cq.dev, ioctl.Extended(abi.IB_USER_VERBS_EX_CMD_MODIFY_CQ), in)
		defer r.Free()
		if err := r.Do(cq.dev.file); err != nil {
			return cq.fail(op, err, cq.moderateHint(err))
		}
		return nil
	})
}

func (cq *CQ) moderateHint(err error) string {
	a, failed := cq.dev.Attr()
	if failed != nil || !errors.Is(err, syscall.EINVAL) {
		return ""
	}
	return fmt.Sprintf("the device takes a count of %d and a period of %d µs at most", a.CQModerationMaxCount, a.CQModerationMaxPeriod)
}

// Resize gives the CQ room for at least entries completions, which may be fewer
// than before but not fewer than it holds. Those it holds stay. Where the driver
// can't, the error matches ErrNotSupported and nothing has changed.
//
// C: ibv_resize_cq
func (cq *CQ) Resize(entries int) error {
	return cq.using("resize", func() error {
		cq.mu.Lock()
		defer cq.mu.Unlock()
		if cq.closed {
			return cq.fail("resize", verbs.ErrClosed, "")
		}
		if err := cq.resize(entryCount(entries)); err != nil {
			return cq.fail("resize", err, resizeHint(err, entries))
		}
		return nil
	})
}

func (cq *CQ) resize(entries uint32) error {
	resizer, ok := cq.ring.(driver.CQResizer)
	if !ok {
		return verbs.ErrNotSupported
	}
	c := cq.dev.replacement(cq.memory)
	r := &driver.ResizeCQ{Call: c, CQE: entries}
	c.issue = func(u driver.UHW, extra []driver.Attr) error { return cq.issueResize(r, u, extra) }
	if err := c.replaced(cq.memory, resizer.Resize(r)); err != nil {
		return err
	}
	cq.cqe = int(r.CQE)
	return nil
}

func (cq *CQ) issueResize(r *driver.ResizeCQ, u driver.UHW, extra []driver.Attr) error {
	var resp abi.IbUverbsResizeCqResp
	q := writeCommand(cq.dev, abi.IB_USER_VERBS_CMD_RESIZE_CQ, &abi.IbUverbsResizeCq{CqHandle: cq.handle, Cqe: r.CQE})
	defer q.Free()
	ioctl.Out(q, abi.UVERBS_ATTR_CORE_OUT, &resp)
	if err := cq.dev.doWith(q, u, extra); err != nil {
		return err
	}
	r.CQE = resp.Cqe
	return nil
}

func resizeHint(err error, entries int) string {
	if errors.Is(err, syscall.EINVAL) {
		return fmt.Sprintf("%d is more than the device allows (DeviceAttr.MaxCQE), or less than the CQ holds", entries)
	}
	return ""
}

// Close destroys the CQ. QPs and SRQs that use it must be closed before. A
// waiter returns ErrClosed.
//
// C: ibv_destroy_cq
func (cq *CQ) Close() error {
	if cq == nil {
		return closeNil("CQ")
	}
	return cq.close(cq.destroy, cq.release)
}

// destroy keeps Arm from naming a CQ that is gone to the kernel.
func (cq *CQ) destroy() error {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	err := destroy(cq.ring, func() error { return cq.issueDestroy(cq.handle) })
	cq.closed = err == nil
	cq.setOdd()
	return err
}

func (cq *CQ) release() error {
	cq.mu.Lock()
	err := cq.memory.free()
	cq.mu.Unlock()
	cq.dev.events.remove(cq.cookie)
	cq.events.End()
	return err
}

// issueDestroy destroys the kernel's CQ. The answer counts the events that were
// read from the descriptors; none of them can do harm, so nobody waits.
func (cq *CQ) issueDestroy(handle uint32) error {
	var resp abi.IbUverbsDestroyCqResp
	r := cq.dev.request(abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_DESTROY)
	defer r.Free()
	r.Handle(abi.UVERBS_ATTR_DESTROY_CQ_HANDLE, handle)
	ioctl.Out(r, abi.UVERBS_ATTR_DESTROY_CQ_RESP, &resp)
	return r.Do(cq.dev.file)
}
