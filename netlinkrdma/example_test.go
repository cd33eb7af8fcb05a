package netlinkrdma_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"testing/fstest"
	"time"

	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
	"github.com/goverbs/goverbs/verbs"
)

// A device plugin passes a container the device's node and the network devices of its ports.
func ExampleClient_Devices() {
	var c netlinkrdma.Client
	devices, err := c.Devices()
	if err != nil {
		log.Fatal(err)
	}
	for _, d := range devices {
		node, err := c.UverbsCharDev(d.Index)
		if err != nil {
			log.Print(err) // it has none, as a sub-device, or went away since
			continue
		}
		fmt.Printf("%s: %s %d:%d\n", d.Name, node.Path(), node.Major, node.Minor)
		ports, err := c.Ports(d.Index)
		if err != nil {
			log.Fatal(err)
		}
		for _, p := range ports {
			fmt.Printf("  port %d %v %s\n", p.Index, p.State, p.NetdevName)
		}
	}
}

// List the queue pairs of one process that are in error. The kernel filters by port only, and
// returns the thread that created each queue pair.
func ExampleClient_QPs() {
	var c netlinkrdma.Client
	d, err := c.DeviceByName("rxe0")
	if err != nil {
		log.Fatal(err)
	}
	for qp, err := range c.QPs(d.Index, &netlinkrdma.ListOptions{Port: 1}) {
		if err != nil {
			log.Fatal(err)
		}
		pid, err := qp.PID()
		if err == nil && pid == os.Getpid() && qp.State == verbs.QPStateErr {
			fmt.Println(qp.LQPN, qp.Type, qp.State)
		}
	}
}

// An exporter reads counters. Some drivers have none.
func ExampleClient_PortCounters() {
	var c netlinkrdma.Client
	d, err := c.DeviceByName("rxe0")
	if err != nil {
		log.Fatal(err)
	}
	for port := 1; port <= d.Ports; port++ {
		counters, err := c.PortCounters(d.Index, port)
		if errors.Is(err, netlinkrdma.ErrNoStatistics) {
			continue
		}
		if err != nil {
			log.Fatal(err)
		}
		for _, n := range counters {
			fmt.Printf("rdma_%s{device=%q,port=\"%d\"} %d\n", n.Name, d.Name, port, n.Value)
		}
	}
}

// A program that keeps a list of devices subscribes before it lists them. It lists them again
// after an event, after events were lost and, on a kernel without events, from time to time.
func ExampleClient_Subscribe() {
	ctx := context.Background()
	var c netlinkrdma.Client
	events, err := c.Subscribe()
	if err != nil && !errors.Is(err, verbs.ErrNotSupported) {
		log.Fatal(err)
	}
	for {
		devices, err := c.Devices()
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(devices)
		if events == nil {
			time.Sleep(10 * time.Second)
			continue
		}
		if _, err := events.Next(ctx); err != nil && !errors.Is(err, netlinkrdma.ErrEventsLost) {
			log.Fatal(err)
		}
	}
}

// A CNI plugin moves a device to a container's network namespace, and back.
func ExampleNetns() {
	initial, err := os.Open("/proc/self/ns/net")
	if err != nil {
		log.Fatal(err)
	}
	defer initial.Close()
	container, err := os.Open("/run/netns/blue")
	if err != nil {
		log.Fatal(err)
	}
	defer container.Close()

	var here netlinkrdma.Client
	there := netlinkrdma.Client{Kernel: netlinkrdma.Netns{File: container}}
	d, err := here.DeviceByName("mlx5_0")
	if err != nil {
		log.Fatal(err)
	}
	if err := here.MoveDevice(d.Index, container); err != nil {
		log.Fatal(err) // in shared mode, or with siw and rxe, it says so
	}
	if err := there.MoveDevice(d.Index, initial); err != nil {
		log.Fatal(err)
	}
}

// exampleKernel answers like a kernel with one device. A program leaves Client.Kernel nil, so
// that the running kernel answers.
func exampleKernel() *nltest.Kernel {
	return &nltest.Kernel{
		Devices:  []netlinkrdma.Device{{Index: 7, Name: "rxe0", Ports: 1, Protocol: "roce"}},
		Ports:    []netlinkrdma.Port{{DeviceIndex: 7, DeviceName: "rxe0", Index: 1, State: verbs.PortActive, NetdevIndex: 4, NetdevName: "eth0"}},
		CharDevs: map[uint32]netlinkrdma.CharDev{7: {Name: "uverbs0", ABI: 2, Major: 231, Minor: 192}},
	}
}

// List the devices of this host and their ports.
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

// A program that has subscribed receives an event when a device goes away.
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

// Find the node of a device, for a container.
func ExampleCharDev() {
	c := netlinkrdma.Client{Kernel: exampleKernel()}
	node, err := c.UverbsCharDev(7)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(node.Path(), node.Major, node.Minor)
	// Output: /dev/infiniband/uverbs0 231 192
}

// The kernel returns the thread that created an object. /proc has its process.
func ExampleOwner_PIDIn() {
	owner := netlinkrdma.Owner{TID: 43}
	proc := fstest.MapFS{"43/status": {Data: []byte("Name:\tserver\nTgid:\t42\nPid:\t43\n")}}
	pid, err := owner.PIDIn(proc)
	fmt.Println(pid, err)
	// Output: 42 <nil>
}

// Format the key of a pool as text and parse it again.
func ExampleFRMRPoolKey() {
	key := netlinkrdma.FRMRPoolKey{DMABlocks: 16, AccessFlags: 1}
	again, err := netlinkrdma.ParseFRMRPoolKey(key.String())
	fmt.Println(again == key, err)
	// Output: true <nil>
}
