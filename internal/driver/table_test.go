package driver

import (
	"sync"
	"testing"
)

func TestTable(t *testing.T) {
	var table Table[int]
	a, b := new(int), new(int)
	for _, n := range []uint32{0, 5, tableRow, tableSize - 1, tableSize, 1<<32 - 1} {
		if table.Get(n) != nil {
			t.Errorf("an empty table has %d", n)
		}
	}
	if err := table.Set(tableSize, a); err == nil || table.Get(tableSize) != nil {
		t.Error("a number of 25 bits")
	}
	for _, n := range []uint32{1, tableRow, tableSize - 1} {
		if err := table.Set(n, a); err != nil || table.Get(n) != a {
			t.Errorf("%d: %v", n, err)
		}
	}
	// The kernel gave the number of a to b before a was deleted.
	if err := table.Set(1, b); err != nil {
		t.Error(err)
	}
	if table.Delete(1, a); table.Get(1) != b {
		t.Error("deleting the old object deleted the new one")
	}
	if table.Delete(1, b); table.Get(1) != nil || table.Get(tableRow) != a {
		t.Error("Delete left the object, or took another")
	}
	table.Delete(tableSize, a)
}

// TestTablePut checks that numbers differ, and one that was freed rests before it is chosen again.
func TestTablePut(t *testing.T) {
	var table Table[int]
	v := new(int)
	if err := table.Set(1, v); err != nil {
		t.Fatal(err)
	}
	for _, want := range []uint32{0, 2, 3} {
		if n, err := table.Put(v); n != want || err != nil {
			t.Fatalf("%d, %v, want %d", n, err, want)
		}
	}
	table.Delete(2, v)
	if n, _ := table.Put(v); n != 4 {
		t.Errorf("%d, want 4", n)
	}
	table.next = tableSize - 2
	for _, want := range []uint32{tableSize - 2, 2} { // the highest is left out
		if n, err := table.Put(v); n != want || err != nil {
			t.Errorf("%d, %v, want %d", n, err, want)
		}
	}
}

// TestTableRows checks that memory is held for the numbers in use, not for all that were ever in use.
func TestTableRows(t *testing.T) {
	var table Table[int]
	stays, goes := new(int), new(int)
	if err := table.Set(tableRow, stays); err != nil {
		t.Fatal(err)
	}
	for n := uint32(0); n < tableSize; n += tableRow / 2 {
		if n == tableRow {
			continue
		}
		for range 2 {
			if err := table.Set(n, goes); err != nil || table.Get(n) != goes {
				t.Fatalf("%d: %v", n, err)
			}
		}
		table.Delete(n, goes)
	}
	rows := 0
	for i := range table.rows {
		if table.rows[i].Load() != nil {
			rows++
		}
	}
	if rows != 2 || table.Get(tableRow) != stays { // and the one that became empty last
		t.Errorf("%d rows for one object", rows)
	}
	if table.Delete(tableRow, stays); table.Get(tableRow) != nil || table.Get(0) != nil {
		t.Error("the table is not empty")
	}
}

func TestTableConcurrent(t *testing.T) {
	var table Table[uint32]
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 10000 {
				v := new(uint32)
				n, err := table.Put(v)
				if *v = n; err != nil || table.Get(n) != v {
					t.Error("another object has its number", err)
				}
				table.Delete(n, v)
			}
		})
	}
	all.Wait()
}
