package driver_test

import (
	"fmt"

	"github.com/goverbs/goverbs/internal/driver"
	_ "github.com/goverbs/goverbs/provider/siw"
	"github.com/goverbs/goverbs/verbs"
)

// A provider registers its driver when its package is imported, and package uverbs finds it
// by what the kernel says of a device.
func Example() {
	d := driver.Lookup(verbs.DriverSIW)
	lowest, highest := d.ABI()
	fmt.Println(d.ID(), lowest, highest)
	// Output: siw 1 1
}

// A driver that no imported package registered isn't there.
func ExampleLookup() {
	fmt.Println(driver.Lookup(verbs.DriverEFA))
	// Output: <nil>
}

// A provider's queue pair is found by the number that a completion names.
func ExampleTable() {
	type queuePair struct{ name string }
	var table driver.Table[queuePair]
	qp := &queuePair{"first"}
	if err := table.Set(17, qp); err != nil {
		panic(err)
	}
	fmt.Println(table.Get(17).name)
	table.Delete(17, qp)
	fmt.Println(table.Get(17))
	// Output:
	// first
	// <nil>
}

// A goroutine that finds a queue's lock taken may do something else.
func ExampleLock() {
	var lock driver.Lock
	lock.Lock()
	fmt.Println(lock.TryLock())
	lock.Unlock()
	fmt.Println(lock.TryLock())
	// Output:
	// false
	// true
}
