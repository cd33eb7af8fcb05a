package fakeverbs

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/mmap"
)

// QueueMemory is the memory of an object's queues.
type QueueMemory struct {
	k       *Kernel
	keys    []int64
	regions []*mmap.Region
}

// Offer is memory of a queue that user space may map.
type Offer struct {
	Bytes []byte
	own   *own // memory of this process, or nil
}

// Alloc allocates memory for a queue, which user space maps at offset, and returns the kernel's view.
func (m *QueueMemory) Alloc(k *Kernel, offset int64, size int) (*mmap.Region, error) {
	o, r, err := k.ShareMemory(offset, RoundUp(size))
	if err != nil {
		return nil, syscall.ENOMEM
	}
	k.Offers[offset] = o
	m.k, m.keys, m.regions = k, append(m.keys, offset), append(m.regions, r)
	return r, nil
}

// ShareMemory allocates memory that user space may map, and returns the kernel's view.
func (k *Kernel) ShareMemory(offset int64, size int) (o Offer, r *mmap.Region, err error) {
	if k.Share == nil {
		o.own = newOwn(kernels, size, k.PageSize())
		r, err = o.own.region(size)
	} else {
		r, err = k.Share(offset, size)
	}
	if err == nil {
		o.Bytes = r.Bytes()
	}
	return o, r, err
}

// placer is a model that allocates the offsets at which queues are mapped.
type placer interface{ Freed(key int64) }

// Free frees the kernel's view. Mappings of user space remain.
func (m *QueueMemory) Free() {
	for i, r := range m.regions {
		delete(m.k.Offers, m.keys[i])
		if p, ok := m.k.Model.(placer); ok {
			p.Freed(m.keys[i])
		}
		_ = r.Close()
	}
	*m = QueueMemory{}
}

// Mapped returns user space's view of the first bytes.
func (o Offer) Mapped(length int) (*mmap.Region, error) {
	if o.own != nil {
		return o.own.region(length)
	}
	return mmap.Wrap(o.Bytes[:length])
}

// RoundUp rounds up to whole pages.
func RoundUp(n int) int { return roundUp(n, PageSize) }

func roundUp(n, page int) int { return (n + page - 1) / page * page }

// PageSize is the page size of the system.
var PageSize = os.Getpagesize()

// PageSize implements ioctl.File.
func (k *Kernel) PageSize() int {
	if k.Page > 0 {
		return k.Page
	}
	return PageSize
}

// own is memory of this process, where the race detector watches both sides of a queue. When all holders
// have released it, another queue of the same length reuses it. Otherwise connecting would spend most of
// its time in the garbage collector.
type own struct {
	bytes   []byte
	holders atomic.Int32
	spare   *spare
}

// spare holds unused memory of one length.
type spare struct {
	mu    sync.Mutex
	queue []*own
	rest  int // number of pieces that are not reused yet
}

const (
	mostPages = 32      // maximum length of reused memory
	mostSpare = 32      // maximum number of spare pieces of one length
	mostBytes = 1 << 20 // maximum total of spare pieces of one length
)

// Memory of the kernel is reused at once, because the kernel counts its holders. Memory of user space is
// reused later, so that a device which writes to a queue too late finds that the memory is gone.
var kernels, users = newSpares(0), newSpares(mostSpare / 2)

func newSpares(rest int) *[mostPages + 1]spare {
	all := new([mostPages + 1]spare)
	for i := range all {
		all[i].rest = rest
	}
	return all
}

// heapPage is the alignment of whole pages on the heap.
const heapPage = 8192

// newOwn returns zeroed memory of whole pages.
func newOwn(from *[mostPages + 1]spare, size, page int) *own {
	if page > heapPage {
		return &own{bytes: aligned(size, page)}
	}
	pages := size / PageSize
	if pages > mostPages {
		return &own{bytes: make([]byte, size)}
	}
	s := &from[pages]
	if o := s.take(); o != nil {
		clear(o.bytes)
		return o
	}
	return &own{bytes: make([]byte, size), spare: s}
}

