package uverbs

import (
	"math"
	"sync/atomic"

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
