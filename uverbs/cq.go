package uverbs

import (
	"errors"
	"fmt"
	"math"
	"sync"
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

// CQ is a completion queue. Work requests report their results there.
//
// C: struct ibv_cq
type CQ struct {
	object
	dev     *Device
	channel *CompChannel
	handle  uint32
	cookie  uint64

	events *wait.Listener
	ended  atomic.Pointer[error] // set by end
	// overflowed means that completions were lost, so outstanding work may never complete.
	overflowed atomic.Bool
	ring       driver.CQ  // never changes
	peek       *mmap.Peek // of ring; guarded by mu
	cleaner    driver.Cleaner
	counter    driver.EventCounter
	ext        driver.ExtPoller // nil if the CQ was created without Ext
	memory     *memory

	mu       driver.Lock // guards the fields below and the methods of ring
	cqe      int
	old      []verbs.WC    // taken off the ring when a QP was cleaned up; polled before the ring
	oldExt   []verbs.WCExt // belongs to old, if ext is set
	made     []verbs.WC    // made by a provider; polled after the ring
	qps      map[uint32]*QP
	closed   bool
	fastPath bool // Poll takes completions off the ring only: see setFastPath
	armable  bool // the CQ is open and has a channel with events
	taken    bool // completions were polled since Arm; kept if the channel polls

	reporting int // goroutines that report failures among the completions in old
	reported  sync.Cond
}

// CQOptions are the options of [Device.CreateCQ]. A nil pointer and the zero value mean a
// CQ that can only be polled.
type CQOptions struct {
	Channel    *CompChannel // receives the CQ's events; needed for Wait and Arm
	CompVector uint32       // completion vector, below Device.CompVectors
	Flags      verbs.CQFlags
	Ext        verbs.WCExtMask // the fields that PollExt fills in; not all drivers support it
	// MaxInline is the size in bytes up to which the device writes a received message into its
	// completion. It is rounded up to a size that completions have (mlx5: 32 or 64). Poll copies
	// the message to the receive's memory, which must be in a region of this program, not of a GPU.
	// This saves the device a write. The option applies to QPs whose RecvCQ is this CQ. If such a
	// QP has SignalAll, the option also applies to the results of READs and atomics. The QP's
	// SendCQ must have it as well then, or the device writes nothing into completions. mlx5
	// supports up to 64, and uses completions of 128 bytes above 32. Other devices return an error
	// that matches ErrNotSupported. 0 means none.
	//
	// C: MLX5_SCATTER_TO_CQE and MLX5_CQE_SIZE of the environment
	MaxInline uint32
}

// CreateCQ creates a completion queue with room for at least entries completions, which is 1 or more. A CQ
// that overflows loses completions: [CQ.Wait] fails, and so do the connections of package rdmacm that use
// the CQ. Make it large enough for all work requests that can be outstanding on its QPs.
//
// C: ibv_create_cq
func (d *Device) CreateCQ(entries int, opts *CQOptions) (*CQ, error) {
	if d.provider == nil {
		return nil, d.noProvider("create", "CQ")
	}
	if entries <= 0 {
		return nil, &verbs.Error{Op: "create", Object: "CQ", Device: d.info.Name, Err: syscall.EINVAL, Hint: entriesHint(entries)}
	}
	if opts == nil {
		opts = &CQOptions{}
	}
	cq := &CQ{dev: d, channel: opts.Channel, cookie: d.cookie()}
	cq.reported.L = &cq.mu
	cq.events = wait.NewListener(opts.Channel.events(), cq.cookie, cq)
	if err := cq.attach("CQ", &d.object, opts.Channel.asObject()); err != nil {
		return nil, err
	}
	if err := cq.create(entries, opts); err != nil {
		cq.detach()
		return nil, cq.fail("create", err, cq.createHint(err, entries, opts.CompVector))
	}
	cq.created(cq, cq.handle)
	return cq, nil
}

func (cq *CQ) create(entries int, opts *CQOptions) error {
	if p, ok := cq.dev.provider.(driver.CQInliner); opts.MaxInline > 0 && (!ok || opts.MaxInline > p.MaxCQInline()) {
		return fmt.Errorf("%w: inline messages of %d bytes in completions", verbs.ErrNotSupported, opts.MaxInline)
	}
	c := cq.dev.creation(nil)
	r := &driver.CreateCQ{Call: c, CQE: entryCount(entries), Vector: opts.CompVector, HasChannel: opts.Channel.hasEvents(),
		Flags: opts.Flags, Ext: opts.Ext, MaxInline: opts.MaxInline}
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
	cq.peek, cq.armable = peekOf(ring), cq.channel.hasEvents()
	cq.setFastPath()
	cq.dev.events.add(cq.cookie, AsyncEvent{CQ: cq})
	if cq.counter != nil {
		cq.events.Counted = cq.countEvent
	}
	cq.events.Begin()
	return nil
}

// peekOf returns ring's Peek. If ring has none, the result never reports an empty queue.
func peekOf(ring driver.CQ) *mmap.Peek {
	if p, ok := ring.(driver.Peeker); ok {
		return p.Peek()
	}
	p := new(mmap.Peek)
	p.Hide()
	return p
}

// entryCount converts a positive number. No device has as many as the largest result.
func entryCount(n int) uint32 { return uint32(min(n, math.MaxInt32)) }

// entriesHint explains that a number of entries is too small.
func entriesHint(n int) string { return fmt.Sprintf("a CQ has at least 1 entry, not %d", n) }

func (cq *CQ) issueCreate(r *driver.CreateCQ, u driver.UHW, extra []driver.Attr) error {
	var granted uint32
	q := cq.dev.request(abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_CREATE)
	defer q.Free()
	q.NewObject(abi.UVERBS_ATTR_CREATE_CQ_HANDLE)
	q.U32(abi.UVERBS_ATTR_CREATE_CQ_CQE, r.CQE)
	q.U64(abi.UVERBS_ATTR_CREATE_CQ_USER_HANDLE, cq.cookie)
	q.U32(abi.UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, r.Vector)
	if cq.channel.hasEvents() {
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

// asObject returns nil for a nil CQ.
func (cq *CQ) asObject() *object {
	if cq == nil {
		return nil
	}
	return &cq.object
}

// Device returns the device that the CQ belongs to.
func (cq *CQ) Device() *Device { return cq.dev }

// Channel returns the completion channel that the CQ was created with, or nil. If an
// rdmacm.Conn has CQs of its own, both use one channel, so [CompChannel.Get] waits for both.
//
// C: cq->channel
func (cq *CQ) Channel() *CompChannel { return cq.channel }

// Cap returns the number of completions that the CQ has room for.
func (cq *CQ) Cap() int {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	return cq.cqe
}

// Poll takes completions off the CQ and stores them in wcs. It returns their number, which is
// 0 if the CQ is empty. Poll makes no system call.
//
// C: ibv_poll_cq
func (cq *CQ) Poll(wcs []verbs.WC) (int, error) {
	ring, peek := cq.ring, cq.peek // loads after the lock would wait for it
	if !cq.mu.TryLock() {
		return cq.pollContended(wcs)
	}
	if !cq.fastPath {
		return cq.pollSlow(wcs)
	}
	if peek.Empty() {
		cq.mu.Unlock()
		return 0, nil
	}
	n, bad, err := ring.Poll(wcs)
	if bad || err != nil {
		return cq.finishPoll(wcs, n, err)
	}
	cq.mu.Unlock()
	return n, nil
}

// pollContended is Poll while another goroutine holds the CQ.
func (cq *CQ) pollContended(wcs []verbs.WC) (int, error) {
	cq.mu.Lock()
	return cq.pollSlow(wcs)
}

// setFastPath recomputes whether Poll may take the fast path, which a zero value never does. The caller
// holds the lock.
func (cq *CQ) setFastPath() {
	cq.fastPath = !cq.closed && len(cq.old)+len(cq.made) == 0 && (cq.armable || cq.channel == nil)
}

// pollSlow is Poll of a CQ that is closed, has completions that are not on the ring, or has a
// channel that polls. The caller holds the lock; pollSlow releases it.
func (cq *CQ) pollSlow(wcs []verbs.WC) (int, error) {
	if cq.closed || cq.ring == nil {
		cq.mu.Unlock()
		return 0, cq.fail("poll", verbs.ErrClosed, "")
	}
	old := take(wcs, &cq.old)
	cq.oldExt = cq.oldExt[min(old, len(cq.oldExt)):]
	n, _, err := cq.ring.Poll(wcs[old:])
	n += old
	made := take(wcs[n:], &cq.made)
	cq.taken = cq.taken || n+made > 0
	cq.setFastPath()
	cq.awaitReports(wcs[:old])
	n, err = cq.finishPoll(wcs[old:], n-old, err)
	return old + n + made, err
}

// finishPoll finishes a Poll that returned an error, or failed completions in wcs[:n].
// It releases the lock.
func (cq *CQ) finishPoll(wcs []verbs.WC, n int, err error) (int, error) {
	failed := cq.failures(wcs[:n])
	cq.mu.Unlock()
	handleFailures(failed)
	if err != nil {
		err = cq.fail("poll", err, "")
	}
	return n, err
}

// take moves the oldest elements of a list to wcs and returns their number.
func take[T any](wcs []T, list *[]T) int {
	if len(*list) == 0 {
		return 0
	}
	n := copy(wcs, *list)
	*list = (*list)[:copy(*list, (*list)[n:])]
	return n
}

// complete appends completions that a provider made.
func (cq *CQ) complete(wcs []verbs.WC) {
	if len(wcs) == 0 {
		return
	}
	cq.mu.Lock()
	cq.made = append(cq.made, wcs...)
	cq.setFastPath()
	cq.mu.Unlock()
	cq.events.Wake()
}

// room returns how many more completions complete may append. The list made never has more
// completions than the CQ has entries.
func (cq *CQ) room() int {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	return max(cq.cqe-len(cq.made), 0)
}

// countEvent passes an event on to the provider.
func (cq *CQ) countEvent() {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	if !cq.closed {
		cq.counter.Event()
	}
}

// Arm requests an event at the next completion. With solicitedOnly, the event is raised at
// the next solicited or failed completion; some drivers ignore failed ones. Completions
// that are already on the CQ raise no event, so poll once more after arming. [CQ.Wait] arms
// the CQ itself, but never with solicitedOnly. Use [CompChannel.Get] for solicited events.
//
// C: ibv_req_notify_cq
func (cq *CQ) Arm(solicitedOnly bool) error {
	ring := cq.ring // as in Poll
	cq.mu.Lock()
	if !cq.armable {
		cq.mu.Unlock()
		return cq.armSlow(solicitedOnly)
	}
	err := ring.Arm(solicitedOnly)
	cq.mu.Unlock()
	if err != nil {
		return cq.fail("arm", err, "")
	}
	return nil
}

// armSlow is Arm of a CQ that has no channel, or one that polls, is closed, or is being closed. It waits for the result
// of Close.
func (cq *CQ) armSlow(solicitedOnly bool) error {
	return cq.using("arm", func() error {
		if cq.channel == nil {
			return cq.fail("arm", verbs.ErrNotSupported, "it was created without a CompChannel")
		}
		if cq.channel.polled {
			cq.channel.arm(cq)
			return nil
		}
		return cq.Arm(solicitedOnly)
	})
}

// cqFlags returns the kernel's flags for a CQ.
func cqFlags(r *driver.CreateCQ) uint32 {
	flags := uint32(r.Flags)
	if r.Ext&(verbs.WCExtTimestamp|verbs.WCExtWallClock) != 0 {
		flags |= abi.IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION
	}
	return flags
}

// PollExt is like [CQ.Poll], for a CQ that was created with [CQOptions].Ext. It fills in
// ext[i] for each completion wcs[i]. ext must be at least as long as wcs. A completion that
// was made in user space has the zero WCExt.
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
	cq.taken = cq.taken || n+made > 0
	cq.setFastPath()
	cq.awaitReports(wcs[:old])
	n, err = cq.finishPoll(wcs[old:], n-old, err)
	return old + n + made, err
}

// Moderate delays the event of an armed CQ until count completions have arrived, or until
// period has passed since the first of them, whichever is earlier. A count of 1 and a period
// of 0 turn moderation off. The period is rounded down to microseconds. [verbs.DeviceAttr]
// has the device's limits. Software drivers have no moderation.
//
// C: ibv_modify_cq with IBV_CQ_ATTR_MODERATE
func (cq *CQ) Moderate(count uint16, period time.Duration) error {
	const op, moderate = "moderate", 1
	if period < 0 || period.Microseconds() > math.MaxUint16 {
		return cq.fail(op, syscall.EINVAL, fmt.Sprintf("the period is at most %d µs", math.MaxUint16))
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
	return fmt.Sprintf("the device takes a count of at most %d and a period of at most %d µs", a.CQModerationMaxCount, a.CQModerationMaxPeriod)
}

// Resize changes the size of the CQ to at least entries completions. The CQ may shrink, but
// not below the number of completions that it holds; these stay on it. If the driver can't
// resize CQs, the error matches ErrNotSupported and nothing has changed.
//
// C: ibv_resize_cq
func (cq *CQ) Resize(entries int) error {
	if entries <= 0 {
		return cq.fail("resize", syscall.EINVAL, entriesHint(entries))
	}
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
		return fmt.Sprintf("%d is more than the device allows (DeviceAttr.MaxCQE), or less than the number of completions in the CQ", entries)
	}
	return ""
}

// Close destroys the CQ. QPs and SRQs that use it must be closed first. Waiters return
// ErrClosed.
//
// C: ibv_destroy_cq
func (cq *CQ) Close() error {
	if cq == nil {
		return closeNil("CQ")
	}
	return cq.close(cq.destroy, cq.release)
}

// destroy destroys the kernel's CQ. Other goroutines may poll the CQ until the kernel has destroyed it. They
// can't arm it, so that Arm never passes a destroyed CQ to the kernel.
func (cq *CQ) destroy() error {
	cq.setClosing(true)
	err := destroy(cq.ring, func() error {
		err := cq.issueDestroy(cq.handle)
		if err == nil {
			cq.setClosed()
		}
		return err
	})
	if err != nil {
		cq.setClosing(false)
	}
	return err
}

func (cq *CQ) setClosing(closing bool) {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	cq.armable = cq.channel.hasEvents() && !closing
}

func (cq *CQ) setClosed() {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	cq.closed = true
	cq.setFastPath()
}

func (cq *CQ) release() error {
	err := cq.memory.free()
	cq.dev.events.remove(cq.cookie)
	cq.events.End()
	if cq.channel != nil {
		cq.channel.disarm(cq)
	}
	return err
}

// issueDestroy destroys the kernel's CQ. The response counts the events that were read from
// the descriptors. It is ignored, because a late event finds no CQ under its cookie.
func (cq *CQ) issueDestroy(handle uint32) error {
	var resp abi.IbUverbsDestroyCqResp
	r := cq.dev.request(abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_DESTROY)
	defer r.Free()
	r.Handle(abi.UVERBS_ATTR_DESTROY_CQ_HANDLE, handle)
	ioctl.Out(r, abi.UVERBS_ATTR_DESTROY_CQ_RESP, &resp)
	return r.Do(cq.dev.file)
}
