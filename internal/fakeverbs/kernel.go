package fakeverbs

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/wait"
	"github.com/goverbs/goverbs/mmap"
)

// Kernel is one open uverbs file of one device, and the kernel behind it. Its
// exported methods may be called concurrently.
type Kernel struct {
	// Tamper, when set, sees every request that succeeded before its caller
	// does, and may change the answer. Set it before use.
	Tamper func(call string, r *ioctl.Request)
	// Refuse, when set, is asked before each call: an error is the call's answer. Names are
	// those of Fail. Set it before use.
	Refuse func(call string) error
	// Pin, when set, is told how many bytes a region pins, and that many less than none
	// when it goes. An error refuses the region. Set it before use.
	Pin func(bytes int64) error
	// Newest has the kernel be Linux 7.2, and not 6.12. Set it before use.
	Newest bool
	// OnDemand gives the device on-demand paging. Set it before use.
	OnDemand bool
	// InBubble has events come from memory instead of pipes, so that testing/synctest
	// sees that a goroutine waits for one. Set it before use.
	InBubble bool
	// OtherCredentials has the process be one whose credentials are not those that the
	// device was opened with: write(2) is refused, ioctl is not. Set it before use.
	OtherCredentials bool
	// User is the memory of the process that has the file open; New gives it what this
	// process lends. Set it before use.
	User Memory
	// Share makes size bytes for a queue of the kernel's that user space maps at a key. The
	// region is closed when the queue goes; Map wraps it. If it is nil, they are memory of this
	// process. Set it before use.
	Share func(key int64, size int) (*mmap.Region, error)
	// Channel makes where the events of a descriptor go, in place of a pipe of this process
	// that Events hands out. Set it before use.
	Channel func(fd int32) (Events, error)
	// Inode tells which file is behind a descriptor of the process that has the file open. New
	// looks at this process. Set it before use.
	Inode func(fd int32) (uint64, error)
	// Rang is told of a queue pair that has sends, and of one that changed its state. It is
	// called on the goroutine of the call or the store that did it, without locks of the
	// Kernel's. Set it before use.
	Rang func(*QP)
	// Cross sees all that crosses the seam between a provider and its driver or device, and
	// may change it. Its calls of one opening come one after the other; it must not call the
	// Kernel. Set it before use.
	Cross func(*Crossing)
	// Asked is told of each request that the dispatcher let through, before it is carried out.
	// It must not call the Kernel. Set it before use.
	Asked func(call string, r *ioctl.Request)
	// Own are attributes of the driver's own, which its methods take beside those of
	// the core. Set it before use.
	Own map[uint16]bool

	mu       sync.Mutex
	Device   *Device
	Model    Model
	context  bool
	closed   bool
	killed   bool // the program is dead
	others   int  // descriptors of the file beside one
	handles  Numbers
	objects  map[uint32]*object
	files    map[int32]*channel
	Offers   map[int64]Offer
	faults   []fault
	calls    map[string]int
	left     []string // what was alive when the file was closed
	async    *channel
	keys     map[uint32]*MR // by key
	windows  map[uint32]*MW // by key
	NullKey  uint32         // of no memory, if the device has one
	Tick     func()         // moves a clock that the process has mapped
	lent     lent
	rung     []*QP    // to tell Rang of
	crossing Crossing // the last, if there is no Cross
}

// Driver is the driver's number.
func (k *Kernel) Driver() uint32 { return k.Device.driver.ID }

// New returns the kernel side of a fresh file of a device that driver runs, which is
// opened this once. A driver without a model in the table has no queues.
func New(driver uint32) *Kernel { return NewDevice(driver).Open() }