// aligned returns memory that begins at a page.
func aligned(size, page int) []byte {
	b := make([]byte, size+page)
	r, err := mmap.Wrap(b)
	if err != nil {
		return nil
	}
	at := -int(r.Addr()) & (page - 1)
	_ = r.Close()
	return b[at:][:size:size]
}

// region returns a view of the first bytes, which holds the memory until it is closed.
func (o *own) region(length int) (*mmap.Region, error) {
	o.holders.Add(1)
	return mmap.WrapUntil(o.bytes[:length], o.release)
}

func (o *own) release() {
	if o.holders.Add(-1) == 0 && o.spare != nil {
		o.spare.put(o)
	}
}

// take returns the oldest piece, or nil.
func (s *spare) take() *own {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) <= s.rest {
		return nil
	}
	o := s.queue[0]
	s.queue = slices.Delete(s.queue, 0, 1)
	return o
}

func (s *spare) put(o *own) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.queue) + 1; n <= mostSpare && n*len(o.bytes) <= mostBytes {
		s.queue = append(s.queue, o)
	}
}

// Memory is the memory of the process that has opened the device. Models access it only through this
// interface. All methods return EFAULT for memory that doesn't exist. They return ESRCH once the process
// has ended, which is no error of the process. Its file will be closed.
type Memory interface {
	// Check returns nil if all of the memory exists.
	Check(addr, length uint64) error
	// Pin returns memory of a region as the device accesses it from now on, at the same addresses. It returns EFAULT
	// for memory that the device may not read or, with write, not write. unpin ends the region's use of it.
	Pin(addr, length uint64, write bool) (pinned Memory, unpin func(), err error)
	Read(addr uint64, b []byte) error
	// Write writes as devices do: a few aligned words are written atomically.
	Write(addr uint64, b []byte) error

	// The following methods access words of rings and doorbell records, and operands of atomics. A
	// load acquires, a store releases. The address is a multiple of the word's size.
	Load32(addr uint64) (uint32, error)
	Store32(addr uint64, v uint32) error
	Load64(addr uint64) (uint64, error)
	Store64(addr uint64, v uint64) error
}

// lent is the memory that this process has lent or allocated here. Addresses are never converted to
// pointers. Instead lent looks up the slice that contains an address.
type lent struct {
	k       *Kernel // the opening, whose lock is also held when pieces change, or nil
	mu      sync.RWMutex
	pieces  []piece // by address
	longest uint64  // no piece has had more bytes

	// found holds the index of the piece in which find last found an address, by page. It may be out of date.
	found [32]atomic.Uint32
}

type piece struct {
	addr   uint64
	region *mmap.Region
	queue  bool // from Alloc; it ends when the caller closes it
}

func (l *lent) add(p piece) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.longest = max(l.longest, uint64(p.region.Len()))
	l.pieces = slices.Insert(l.pieces, l.after(p.addr), p)
}

// end removes a queue that the caller has closed. Even a closed region would keep its memory from the garbage
// collector.
func (l *lent) end(queue *mmap.Region) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := l.after(queue.Addr()) - 1; i >= 0 && l.pieces[i].addr == queue.Addr(); i-- {
		if l.pieces[i].region == queue {
			l.pieces = slices.Delete(l.pieces, i, i+1)
			return
		}
	}
}

// after returns the index of the first piece that begins above an address. The lock is held.
func (l *lent) after(addr uint64) int {
	low, high := 0, len(l.pieces)
	for low < high {
		if i := int(uint(low+high) / 2); l.pieces[i].addr > addr {
			high = i
		} else {
			low = i + 1
		}
	}
	return low
}

// rlock keeps the pieces as they are. A network that holds the opening's lock needs no other.
func (l *lent) rlock() (unlock bool) {
	if l.k != nil && l.k.held {
		return false
	}
	l.mu.RLock()
	return true
}

// forget ends all loans when the file is closed.
func (l *lent) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.pieces {
		if !p.queue {
			_ = p.region.Close()
		}
	}
	l.pieces = nil
}

