package fakeverbs

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"sort"
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
	mu      sync.RWMutex
	pieces  []piece // by address
	longest uint64  // no piece has had more bytes
	swept   int     // pieces that were left when those that are gone were last removed
}

type piece struct {
	addr   uint64
	region *mmap.Region
	queue  bool // from Alloc; it ends when the caller closes it
}

func (p *piece) isGone() bool { return p.region.Bytes() == nil }

// fewPieces is the number of pieces that are searched for each added piece.
const fewPieces = 64

func (l *lent) add(p piece) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.insert(p)
}

// insert removes the pieces that are gone once there are twice as many as the last time, so that a process
// with many of them does not look through all for each new one. The lock is held.
func (l *lent) insert(p piece) {
	if len(l.pieces) >= max(2*l.swept, fewPieces) {
		l.pieces = slices.DeleteFunc(l.pieces, func(p piece) bool { return p.isGone() })
		l.swept = len(l.pieces)
	}
	l.longest = max(l.longest, uint64(p.region.Len()))
	l.pieces = slices.Insert(l.pieces, l.after(p.addr), p)
}

// after returns the index of the first piece that begins above an address. The lock is held.
func (l *lent) after(addr uint64) int {
	return sort.Search(len(l.pieces), func(i int) bool { return l.pieces[i].addr > addr })
}

// alias makes memory visible at a second address, until undo is called.
func (l *lent) alias(addr, length, other uint64) (undo func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, at, err := l.find(addr, length)
	if err != nil {
		return nil, err
	}
	twin, err := mmap.Wrap(r.Bytes()[at:][:length])
	if err != nil {
		return nil, syscall.EINVAL
	}
	l.insert(piece{other, twin, true})
	return func() { _ = twin.Close() }, nil
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

// find returns the region that contains an address, and the offset in it. The lock is held.
func (l *lent) find(addr, length uint64) (*mmap.Region, int, error) {
	for i := l.after(addr) - 1; i >= 0; i-- {
		p := &l.pieces[i]
		off := addr - p.addr
		if off > l.longest {
			break
		}
		if size := uint64(len(p.region.Bytes())); off <= size && length <= size-off {
			return p.region, int(off), nil
		}
	}
	return nil, 0, syscall.EFAULT
}

// Check implements Memory, as do the methods below.
func (l *lent) Check(addr, length uint64) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	_, _, err := l.find(addr, length)
	return err
}

func (l *lent) Read(addr uint64, b []byte) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	r, at, err := l.find(addr, uint64(len(b)))
	if err == nil {
		copy(b, r.Bytes()[at:])
	}
	return err
}

// few is the maximum number of bytes that are copied in words.
const few = 64

func (l *lent) Write(addr uint64, b []byte) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	r, at, err := l.find(addr, uint64(len(b)))
	switch {
	case err != nil:
		return err
	case len(b) > few || len(b)%8 != 0 || addr%8 != 0:
		copy(r.Bytes()[at:], b)
		return nil
	}
	for i := 0; i < len(b); i += 8 {
		w, err := r.Word64(at + i)
		if err != nil {
			return syscall.EFAULT
		}
		w.Store(binary.NativeEndian.Uint64(b[i:]))
	}
	return nil
}

func (l *lent) Load32(addr uint64) (v uint32, err error) {
	err = word(l, addr, 4, (*mmap.Region).Word, func(w *atomic.Uint32) { v = w.Load() })
	return v, err
}

func (l *lent) Store32(addr uint64, v uint32) error {
	return word(l, addr, 4, (*mmap.Region).Word, func(w *atomic.Uint32) { w.Store(v) })
}

func (l *lent) Load64(addr uint64) (v uint64, err error) {
	err = word(l, addr, 8, (*mmap.Region).Word64, func(w *atomic.Uint64) { v = w.Load() })
	return v, err
}

func (l *lent) Store64(addr uint64, v uint64) error {
	return word(l, addr, 8, (*mmap.Region).Word64, func(w *atomic.Uint64) { w.Store(v) })
}

// word calls do with the word at an address.
func word[T any](l *lent, addr, size uint64, at func(*mmap.Region, int) (*T, error), do func(*T)) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	r, off, err := l.find(addr, size)
	if err != nil {
		return err
	}
	w, err := at(r, off)
	if err != nil {
		return syscall.EFAULT
	}
	do(w)
	return nil
}

// Alloc allocates a queue on the heap, where the race detector watches both sides.
func (k *Kernel) Alloc(length int, _ *mmap.AnonymousOptions) (*mmap.Region, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.fault("ALLOC"); err != nil {
		return nil, err
	}
	size := roundUp(length, k.PageSize())
	r, err := newOwn(users, size, k.PageSize()).region(size)
	if err == nil {
		k.lent.add(piece{r.Addr(), r, true})
	}
	return r, err
}

// Lend implements ioctl.File.
func (k *Kernel) Lend(addr uint64, b []byte) {
	if r, err := mmap.Wrap(b); err == nil {
		k.lent.add(piece{addr, r, false})
	}
}

// Return implements ioctl.File. Returning memory that was not lent is a violation.
func (k *Kernel) Return(addr uint64) {
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

func (u unseen) bytes(addr uint64, n int, do func([]byte)) error {
	u.mu.RLock()
	defer u.mu.RUnlock()
	r, at, err := u.find(addr, uint64(n))
	if err == nil {
		do(r.Bytes()[at:][:n])
	}
	return err
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
