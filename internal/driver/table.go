package driver

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// Table finds objects by the number that completions contain: a QPN, or an index of the provider.
// Numbers have 24 bits. All methods may be called concurrently.
type Table[T any] struct {
	mu    sync.Mutex       // held by methods that change the table
	next  uint32           // the number that Put tries first
	used  [tableRow]uint16 // objects in each row
	empty uint32           // the row that became empty last
	rows  [tableRow]atomic.Pointer[[tableRow]atomic.Pointer[T]]
}

const (
	tableRow  = 1 << 12
	tableSize = tableRow * tableRow
)

// Get returns the object with a number, or nil. The number need not be valid. Get takes no lock.
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

// Put chooses a number for v. If possible, that is the number that has been unused for the longest
// time. It is never the highest number, which some devices reserve.
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

// Set gives v a number that the kernel chose, and replaces the object that had it.
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
	i := n / tableRow
	row := t.rows[i].Load()
	if row == nil {
		row = new([tableRow]atomic.Pointer[T])
		t.rows[i].Store(row)
	}
	had := row[n%tableRow].Swap(v) != nil
	switch {
	case v != nil && !had:
		t.used[i]++
	case v == nil && had:
		if t.used[i]--; t.used[i] == 0 {
			t.emptied(i)
		}
	}
}

// emptied frees the memory of the row that became empty before row i, so that a device whose numbers wander does not
// fill the whole table. Row i stays, because the next object may well get one of its numbers.
func (t *Table[T]) emptied(i uint32) {
	if t.empty != i && t.used[t.empty] == 0 {
		t.rows[t.empty].Store(nil)
	}
	t.empty = i
}

// Delete frees a number if it is v's. The kernel may have given the number to a new object before
// the old one was deleted here.
func (t *Table[T]) Delete(n uint32, v *T) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if v != nil && t.Get(n) == v {
		t.set(n, nil)
	}
}
