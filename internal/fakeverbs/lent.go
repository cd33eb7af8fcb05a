package fakeverbs

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/goverbs/goverbs/mmap"
)

// lent is the memory that this process lent or allocated here. No address becomes a
// pointer: the slice that holds it is looked up.
type lent struct {
	mu     sync.RWMutex
	pieces []piece
}

type piece struct {
	addr   uint64
	region *mmap.Region
	queue  bool // of Alloc: gone when the caller closes it
}

func (p *piece) isGone() bool { return p.region.Bytes() == nil }

func (l *lent) add(p piece) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pieces = append(slices.DeleteFunc(l.pieces, func(p piece) bool { return p.isGone() }), p)
}

// alias has memory be found at another address too, until undo is called.
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
	l.pieces = append(l.pieces, piece{other, twin, true})
	return func() { _ = twin.Close() }, nil
}

// forget ends what was lent, with the file.
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

// remove takes back what was lent, and reports whether it was. Of several pieces with one
// address it takes the shortest, so that the memory of those that stay is still there.
func (l *lent) remove(addr uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := -1
	for j := range l.pieces {
		p := &l.pieces[j]
		if p.addr == addr && !p.queue && (i < 0 || p.region.Len() < l.pieces[i].region.Len()) {
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

// find finds the region that holds an address, and where in it. The lock is held.
func (l *lent) find(addr, length uint64) (*mmap.Region, int, error) {
	for i := range l.pieces {
		p := &l.pieces[i]
		size := uint64(len(p.region.Bytes()))
		if off := addr - p.addr; addr >= p.addr && off <= size && length <= size-off {
			return p.region, int(off), nil
		}
	}
	return nil, 0, syscall.EFAULT
}

// Check implements Memory, as all that follows.
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

// few is how many bytes come in words.
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

// word does what do does to the word at an address.
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

// Alloc makes a queue's memory on the heap, where the race detector watches both sides.
func (k *Kernel) Alloc(length int, _ *mmap.AnonymousOptions) (*mmap.Region, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.fault("ALLOC"); err != nil {
		return nil, err
	}
	r, err := newOwn(users, RoundUp(length)).region(RoundUp(length))
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

// Return implements ioctl.File. It is a violation for memory that was not lent.
func (k *Kernel) Return(addr uint64) {
	if !k.lent.remove(addr) {
		k.Device.violations.note("memory at %#x was returned that was not lent", addr)
	}
}

// unseen is lent memory whose accesses the race detector does not see.
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

// copyUnseen copies aligned words as a whole; addr is where the memory is that both sides use. The
// detector would see the copy built-in.
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
