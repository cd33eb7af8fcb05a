package driver_test

import (
	"fmt"
	"net/netip"

	_ "github.com/goverbs/goverbs/provider/siw"
	"github.com/goverbs/goverbs/uverbs/driver"
)

// A provider registers its driver when its package is imported, and package uverbs finds it
// by what the kernel says of a device.
func Example() {
	d := driver.Lookup(driver.SIW)
	lowest, highest := d.ABI()
	fmt.Println(d.ID(), lowest, highest)
	// Output: siw 1 1
}

// A driver that no imported package registered isn't there.
func ExampleLookup() {
	fmt.Println(driver.Lookup(driver.EFA))
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

// Who finds a queue's lock taken may do something else.
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

// A provider keeps what it needs of an address handle, and is told when it is closed.
func ExampleAH() {
	ah, setClosed := driver.NewAH("number 5", func() error {
		fmt.Println("closed")
		return nil
	})
	setClosed(false)
	fmt.Println(ah.Data())
	if err := ah.Close(); err != nil {
		panic(err)
	}
	// Output:
	// number 5
	// closed
}

// The GID of a RoCE v2 port is its IP address.
func ExampleGIDFromAddr() {
	gid := driver.GIDFromAddr(netip.MustParseAddr("192.0.2.1"))
	fmt.Println(gid, gid.Addr(), gid.IsMulticast())
	// Output: ::ffff:192.0.2.1 192.0.2.1 false
}

// An MTU has a code, as packets have it, and a size.
func ExampleMTU() {
	fmt.Println(driver.MTU1024.Bytes())
	// Output: 1024
}

// A completion that failed is an error that names its status.
func ExampleWC_Err() {
	good := driver.WC{WRID: 1, Status: driver.StatusSuccess}
	bad := driver.WC{WRID: 2, Status: driver.StatusRemAccessErr}
	fmt.Println(good.Err())
	fmt.Println(bad.Err())
	// Output:
	// <nil>
	// uverbs: work request 0x2 on QP 0: remote access error
}
