package fakeverbs

import (
	"fmt"
	"iter"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/wait"
	"github.com/goverbs/goverbs/mmap"
)

// Kernel is an open uverbs file of a device, and the kernel behind it. Its exported methods may be called
// concurrently.
type Kernel struct {
	// Tamper, if set, is called after each successful request, and may change the answer. Set it
	// before use.
	Tamper func(call string, r *ioctl.Request)
	// Refuse, if set, is called before each call. If it returns an error, the call fails with it.
	// Names are those of Fail. Set it before use.
	Refuse func(call string) error
	// Pin, if set, is called with the number of bytes that a region pins, and with its negative
	// when the region ends. An error refuses the region. Set it before use.
	Pin func(bytes int64) error
	// PinLimit, if set, returns the limit in bytes that Pin enforces. A negative limit means no limit.
	// Set it before use.
	PinLimit func() int64
	// Newest makes the kernel behave as Linux 7.2 instead of 6.12. Set it before use.
	Newest bool
	// OnDemand gives the device on-demand paging. Set it before use.
	OnDemand bool
	// Page is the size of a page in bytes, a power of two. 0 means the system's. Set it before use.
	Page int
	// InBubble delivers events through memory instead of pipes, so that testing/synctest
	// notices goroutines that wait for them. Set it before use.
	InBubble bool
	// OtherCredentials means that the credentials of the process differ from those that the device
	// was opened with. The kernel then refuses write(2), but not ioctl. Set it before use.
	OtherCredentials bool
	// Owner is the number of the process that has opened the file. The default is this process. Set it
	// before use.
	Owner int
	// User is the memory of the process that has opened the file. The default is memory that this
	// process lends. Set it before use.
	User Memory
	// Share allocates size bytes for a queue of the kernel that user space maps at a key. The
	// region is closed when the queue ends. If Share is nil, the memory is from this
	// process. Set it before use.
	Share func(key int64, size int) (*mmap.Region, error)
	// Channel returns the destination for events of a descriptor. If it is nil, that is a pipe of
	// this process, which Events returns. Set it before use.
	Channel func(fd int32) (Events, error)
	// Inode returns the inode of a descriptor of the process that has opened the file. The default
	// is for this process. Set it before use.
	Inode func(fd int32) (uint64, error)
	// Rang is called for a queue pair with new sends, and for one whose state has changed. It is
	// called on the goroutine of the call or the store, without locks of the Kernel. Set it before
	// use.
	Rang func(*QP)
	// Unseen returns what a process has stored to a register if the model has not heard of it yet: it
	// may have been passed to Store late. If Unseen is nil, there is no such store. It is called with the lock
	// held. Set it before use.
	Unseen func(key int64, offset int) (v uint64, ok bool)
	// Cross is called for each exchange between a provider and its driver or device, and may change
	// it. Calls for one opening are not concurrent. Cross must not call the Kernel. Set it before
	// use.
	Cross func(*Crossing)
	// Asked is called with each valid request before it is handled. It must not call the Kernel.
	// Set it before use.
	Asked func(call string, r *ioctl.Request)
	// Own holds the driver's additional attributes for methods of the core. Set it before use.
	Own map[uint16]bool

	mu        sync.Mutex
	overflows int // completions that were lost
	Device    *Device
	Model     Model
	context   bool
	closed    bool
	killed    bool   // the program has been killed
	id        uint32 // number of the context
	others    int    // number of descriptors of the file minus one
	handles   Numbers
	objects   map[uint32]*object
	fds       Numbers // counted from firstFD
	files     map[int32]*channel
	Offers    map[int64]Offer
	faults    []fault
	calls     map[string]int
	left      []string // the objects that existed when the file was closed
	async     *channel
	keys      map[uint32]*MR // by key
	windows   map[uint32]*MW // by key
	NullKey   uint32         // key of no memory, if the device has one
	Tick      func()         // advances a clock that the process has mapped
	lent      lent
	rung      []*QP    // queue pairs for which unlock calls Rang
	held      bool     // the network holds the lock; guarded by the network's own lock
	works     []*Work  // to be used again
	recvs     []*Recv  // to be used again
	crossing  Crossing // the last one, if Cross is nil
}

// Driver returns the driver's number.
func (k *Kernel) Driver() uint32 { return k.Device.driver.ID }

// New returns the kernel's side of a file of a new device with a driver. A driver without a model has no
// queues.
func New(driver uint32) *Kernel { return NewDevice(driver).Open() }

