package sandbox

import (
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

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

	mu   sync.Mutex // one call at a time
	made *events    // by the call under way
}

func (c *call) openDevice(is node, flags int) result {
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
	m := c.machine()
	d := &device{is: is, supervisor: c.supervisor, memory: own, owner: owner}
	// The memory of the program that runs now, also after another one took its place.
	err = owner.openMemory()
	var f ioctl.File
	if err == nil {
		f, err = m.OpenDevice(m.device.char.Path(), 0)
	}
	if err != nil {
		own.Close()
		owner.close()
		return failed(err)
	}
	d.kernel = f.(*fakeverbs.Kernel)
	d.registers.kernel = d.kernel
	c.opened(m, d)
	d.kernel.User, d.kernel.Share, d.kernel.Inode = userMemory{owner}, d.share, owner.inode
	d.kernel.Channel = func(fd int32) (fakeverbs.Events, error) { return d.newEvents(c.files, fd) }
	if err := c.files.add(theirs, d); err != nil {
		d.close()
		return failed(err)
	}
	return done(c.giveOurs(int(theirs.Fd()), flags&unix.O_CLOEXEC != 0))
}

func (d *device) node() node { return d.is }

func (d *device) close() {
	d.registers.close()
	d.supervisor.forget(d)
	_ = d.kernel.Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.memory.Close()
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
	}
	return err
}