// remove removes memory, and reports whether it was lent. If several pieces have the address, it removes
// the shortest, so the memory of the others remains complete.
func (l *lent) remove(addr uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := -1
	for j := l.after(addr) - 1; j >= 0 && l.pieces[j].addr == addr; j-- {
		p := &l.pieces[j]
		if !p.queue && (i < 0 || p.region.Len() < l.pieces[i].region.Len()) {
			i = j
		}
	}
	if i < 0 {
		return false
	}
	_ = l.pieces[i].region.Close()
	l.pieces = slices.Delete(l.pieces, i, i+1)
	return true
}

func (l *lent) leaks() (leaks []string) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, p := range l.pieces {
		if !p.queue {
			leaks = append(leaks, fmt.Sprintf("%d bytes that were lent", p.region.Len()))
		}
	}
	return leaks
}

// find returns the piece that contains an address, and the offset in it. The lock is held.
func (l *lent) find(addr, length uint64) (*piece, int, error) {
	found := &l.found[addr/4096%uint64(len(l.found))]
	if i := int(found.Load()); i < len(l.pieces) {
		if p := &l.pieces[i]; p.contains(addr, length) {
			return p, int(addr - p.addr), nil
		}
	}
	for i := l.after(addr) - 1; i >= 0; i-- {
		p := &l.pieces[i]
		if addr-p.addr > l.longest {
			break
		}
		if p.contains(addr, length) {
			found.Store(uint32(i))
			return p, int(addr - p.addr), nil
		}
	}
	return nil, 0, syscall.EFAULT
}

// contains reports whether memory lies in the piece. A closed region has none.
func (p *piece) contains(addr, length uint64) bool {
	off, size := addr-p.addr, uint64(len(p.region.Bytes()))
	return off <= size && length <= size-off
}

// Check implements Memory, as do the methods below.
func (l *lent) Check(addr, length uint64) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	_, _, err := l.find(addr, length)
	return err
}

// NewMemory returns memory of one region, as if it were at an address. The region is closed by unpin.
func NewMemory(addr uint64, r *mmap.Region) (m Memory, unpin func()) {
	l := &lent{}
	l.add(piece{addr, r, false})
	return l, l.forget
}

// Pin takes a region of memory that was lent as it is: the caller may not unmap it.
func (l *lent) Pin(addr, length uint64, write bool) (Memory, func(), error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	p, at, err := l.find(addr, length)
	if err != nil {
		return nil, nil, err
	}
	if write && !isWritable(p.region.Addr()+uint64(at), length) {
		return nil, nil, syscall.EFAULT
	}
	return l, nothing, nil
}

// guard calls access, which reads or writes the piece. It returns EFAULT if the memory can't be read or written:
// the caller may have protected or unmapped it, or cut its file short. A queue is on the heap.
func (p *piece) guard(access func()) (err error) {
	if p.queue {
		access()
		return nil
	}
	defer endGuard(debug.SetPanicOnFault(true), &err)
	access()
	return nil
}

// endGuard sets err if the access of a guard has failed. It is deferred.
func endGuard(before bool, err *error) {
	debug.SetPanicOnFault(before)
	switch p := recover().(type) {
	case nil:
	case interface{ Addr() uintptr }: // of a fault
		*err = syscall.EFAULT
	default:
		panic(p)
	}
}

func (l *lent) Read(addr uint64, b []byte) error {
	return l.bytes(addr, len(b), func(at []byte) { copy(b, at) })
}

// bytes calls do with the memory at an address.
func (l *lent) bytes(addr uint64, n int, do func([]byte)) error {
	if l.rlock() {
		defer l.mu.RUnlock()
	}
	p, at, err := l.find(addr, uint64(n))
	if err != nil {
		return err
	}
	return p.guard(func() { do(p.region.Bytes()[at:][:n]) })
}

