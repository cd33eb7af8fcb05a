package driver

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// Table finds objects by the number that completions name them by: a QPN, or an index
// of the provider's own. Numbers have 24 bits. All methods may be called concurrently.
type Table[T any] struct {
	mu   sync.Mutex // held by those that change the table
	next uint32     // where Put looks first
	rows [tableRow]atomic.Pointer[[tableRow]atomic.Pointer[T]]
}

const (
	tableRow  = 1 << 12
	tableSize = tableRow * tableRow
)

// Get returns what stands at a number, which may come from a device, or nil. It takes
// no lock.
func (t *Table[T]) Get(n uint32) *T {
	if n >= tableSize {
		return nil
	}
	row := t.rows[n/tableRow].Load()
	if row == nil {
		return nil
	}
	return row[n%tableRow].Load()
}

// Put chooses a number for v, the one longest out of use where it can. The highest
// of 24 bits, which some devices take for none, is not among them.
func (t *Table[T]) Put(v *T) (uint32, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for range tableSize {
		n := t.next
		t.next = (t.next + 1) % (tableSize - 1)
		if t.Get(n) == nil {
			t.set(n, v)
			return n, nil
		}
	}
	return 0, fmt.Errorf("all %d numbers are in use", tableSize-1)
}

// Set has v stand at a number that the kernel chose, in place of what stood there.
func (t *Table[T]) Set(n uint32, v *T) error {
	if n >= tableSize {
		return fmt.Errorf("number %#x has more than 24 bits", n)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.set(n, v)
	return nil
}

func (t *Table[T]) set(n uint32, v *T) {
	row := t.rows[n/tableRow].Load()
	if row == nil {
		row = new([tableRow]atomic.Pointer[T])
		t.rows[n/tableRow].Store(row)
	}
	row[n%tableRow].Store(v)
}

// Delete frees a number if v stands there. Something else does when the kernel gave
// the number to a new object before the old one was deleted here.
func (t *Table[T]) Delete(n uint32, v *T) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if v != nil && t.Get(n) == v {
		t.set(n, nil)
	}
}
