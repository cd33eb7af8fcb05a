package efa

import (
	"errors"
	"math/bits"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// The limits of completion counters. No source has those of a device.
const (
	MaxCounters     = 8
	MaxCounterValue = 1<<48 - 1
	counterOps      = 1<<counterOpBits - 1 // all operations

	counterOpBits  = 6
	bufferDescSize = 32
)

// counterCalls holds the calls of completion counters, which Linux 7.3 adds.
var counterCalls = map[string]bool{"QUERY_COMP_CNTR_CAPS": true, "COMP_CNTR_CREATE": true, "COMP_CNTR_DESTROY": true, "COMP_CNTR_MODIFY": true,
	"COMP_CNTR_READ": true, "QP_ATTACH_COMP_CNTR": true}

// counter is a completion counter. The device writes its two numbers, of successes and of failures, to memory of
// the program.
type counter struct {
	m      *model
	values [2]uint64
	words  [2]word
}

// word is a word of the program's memory.
type word struct {
	addr   uint64
	memory fakeverbs.Memory
}

func modelOf(k *fakeverbs.Kernel) *model { return k.Model.(*model) }

func (m *model) hasCounters() bool { return m.has(abi.EFA_QUERY_DEVICE_CAPS_COMP_CNTR) }

// queryCounterCaps returns zeros for a device without counters.
func queryCounterCaps(k *fakeverbs.Kernel, r *ioctl.Request) error {
	var most, ops uint32
	var value uint64
	if modelOf(k).hasCounters() {
		most, value, ops = MaxCounters, MaxCounterValue, counterOps
	}
	return errors.Join(
		respondIf(r, abi.UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_MAX_COUNTERS, most),
		respondIf(r, abi.UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_MAX_VALUE, value),
		respondIf(r, abi.UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_SUPPORTED_QP_ATTACH_OPS, ops))
}

// respondIf answers in an attribute that the request may lack.
func respondIf[T uint32 | uint64](r *ioctl.Request, id uint16, v T) error {
	if _, ok := r.Bytes(id); !ok {
		return nil
	}
	return fakeverbs.Answer(r, id, v)
}

func createCounter(k *fakeverbs.Kernel, r *ioctl.Request) error {
	m := modelOf(k)
	c := &counter{m: m}
	release, err := c.pin(r)
	if err != nil {
		return err
	}
	if err := m.addCounter(); err != nil {
		release()
		return err
	}
	r.SetObject(abi.UVERBS_ATTR_CREATE_COMP_CNTR_HANDLE, k.Add("COMP_CNTR", c, func() { release(); m.removeCounter() }))
	return nil
}

// pin pins both words. It makes the kernel's checks in its order.
func (c *counter) pin(r *ioctl.Request) (release func(), err error) {
	all := func() {}
	for i, id := range []uint16{abi.EFA_IB_ATTR_CREATE_COMP_CNTR_COMP_BUFFER, abi.EFA_IB_ATTR_CREATE_COMP_CNTR_ERR_BUFFER} {
		one, err := c.pinWord(i, id, r)
		if err != nil {
			all()
			return nil, err
		}
		before := all
		all = func() { one(); before() }
	}
	for _, w := range c.words {
		if w.addr%8 != 0 {
			all()
			return nil, syscall.EINVAL
		}
	}
	return all, nil
}

func (c *counter) pinWord(i int, id uint16, r *ioctl.Request) (release func(), err error) {
	b, _ := r.Bytes(id)
	var d abi.IbUverbsBufferDesc
	copy(abi.Bytes(&d), b)
	switch {
	case !fakeverbs.IsZero(b[bufferDescSize:]):
		return nil, syscall.EOPNOTSUPP
	case d.Flags != 0:
		return nil, syscall.EINVAL
	case d.Type == abi.IB_UVERBS_BUFFER_TYPE_DMABUF:
		return nil, syscall.EOPNOTSUPP // the kernel's driver has this, the model not
	case d.Type != abi.IB_UVERBS_BUFFER_TYPE_VA, d.Length < 8:
		return nil, syscall.EINVAL
	}
	memory, release, err := c.m.k.PinUser(d.Addr, d.Length, true)
	c.words[i] = word{d.Addr, memory}
	return release, err
}

func (m *model) addCounter() error {
	d := m.k.Device
	d.Lock()
	defer d.Unlock()
	s := shared(d)
	switch {
	case !m.hasCounters():
		return syscall.EOPNOTSUPP
	case s.counters == MaxCounters:
		return syscall.ENOMEM
	}
	s.counters++
	return nil
}

func (m *model) removeCounter() {
	d := m.k.Device
	d.Lock()
	defer d.Unlock()
	shared(d).counters--
}

func destroyCounter(k *fakeverbs.Kernel, r *ioctl.Request) error {
	h, _ := r.Value(abi.UVERBS_ATTR_DESTROY_COMP_CNTR_HANDLE)
	return k.Remove("COMP_CNTR", uint32(h))
}

// modifyCounter sets or adds to a number. The kernel takes all but the known entry and operation for the others;
// the device refuses numbers beyond its limit.
func modifyCounter(k *fakeverbs.Kernel, r *ioctl.Request) error {
	_, c, err := fakeverbs.FindIn[*counter](k, "COMP_CNTR", r, abi.UVERBS_ATTR_MODIFY_COMP_CNTR_HANDLE)
	if err != nil {
		return err
	}
	entry, _ := r.Value(abi.UVERBS_ATTR_MODIFY_COMP_CNTR_ENTRY)
	op, _ := r.Value(abi.UVERBS_ATTR_MODIFY_COMP_CNTR_OP)
	value, _ := r.Value(abi.UVERBS_ATTR_MODIFY_COMP_CNTR_VALUE)
	if entry > abi.IB_UVERBS_COMP_CNTR_ENTRY_ERR || op > abi.IB_UVERBS_COMP_CNTR_MODIFY_OP_INC {
		c.m.note("COMP_CNTR_MODIFY: entry %d, operation %d", entry, op)
	}
	i := 0
	if entry == abi.IB_UVERBS_COMP_CNTR_ENTRY_ERR {
		i = 1
	}
	switch {
	case value > MaxCounterValue:
		return syscall.EINVAL
	case op == abi.IB_UVERBS_COMP_CNTR_MODIFY_OP_SET:
		c.values[i] = 0
	}
	c.add(i, value)
	return nil
}

// readCounter refuses: no driver has a way to read a counter but its memory.
func readCounter(k *fakeverbs.Kernel, r *ioctl.Request) error {
	if _, _, err := fakeverbs.FindIn[*counter](k, "COMP_CNTR", r, abi.UVERBS_ATTR_READ_COMP_CNTR_HANDLE); err != nil {
		return err
	}
	return syscall.EOPNOTSUPP
}

// attachCounter attaches a counter in any state of the queue pair. Each operation has one counter at most.
func attachCounter(k *fakeverbs.Kernel, r *ioctl.Request) error {
	user, qp, err := fakeverbs.FindIn[*fakeverbs.QP](k, "QP", r, abi.UVERBS_ATTR_QP_ATTACH_COMP_CNTR_HANDLE)
	if err != nil {
		return err
	}
	used, c, err := fakeverbs.FindIn[*counter](k, "COMP_CNTR", r, abi.UVERBS_ATTR_QP_ATTACH_COMP_CNTR_CNTR_HANDLE)
	if err != nil {
		return err
	}
	ops, _ := r.Value(abi.UVERBS_ATTR_QP_ATTACH_COMP_CNTR_OP_MASK)
	q := QPOf(qp)
	if ops == 0 || ops&^counterOps != 0 {
		return syscall.EINVAL
	}
	for i := range q.counters {
		if ops&(1<<i) != 0 && q.counters[i] != nil {
			return syscall.EBUSY
		}
	}
	for i := range q.counters {
		if ops&(1<<i) != 0 {
			q.counters[i] = c
		}
	}
	k.Use(user, used)
	return nil
}

// add adds to a number, which begins again at 0 after its limit, and writes it.
func (c *counter) add(i int, n uint64) {
	if c.values[i] += n; c.values[i] > MaxCounterValue {
		c.values[i] = 0
	}
	w := &c.words[i]
	if err := w.memory.Store64(w.addr, c.values[i]); err != nil && !errors.Is(err, syscall.ESRCH) {
		c.m.note("COMP_CNTR: its memory is gone")
	}
}

// count counts an operation, one of IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_, if a counter is attached for it.
func (q *QP) count(op uint32, isSuccess bool) {
	c := q.counters[bits.TrailingZeros32(op)]
	switch {
	case c == nil:
	case isSuccess:
		c.add(0, 1)
	default:
		c.add(1, 1)
	}
}

// CountRemote counts a READ, or a WRITE, of the peer.
func (q *QP) CountRemote(isRead bool) {
	q.qp.Kernel().Lock()
	defer q.qp.Kernel().Unlock()
	op := uint32(abi.IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE)
	if isRead {
		op = abi.IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ
	}
	q.count(op, true)
}
