package fakeverbs

import (
	"fmt"
	"slices"
	"syscall"

	"github.com/goverbs/goverbs/mmap"
)

// lent is memory of user space's that the kernel may be told the address of.
type lent struct {
	addr uint64
	b    []byte
}

// Alloc makes a queue's memory on the heap, where the race detector watches both sides.
func (k *Kernel) Alloc(length int, _ *mmap.AnonymousOptions) (*mmap.Region, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.fault("ALLOC"); err != nil {
		return nil, err
	}
	r, err := mmap.Wrap(make([]byte, roundUp(length)))
	if err == nil {
		k.queues = append(k.queues, lent{r.Addr(), r.Bytes()})
	}
	return r, err
}

// Lend implements ioctl.File.
func (k *Kernel) Lend(addr uint64, b []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lent = append(k.lent, lent{addr, b})
}

// Return implements ioctl.File. It panics for memory that was not lent, which is a
// fault of package uverbs.
func (k *Kernel) Return(addr uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	i := slices.IndexFunc(k.lent, func(l lent) bool { return l.addr == addr })
	if i < 0 {
		panic(fmt.Sprintf("memory at %#x was not lent", addr))
	}
	k.lent = slices.Delete(k.lent, i, i+1)
}

// at finds the bytes behind an address, of memory that was lent or allocated here.
func (k *Kernel) at(addr, length uint64) ([]byte, error) {
	for _, l := range slices.Concat(k.lent, k.queues) {
		if off := addr - l.addr; addr >= l.addr && off <= uint64(len(l.b)) && length <= uint64(len(l.b))-off {
			return l.b[off:][:length], nil
		}
	}
	return nil, syscall.EFAULT
}