// copyDirectly copies memory that this process has lent, from one opening to another. It reports whether it did. It
// does not report which of the two memories can't be accessed: the caller repeats the copy through a buffer.
func copyDirectly(to Memory, at uint64, from Memory, addr uint64, n int) bool {
	dst, isLent := to.(*lent)
	src, areBoth := from.(*lent)
	if !isLent || !areBoth || dst == src { // a second read lock of the same list could deadlock with a waiting writer
		return false
	}
	var err error
	return src.bytes(addr, n, func(b []byte) { err = dst.Write(at, b) }) == nil && err == nil
}

// few is the maximum number of bytes that are copied in words.
const few = 64

func (l *lent) Write(addr uint64, b []byte) error {
	if l.rlock() {
		defer l.mu.RUnlock()
	}
	p, at, err := l.find(addr, uint64(len(b)))
	switch {
	case err != nil:
		return err
	case len(b) > few || len(b)%8 != 0 || addr%8 != 0:
		return p.guard(func() { copy(p.region.Bytes()[at:], b) })
	}
	last := len(b) - 8
	if last < 0 {
		return nil
	}
	w, err := p.region.Word64(at + last)
	if err != nil {
		return syscall.EFAULT
	}
	return p.guard(func() {
		storeWords(p.region, at, b[:last])
		w.Store(binary.NativeEndian.Uint64(b[last:])) // releases the others
	})
}

// storeWords stores aligned words, each of them at once, as the built-in copy does: the garbage collector relies on
// that for pointers.
func storeWords(r *mmap.Region, at int, b []byte) {
	if !raceEnabled { // the race detector takes other stores for half ones
		copy(r.Bytes()[at:], b)
		return
	}
	for i := 0; i < len(b); i += 8 {
		w, _ := r.Word64(at + i)
		w.Store(binary.NativeEndian.Uint64(b[i:]))
	}
}

func (l *lent) Load32(addr uint64) (v uint32, err error) {
	if l.rlock() {
		defer l.mu.RUnlock()
	}
	p, w, err := word(l, addr, 4, (*mmap.Region).Word)
	if err != nil {
		return 0, err
	}
	err = p.guard(func() { v = w.Load() })
	return v, err
}

func (l *lent) Store32(addr uint64, v uint32) error {
	if l.rlock() {
		defer l.mu.RUnlock()
	}
	p, w, err := word(l, addr, 4, (*mmap.Region).Word)
	if err != nil {
		return err
	}
	return p.guard(func() { w.Store(v) })
}

func (l *lent) Load64(addr uint64) (v uint64, err error) {
	if l.rlock() {
		defer l.mu.RUnlock()
	}
	p, w, err := word(l, addr, 8, (*mmap.Region).Word64)
	if err != nil {
		return 0, err
	}
	err = p.guard(func() { v = w.Load() })
	return v, err
}

func (l *lent) Store64(addr uint64, v uint64) error {
	if l.rlock() {
		defer l.mu.RUnlock()
	}
	p, w, err := word(l, addr, 8, (*mmap.Region).Word64)
	if err != nil {
		return err
	}
	return p.guard(func() { w.Store(v) })
}

// word returns the word at an address, and its piece. The lock is held.
func word[T any](l *lent, addr, size uint64, at func(*mmap.Region, int) (*T, error)) (*piece, *T, error) {
	p, off, err := l.find(addr, size)
	if err != nil {
		return nil, nil, err
	}
	w, err := at(p.region, off)
	if err != nil {
		return nil, nil, syscall.EFAULT
	}
	return p, w, nil
}

// Alloc allocates a queue on the heap, where the race detector watches both sides.
func (k *Kernel) Alloc(length int, _ *mmap.AnonymousOptions) (*mmap.Region, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.fault("ALLOC"); err != nil {
		return nil, err
	}
	size := roundUp(length, k.PageSize())
	o := newOwn(users, size, k.PageSize())
	o.holders.Add(1)
	var r *mmap.Region
	r, err := mmap.WrapUntil(o.bytes, func() { k.endQueue(r); o.release() })
	if err == nil {
		k.lent.add(piece{r.Addr(), r, true})
	}
	return r, err
}

func (k *Kernel) endQueue(r *mmap.Region) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lent.end(r)
}