// Ioctl handles a request.
func (k *Kernel) Ioctl(r *ioctl.Request) error {
	defer crash()
	k.mu.Lock()
	defer k.unlock()
	if k.closed {
		return syscall.EBADF
	}
	m, err := k.method(r)
	if err != nil {
		return err
	}
	// C: alloc_uobj and its like find no ucontext.
	if !k.context && m.name != "GET_CONTEXT" && m.name != "INVOKE_WRITE" {
		return syscall.EINVAL
	}
	// C: rdma_lookup_get_uobject: after the device has been removed, objects can still be destroyed.
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

// crash ends the program if a call of a provider panics here. The provider may hold the lock of a queue, and package
// testing runs cleanups before it prints a panic: a cleanup that wants the lock would wait for it forever. crash is
// deferred.
func crash() {
	if p := recover(); p != nil {
		stack := debug.Stack()
		go panic(fmt.Sprintf("%v\n\n%s", p, stack))
		select {}
	}
}

// Map maps memory that a create call has offered.
func (k *Kernel) Map(offset int64, length int, _ mmap.Prot) (*mmap.Region, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.fault("MMAP"); err != nil {
		return nil, err
	}
	return k.Model.Map(k, offset, length)
}

// Events returns the reading end of a channel.
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

// closer is a model that has something to release when the file is closed.
type closer interface{ Close() }

// IsClosed reports whether the file has been closed, or the program has lost the device. The lock is held.
func (k *Kernel) IsClosed() bool { return k.closed || k.isGone() }

// Lock locks the opening. The lock is held while its model is called.
func (k *Kernel) Lock() { k.mu.Lock() }

// Unlock unlocks the opening without calling Rang.
func (k *Kernel) Unlock() { k.mu.Unlock() }

// Hold locks the opening for a network that carries out many requests of its queue pairs. Until Release, the methods
// of these queue pairs don't lock it. A network that calls Hold has a lock of its own, which it also holds whenever it
// calls such a method.
func (k *Kernel) Hold() {
	k.mu.Lock()
	k.held = true
}

// IsHeld reports whether the network holds the opening's lock.
func (k *Kernel) IsHeld() bool { return k.held }

// Release ends Hold.
func (k *Kernel) Release() {
	k.held = false
	k.mu.Unlock()
}

// enter locks the opening for a method of a queue pair, unless the network holds the lock.
func (k *Kernel) enter() {
	if !k.held {
		k.mu.Lock()
	}
}

func (k *Kernel) leave() {
	if !k.held {
		k.mu.Unlock()
	}
}

// Close destroys all objects, as closing the last descriptor does.
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

// Closed reports whether the file has been closed.
func (k *Kernel) Closed() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.closed
}

// isOpen reports whether the file is open in a process that lives.
func (k *Kernel) isOpen() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.closed && !k.killed
}

// Leaks lists the objects that exist or existed when the file was closed, the open event descriptors, and
// the file itself if it is open.
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

type fault struct {
	call string
	skip int
	err  error
}

// Fail makes one call fail with err: the next one with the name after skip others. Names are those of the
// tables in this package, "MMAP" and "EVENTS"; "" means any call. Several faults are queued.
func (k *Kernel) Fail(call string, skip int, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.faults = append(k.faults, fault{call, skip, err})
}

// Spare removes the queued faults and returns their number.
func (k *Kernel) Spare() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := len(k.faults)
	k.faults = nil
	return n
}

// Calls returns the number of valid calls with a name while the file was open.
func (k *Kernel) Calls(call string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.calls[call]
}

func (k *Kernel) fault(call string) error {
	k.calls[call]++
	if k.Refuse != nil {
		if err := k.Refuse(call); err != nil {
			return err
		}
	}
	for i := range k.faults {
		f := &k.faults[i]
		if f.call != call && f.call != "" {
			continue
		}
		if f.skip--; f.skip < 0 {
			err := f.err
			k.faults = append(k.faults[:i], k.faults[i+1:]...)
			return err
		}
	}
	return nil
}

// object is an object of the kernel with a handle.
type object struct {
	number uint32 // for netlink
	kind   string
	uses   []*object
	refs   int
	body   any
	free   func()
}

// Add creates an object of a kind and returns its handle. The object uses others. Its end calls free. The
// lock is held.
func (k *Kernel) Add(kind string, body any, free func(), uses ...*object) uint32 {
	h := k.handles.Take(func(h uint32) bool { return k.objects[h] != nil })
	k.objects[h] = &object{number: k.Device.tracked.Add(1), kind: kind, body: body, free: free, uses: uses}
	for _, u := range uses {
		u.refs++
	}
	return h
}