// Ioctl carries out a request.
func (k *Kernel) Ioctl(r *ioctl.Request) error {
	k.mu.Lock()
	defer k.unlock()
	if k.closed {
		return syscall.EBADF
	}
	m, err := k.method(r)
	if err != nil {
		return err
	}
	// C: rdma_lookup_get_uobject: of a device that is gone, handles may still be given back.
	if k.isGone() && !strings.HasSuffix(m.name, "_DESTROY") {
		return syscall.EIO
	}
	name := m.name
	if c, ok := r.Command(); ok {
		name = commands[c].name
	}
	if err := k.fault(name); err != nil {
		return err
	}
	if k.Asked != nil {
		k.Asked(name, r)
	}
	k.crossCall(CallIn, name, r)
	if err := m.run(k, r); err != nil {
		return err
	}
	k.crossCall(CallOut, name, r)
	if k.Tamper != nil {
		k.Tamper(name, r)
	}
	return nil
}

func (k *Kernel) method(r *ioctl.Request) (*Method, error) {
	h := r.Header()
	if h.Length != 24+16*h.NumAttrs || h.DriverId != k.Driver() {
		return nil, syscall.EINVAL
	}
	m := methodOf(k.Driver(), h.ObjectId, h.MethodId)
	if h.Reserved1 != 0 || h.Reserved2 != 0 || m == nil || !k.has(m.name) {
		return nil, syscall.EPROTONOSUPPORT
	}
	return m, m.check(r, k.Own)
}

// Map maps what a create call offered.
func (k *Kernel) Map(offset int64, length int, _ mmap.Prot) (*mmap.Region, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.fault("MMAP"); err != nil {
		return nil, err
	}
	return k.Model.Map(k, offset, length)
}

// Events hands over the reading end of a channel.
func (k *Kernel) Events(fd int32) (wait.Source, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c, ok := k.files[fd]
	if !ok {
		return nil, syscall.EBADF
	}
	if err := k.fault("EVENTS"); err != nil {
		c.close()
		return nil, err
	}
	events, err := c.events()
	return eventFile{events, k, c}, err
}

// closer is a model that has something to release with the file.
type closer interface{ Close() }

// IsClosed reports whether the file was closed. The lock is held.
func (k *Kernel) IsClosed() bool { return k.closed }

// Lock takes the opening's lock, under which its model is called.
func (k *Kernel) Lock() { k.mu.Lock() }

// Unlock releases the lock, and tells nobody.
func (k *Kernel) Unlock() { k.mu.Unlock() }

// Close destroys what is left, as closing the last descriptor does.
func (k *Kernel) Close() error {
	k.mu.Lock()
	defer k.unlock()
	if k.closed {
		return os.ErrClosed
	}
	if k.others > 0 {
		k.others--
		return nil
	}
	k.left = append(k.alive(), k.lent.leaks()...)
	k.closed = true
	k.freeAll()
	if m, ok := k.Model.(closer); ok {
		m.Close()
	}
	k.lent.forget()
	return nil
}

// freeAll frees objects, users first.
func (k *Kernel) freeAll() {
	for len(k.objects) > 0 {
		for h, o := range k.objects {
			if o.refs == 0 {
				_ = k.Remove(o.kind, h)
			}
		}
	}
}

// Closed tells whether the file was closed.
func (k *Kernel) Closed() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.closed
}

// Leaks lists the objects that exist, or did so when the file was closed, the
// event descriptors that are open, and the file itself if it is.
func (k *Kernel) Leaks() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.killed {
		return nil
	}
	leaks := append(slices.Clone(k.left), k.alive()...)
	for fd := range k.files {
		leaks = append(leaks, fmt.Sprintf("descriptor %d", fd))
	}
	leaks = append(leaks, k.lent.leaks()...)
	if !k.closed {
		leaks = append(leaks, "the file")
	}
	return leaks
}

// Alive lists the objects that exist.
func (k *Kernel) Alive() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.alive()
}

func (k *Kernel) alive() []string {
	if k.killed {
		return nil
	}
	var names []string
	for h, o := range k.objects {
		names = append(names, fmt.Sprintf("%s %d", o.kind, h))
	}
	slices.Sort(names)
	return names
}
