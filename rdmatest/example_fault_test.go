package rdmatest_test

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
)

// A fault's Struck reports whether it has happened, and one that hasn't can be taken back.
func ExampleFault() {
	t := new(example)
	defer t.end()
	device := rdmatest.New(t).Host(0).Device(0)
	dev, err := uverbs.Open(device.Name())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer dev.Close()
	fault := device.Fail(rdmatest.CallAllocPD, 0, syscall.ENOMEM)
	fmt.Println("struck:", fault.Struck())
	_, err = dev.AllocPD()
	fmt.Println("struck:", fault.Struck(), errors.Is(err, syscall.ENOMEM))
	fault = device.Fail(rdmatest.CallAllocPD, 0, syscall.ENOMEM)
	fmt.Println("stopped:", fault.Stop())
	pd, err := dev.AllocPD()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(pd.Close())
	// Output:
	// struck: false
	// struck: true true
	// stopped: true
	// <nil>
}

// A host has a limit on locked memory, as a process has on Linux.
func ExampleHost() {
	t := new(example)
	defer t.end()
	host := rdmatest.New(t).Host(0)
	host.SetMemlock(64 << 10)
	dev, err := uverbs.Open(host.Device(0).Name())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer dev.Close()
	pd, err := dev.AllocPD()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pd.Close()
	_, err = pd.AllocMR(1<<20, 0, nil)
	fmt.Println(errors.Is(err, syscall.ENOMEM))
	// Output: true
}