// Use makes an object use another one until its end. The lock is held.
func (k *Kernel) Use(user, used *object) {
	user.uses = append(user.uses, used)
	used.refs++
}

// Remove ends an object, unless others use it. The lock is held.
func (k *Kernel) Remove(kind string, handle uint32) error {
	o, err := k.Find(kind, handle)
	if err != nil {
		return err
	}
	if o.refs > 0 {
		return syscall.EBUSY
	}
	for _, u := range o.uses {
		u.refs--
	}
	o.free()
	delete(k.objects, handle)
	k.handles.Free(handle)
	return nil
}

// Find returns an object of a kind. The lock is held.
func (k *Kernel) Find(kind string, handle uint32) (*object, error) {
	o := k.objects[handle]
	if o == nil || o.kind != kind {
		return nil, syscall.ENOENT
	}
	return o, nil
}

func find[T any](k *Kernel, kind string, handle uint32) (*object, T, error) {
	o, err := k.Find(kind, handle)
	if err != nil {
		var none T
		return nil, none, err
	}
	return o, o.body.(T), nil
}

// FindIn returns the object whose handle is in an attribute.
func FindIn[T any](k *Kernel, kind string, r *ioctl.Request, id uint16) (*object, T, error) {
	h, ok := r.Value(id)
	if !ok {
		var none T
		return nil, none, syscall.ENOENT
	}
	return find[T](k, kind, uint32(h))
}

// Objects yields all objects whose body has type T, in no particular order. The lock is held.
func Objects[T any](k *Kernel) iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, o := range k.objects {
			if b, ok := o.body.(T); ok && !yield(b) {
				return
			}
		}
	}
}

// bodies returns all objects whose body has type T, lowest handle first.
func bodies[T any](k *Kernel) []T {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []T
	for _, h := range slices.Sorted(maps.Keys(k.objects)) {
		if b, ok := k.objects[h].body.(T); ok {
			all = append(all, b)
		}
	}
	return all
}

func nothing() {}

// kinds maps the kernel's types of objects to the kinds of this package.
var kinds = map[uint64]string{
	abi.UVERBS_OBJECT_PD: "PD", abi.UVERBS_OBJECT_CQ: "CQ", abi.UVERBS_OBJECT_QP: "QP", abi.UVERBS_OBJECT_SRQ: "SRQ",
	abi.UVERBS_OBJECT_AH: "AH", abi.UVERBS_OBJECT_MR: "MR", abi.UVERBS_OBJECT_MW: "MW", abi.UVERBS_OBJECT_FLOW: "FLOW",
	abi.UVERBS_OBJECT_XRCD: "XRCD", abi.UVERBS_OBJECT_RWQ_IND_TBL: "IND_TBL", abi.UVERBS_OBJECT_WQ: "WQ", abi.UVERBS_OBJECT_DM: "DM",
	abi.UVERBS_OBJECT_COUNTERS: "COUNTERS", abi.UVERBS_OBJECT_COMP_CNTR: "COMP_CNTR",
}

// infoHandles returns as many handles as there is room for.
func (k *Kernel) infoHandles(r *ioctl.Request) error {
	kind, _ := r.Value(abi.UVERBS_ATTR_INFO_OBJECT_ID)
	list, ok := r.Bytes(abi.UVERBS_ATTR_INFO_HANDLES_LIST)
	if !ok || len(list)%4 != 0 {
		return syscall.EINVAL
	}
	n := uint32(0)
	for _, h := range slices.Sorted(maps.Keys(k.objects)) {
		if k.objects[h].kind == kinds[kind] && len(list) >= 4 {
			copy(list, abi.Bytes(&h))
			list = list[4:]
			n++
		}
	}
	if _, ok := r.Bytes(abi.UVERBS_ATTR_INFO_TOTAL_HANDLES); !ok {
		return syscall.ENOENT
	}
	return Answer(r, abi.UVERBS_ATTR_INFO_TOTAL_HANDLES, n)
}

// Numbers allocates the lowest free number. It doesn't search from 0 each time.
type Numbers struct{ below uint32 } // all numbers below are taken

// Take returns the lowest number that is not taken.
func (n *Numbers) Take(isTaken func(uint32) bool) uint32 {
	for isTaken(n.below) {
		n.below++
	}
	n.below++
	return n.below - 1
}

// Free frees a number.
func (n *Numbers) Free(i uint32) { n.below = min(n.below, i) }
