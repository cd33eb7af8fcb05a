package fakeverbs

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
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
	// OnDemand gives the device on-demand paging. Set it before use.
	OnDemand bool
	// InBubble has events come from memory instead of pipes, so that testing/synctest
	// sees that a goroutine waits for one. Set it before use.
	InBubble bool
	// OtherCredentials has the process be one whose credentials are not those that the
	// device was opened with: write(2) is refused, ioctl is not. Set it before use.
	OtherCredentials bool
	// FirstQPN is the lowest number of a queue pair. Zero: the driver's own. Set it before
	// use.
	FirstQPN uint32
	// Own are attributes of the driver's own, which its methods take beside those of
	// the core. Set it before use.
	Own map[uint16]bool

	mu      sync.Mutex
	driver  uint32
	model   model
	context bool
	closed  bool
	objects map[uint32]*object
	files   map[int32]*channel
	memory  map[int64][]byte
	faults  []fault
	calls   map[string]int
	left    []string // what was alive when the file was closed
	async   *channel
	gids    []abi.IbUverbsGidEntry // of port 1
	lent    []lent
	queues  []lent // of Alloc; that a region is closed nobody tells
}

// New returns the kernel side of a fresh file of a device that driver runs. A
// driver other than siw and rxe has no queues.
func New(driver uint32) *Kernel {
	k := &Kernel{
		driver: driver, model: bare{}, objects: make(map[uint32]*object),
		files: make(map[int32]*channel), memory: make(map[int64][]byte), calls: make(map[string]int),
	}
	switch driver {
	case abi.RDMA_DRIVER_SIW:
		k.model = siw{}
	case abi.RDMA_DRIVER_RXE:
		k.model = &rxe{k: k}
	}
	k.gids = k.model.limits().gids
	return k
}

// Ioctl carries out a request.
func (k *Kernel) Ioctl(r *ioctl.Request) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return syscall.EBADF
	}
	m, err := k.method(r)
	if err != nil {
		return err
	}
	name := m.name
	if c, ok := r.Command(); ok {
		name = commands[c].name
	}
	if err := k.fault(name); err != nil {
		return err
	}
	if err := m.run(k, r); err != nil {
		return err
	}
	if k.Tamper != nil {
		k.Tamper(name, r)
	}
	return nil
}

func (k *Kernel) method(r *ioctl.Request) (*method, error) {
	h := r.Header()
	if h.Length != 24+16*h.NumAttrs || h.DriverId != k.driver {
		return nil, syscall.EINVAL
	}
	m := methods[[2]uint16{h.ObjectId, h.MethodId}]
	if h.Reserved1 != 0 || h.Reserved2 != 0 || m == nil || !k.model.has(m.name) {
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
	return k.model.mmap(k, offset, length)
}

// MapPage refuses: no driver here has registers.
func (k *Kernel) MapPage(int64, int) (*mmap.Page, error) { return nil, syscall.EINVAL }

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

// Close destroys what is left, as closing the last descriptor does.
func (k *Kernel) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return os.ErrClosed
	}
	k.left = k.alive()
	k.closed = true
	for _, o := range k.objects {
		o.free()
	}
	clear(k.objects)
	return nil
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
	leaks := append(slices.Clone(k.left), k.alive()...)
	for fd := range k.files {
		leaks = append(leaks, fmt.Sprintf("descriptor %d", fd))
	}
	for _, l := range k.lent {
		leaks = append(leaks, fmt.Sprintf("%d bytes that were lent", len(l.b)))
	}
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
	var names []string
	for h, o := range k.objects {
		names = append(names, fmt.Sprintf("%s %d", o.kind, h))
	}
	slices.Sort(names)
	return names
}