// Lend implements ioctl.File.
func (k *Kernel) Lend(addr uint64, b []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r, err := mmap.Wrap(b); err == nil {
		k.lent.add(piece{addr, r, false})
	}
}

// Return implements ioctl.File. Returning memory that was not lent is a violation.
func (k *Kernel) Return(addr uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.lent.remove(addr) {
		k.Device.violations.note("memory at %#x was returned that was not lent", addr)
	}
}

// unseen is lent memory whose accesses are hidden from the race detector.
type unseen struct{ *lent }

func (u unseen) Read(addr uint64, b []byte) error {
	return u.bytes(addr, len(b), func(at []byte) { copyUnseen(b, at, addr) })
}

func (u unseen) Write(addr uint64, b []byte) error {
	return u.bytes(addr, len(b), func(at []byte) { copyUnseen(at, b, addr) })
}

func (u unseen) Load64(addr uint64) (uint64, error) {
	var b [8]byte
	err := u.Read(addr, b[:])
	return binary.NativeEndian.Uint64(b[:]), err
}

func (u unseen) Store64(addr uint64, v uint64) error {
	return u.Write(addr, binary.NativeEndian.AppendUint64(nil, v))
}

// copyUnseen copies aligned words atomically. addr is the address of the shared memory. It doesn't use
// the built-in copy, which the race detector would see.
//
//go:norace
func copyUnseen(dst, src []byte, addr uint64) {
	for i := 0; i < len(src); {
		if (addr+uint64(i))%8 == 0 && i+8 <= len(src) {
			binary.NativeEndian.PutUint64(dst[i:], binary.NativeEndian.Uint64(src[i:]))
			i += 8
			continue
		}
		dst[i] = src[i]
		i++
	}
}

// memoryEvents is both ends of an event descriptor in memory.
type memoryEvents struct {
	mu      sync.Mutex
	changed sync.Cond      // signals changes of the fields below
	records []memoryRecord // the first taken of them have been read
	taken   int
	expired bool // the read deadline is in the past
	closed  bool
	ended   error // returned after the records
}

// memoryRecord is one event.
type memoryRecord struct {
	b [24]byte
	n int
}

func newMemoryEvents() *memoryEvents {
	m := new(memoryEvents)
	m.changed.L = &m.mu
	return m
}

// unlock unlocks m and wakes all waiting goroutines.
func (m *memoryEvents) unlock() {
	m.mu.Unlock()
	m.changed.Broadcast()
}

// send adds a record. It truncates records that are longer than any event.
func (m *memoryEvents) send(record []byte) {
	m.mu.Lock()
	defer m.unlock()
	if m.taken == len(m.records) {
		m.records, m.taken = m.records[:0], 0
	}
	m.records = append(m.records, memoryRecord{})
	r := &m.records[len(m.records)-1]
	r.n = copy(r.b[:], record)
}

// end makes Read return an error after the remaining records.
func (m *memoryEvents) end(err error) {
	m.mu.Lock()
	defer m.unlock()
	m.ended = err
}

// Await implements [wait.Source]. It never waits, because waiting in Read costs the same.
func (m *memoryEvents) Await(time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return (m.taken < len(m.records) || m.ended != nil) && !m.closed
}

// Read implements [wait.Source]. It returns one record.
func (m *memoryEvents) Read(b []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		switch {
		case m.closed:
			return 0, os.ErrClosed
		case m.expired:
			return 0, os.ErrDeadlineExceeded
		case m.taken < len(m.records):
			r := &m.records[m.taken]
			m.taken++
			return copy(b, r.b[:r.n]), nil
		case m.ended != nil:
			return 0, m.ended
		}
		m.changed.Wait()
	}
}

// SetReadDeadline implements [wait.Source]. A deadline in the future has no effect.
func (m *memoryEvents) SetReadDeadline(when time.Time) error {
	m.mu.Lock()
	defer m.unlock()
	m.expired = !when.IsZero() && !when.After(time.Now())
	return nil
}

// Close implements [wait.Source].
func (m *memoryEvents) Close() error {
	m.mu.Lock()
	defer m.unlock()
	m.closed = true
	return nil
}
