package netlinkrdma_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/verbs"
)

// What a device plugin hands to a container: the device's node, and the network
// devices behind its ports.
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

// The queue pairs of one process that are in error. The kernel picks by port only, and
// names the thread that made each queue pair.
func ExampleClient_DumpQP() {
	var c netlinkrdma.Client
	d, err := c.DeviceByName("rxe0")
	if err != nil {
		log.Fatal(err)
	}
	for qp, err := range c.DumpQP(d.Index, &netlinkrdma.DumpOptions{Port: 1}) {
		if err != nil {
			log.Fatal(err)
		}
		pid, err := qp.PID()
		if err == nil && pid == os.Getpid() && qp.State == verbs.QPStateErr {
			fmt.Println(qp.LQPN, qp.Type, qp.State)
		}
	}
}

// What an exporter reads. Not every driver counts.
func ExampleClient_PortCounters() {
	var c netlinkrdma.Client
	d, err := c.DeviceByName("rxe0")
	if err != nil {
		log.Fatal(err)
	}
	for port := uint32(1); port <= d.Ports; port++ {
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

// A program that keeps a list of devices subscribes first and lists them then. It
// lists them again when something happened, when events were lost and, on a kernel
// without events, from time to time.
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
