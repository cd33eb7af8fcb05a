package netlinkrdma_test

import (
	"context"
	"fmt"
	"log"
	"testing/fstest"

	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
	"github.com/goverbs/goverbs/verbs"
)

// exampleKernel answers like a kernel with one device. A program leaves Client's Kernel
// out, and is answered by the running one.
func exampleKernel() *nltest.Kernel {
	return &nltest.Kernel{
		Devices:  []netlinkrdma.Device{{Index: 7, Name: "rxe0", Ports: 1, Protocol: "roce"}},
		Ports:    []netlinkrdma.Port{{DeviceIndex: 7, DeviceName: "rxe0", Index: 1, State: verbs.PortActive, NetdevIndex: 4, NetdevName: "eth0"}},
		CharDevs: map[uint32]netlinkrdma.CharDev{7: {Name: "uverbs0", ABI: 2, Major: 231, Minor: 192}},
	}
}

// The devices of this host, with their ports.
func Example() {
	c := netlinkrdma.Client{Kernel: exampleKernel()}
	devices, err := c.Devices()
	if err != nil {
		log.Fatal(err)
	}
	for _, d := range devices {
		ports, err := c.Ports(d.Index)
		if err != nil {
			log.Fatal(err)
		}
		for _, p := range ports {
			fmt.Println(d.Name, p.Index, p.State, p.NetdevName)
		}
	}
	// Output: rxe0 1 ACTIVE eth0
}

// A device goes away, and a program that subscribed before is told.
func ExampleEvents() {
	kernel := exampleKernel()
	kernel.System.Monitor = true // as Linux 6.12, which sends events
	c := netlinkrdma.Client{Kernel: kernel}
	events, err := c.Subscribe()
	if err != nil {
		log.Fatal(err)
	}
	defer events.Close()
	kernel.Notify(netlinkrdma.Event{Type: netlinkrdma.EventUnregister, DeviceIndex: 7, DeviceName: "rxe0"})
	event, err := events.Next(context.Background())
	fmt.Println(event.Type, event.DeviceName, err)
	// Output: UNREGISTER rxe0 <nil>
}

// The node of a device, as a container is given it.
func ExampleCharDev() {
	c := netlinkrdma.Client{Kernel: exampleKernel()}
	node, err := c.UverbsCharDev(7)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(node.Path(), node.Major, node.Minor)
	// Output: /dev/infiniband/uverbs0 231 192
}

// The kernel names the thread that made an object. Its process is found in /proc.
func ExampleOwner_PIDIn() {
	owner := netlinkrdma.Owner{TID: 43}
	proc := fstest.MapFS{"43/status": {Data: []byte("Name:\tserver\nTgid:\t42\nPid:\t43\n")}}
	pid, err := owner.PIDIn(proc)
	fmt.Println(pid, err)
	// Output: 42 <nil>
}

// The key of a pool is written as text and read again.
func ExampleFRMRPoolKey() {
	key := netlinkrdma.FRMRPoolKey{DMABlocks: 16, AccessFlags: 1}
	again, err := netlinkrdma.ParseFRMRPoolKey(key.String())
	fmt.Println(again == key, err)
	// Output: true <nil>
}
