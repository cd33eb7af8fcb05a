package sandbox

import (
	"encoding/binary"
	"os"
	"reflect"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/mmap"
)

// device is an opening of a uverbs device. Its memory is a file, in which the queues of the
// kernel's stand where they are mapped from: so mappings of processes are the kernel's work.
type device struct {
	is     node
	kernel *fakeverbs.Kernel
	memory *os.File
	owner  *process // that opened it, whose memory the device reaches

	supervisor *supervisor
	registers  registers
	locked     *locked // guarded by the supervisor's lock

	mu     sync.Mutex // one call at a time
	made   *events    // by the call under way
	caller *process   // of the call under way
}

func (c *call) openDevice(is node, flags int) result {
	m := c.machine()
	of := m.device(is)
	if of == nil {
		return result{errno: syscall.ENXIO}
	}
	own, theirs, err := c.files.memory()
	if err != nil {
		return failed(err)
	}
	defer theirs.Close()
	owner, err := c.owner()
	if err != nil {
		own.Close()
		return failed(err)
	}
	d := &device{is: is, supervisor: c.supervisor, memory: own, owner: owner, locked: c.lockedBy(owner)}
	// The memory of the program that runs now, also after another one took its place.
	err = owner.openMemory()
	var f ioctl.File
	if err == nil {
		f, err = m.OpenDevice(of.char.Path(), 0)
	}
	if err != nil {
		own.Close()
		c.unlocked(owner)
		owner.close()
		return failed(err)
	}
	d.kernel = f.(*fakeverbs.Kernel)
	d.registers.kernel = d.kernel
	c.opened(of, d)
	if m.fabric != nil {
		m.fabric.watch(of)
	}
	d.kernel.User, d.kernel.Share, d.kernel.Inode = userMemory{owner, c.files.dir + "/"}, d.share, owner.inode
	d.kernel.Pin, d.kernel.Owner, d.kernel.Unseen = d.pin, owner.id, d.registers.unseen
	d.kernel.Channel = func(fd int32) (fakeverbs.Events, error) { return d.newEvents(c.files, fd) }
	if err := c.files.add(theirs, d); err != nil {
		d.close()
		return failed(err)
	}
	return done(c.giveOurs(int(theirs.Fd()), flags&unix.O_CLOEXEC != 0))
}

func (d *device) node() node { return d.is }

func (d *device) descriptor() *os.File { return d.memory }

func (d *device) close() {
	d.registers.close()
	d.supervisor.forget(d)
	_ = d.kernel.Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.memory.Close()
	d.supervisor.unlocked(d.owner)
	d.owner.close()
}

// share allocates room for a queue of the kernel's. Freed memory is zeroed before it is used
// again. The file may not grow over registers that a tracer watches, because stores there
// would no longer fault. So with --trap there is no clock of mlx5's kernel if the registers
// are in front of it.
func (d *device) share(key int64, size int) (*mmap.Region, error) {
	if d.supervisor.trap && d.registers.hasBelow(key) {
		return nil, syscall.EOPNOTSUPP
	}
	fd := int(d.memory.Fd())
	_ = unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, key, int64(size))
	if err := unix.Fallocate(fd, 0, key, int64(size)); err != nil {
		return nil, syscall.ENOMEM
	}
	return mmap.Map(fd, key, size, mmap.ProtRead|mmap.ProtWrite)
}

// mapped handles a new mapping. It rejects one of pages that the device does not have.
func (d *device) mapped(offset int64, length int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	r, err := d.kernel.Map(offset, length, mmap.ProtRead|mmap.ProtWrite)
	if err == nil {
		return r.Close()
	}
	if p, none := d.kernel.MapPage(offset, length); none == nil {
		_ = p.Close()
		return d.mapRegisters(offset, length)
	}
	return err
}

// mapRegisters leaves the pages beyond the end of the file if there is a tracer.
func (d *device) mapRegisters(offset int64, length int) error {
	switch {
	case d.registers.has(offset):
		return nil
	case d.supervisor.trap:
		d.registers.trap(offset)
		return nil
	}
	page, err := d.share(offset, length)
	if err == nil {
		d.registers.add(offset, page)
		d.supervisor.watching.Do(func() { go d.supervisor.watch() })
	}
	return err
}

// eventFDs are the attributes that name a descriptor with events.
var eventFDs = map[[3]uint16]bool{
	{abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_CREATE, abi.UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL}: true,
	{abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_CREATE, abi.UVERBS_ATTR_CREATE_CQ_EVENT_FD}:     true,
	{abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_CREATE, abi.UVERBS_ATTR_CREATE_QP_EVENT_FD}:     true,
	{abi.UVERBS_OBJECT_SRQ, abi.UVERBS_METHOD_SRQ_CREATE, abi.UVERBS_ATTR_CREATE_SRQ_EVENT_FD}:  true,
}

func (c *call) ioctl() result {
	if uint32(c.Args[1]) != abi.RDMA_VERBS_IOCTL {
		return c.umadIoctl()
	}
	d, ok := find[*device](c, c.fd(0))
	if !ok {
		return resume
	}
	q, err := parse(c.process, c.Args[2])
	if err != nil {
		return failed(err)
	}
	defer q.Free()
	c.look()
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := c.translate(q); err != nil {
		return failed(err)
	}
	d.made, d.caller = nil, c.process
	if err := q.Do(d.kernel); err != nil {
		return failed(err)
	}
	if d.made != nil {
		if err := c.handOver(d.made, q); err != nil {
			return failed(err)
		}
	}
	return done(0, q.reply(c.process))
}

// translate puts the kernel's numbers for the process's descriptors.
func (c *call) translate(q *request) error {
	for _, a := range q.attrs {
		if !eventFDs[[3]uint16{q.header.ObjectId, q.header.MethodId, a.AttrId}] {
			continue
		}
		e, ok := find[*events](c, int32(a.Data))
		if !ok {
			return syscall.EBADF
		}
		q.SetObject(a.AttrId, uint32(e.fd))
	}
	return nil
}

// handOver passes the events that a call created to the process, under the number in the
// reply.
func (c *call) handOver(e *events, q *request) error {
	fd, err := c.give(int(e.theirs.Fd()), true)
	e.theirs.Close()
	if err != nil {
		return err
	}
	if _, ok := q.Command(); ok { // CREATE_COMP_CHANNEL
		if out, ok := q.Bytes(abi.UVERBS_ATTR_CORE_OUT); ok && len(out) >= 4 {
			binary.NativeEndian.PutUint32(out, uint32(fd))
		}
		return nil
	}
	q.SetObject(abi.UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, uint32(fd))
	return nil
}

// take carries out a command that comes by write(2): a doorbell, or an arming. The reply is
// first written behind the command, the only place that the kernel's side knows.
func (d *device) take(c *call, b []byte) result {
	const header = 8
	if len(b) < header {
		return result{errno: syscall.EINVAL}
	}
	size, answer := len(b), 4*int(binary.NativeEndian.Uint16(b[6:]))
	var to uint64
	b = append(b, make([]byte, answer)...)
	if answer > 0 && size >= header+8 {
		to = binary.NativeEndian.Uint64(b[header:])
		binary.NativeEndian.PutUint64(b[header:], uint64(reflect.ValueOf(&b[size]).Pointer()))
	}
	err := d.kernel.Command(b[:size])
	if err == nil && to != 0 {
		err = c.write(to, b[size:])
	}
	return done(size, err)
}
