// Package netlinkrdma speaks the kernel's NETLINK_RDMA family: it lists RDMA
// devices, their ports, character devices, the objects that live on them and
// what they count, changes devices and what holds for all of them, adds and
// deletes the links of the software drivers (siw, rxe), and tells of devices
// that come and go. It needs no /sys, no /proc and no device node.
//
// A [Client] does all of it; its zero value talks to the running kernel:
//
//	var c netlinkrdma.Client
//	devices, err := c.Devices()
//
// Objects, of which there may be many, come one by one while the kernel lists
// them (DumpQP, DumpCMID, DumpCQ, DumpMR, DumpPD, DumpContext, DumpSRQ,
// DumpFRMRPools), most of them also by their number (GetQP and so on):
//
//	for qp, err := range c.DumpQP(devices[0].Index, nil) {
//
// A dump is no snapshot. The kernel fills one datagram at a time and goes on at
// the same position: what is made meanwhile may be missing, and when an object
// goes away, another one may be.
//
// Statistics are those of a port (PortCounters), of QPs that share a counter
// (DumpQPCounter) and of memory regions (DumpMRCounters). Which QPs share one is
// up to the mode of the port (SetAutoCounters, BindCounter). Counters that cost
// something are off at first (CounterStatus, SetOptionalCounters).
//
// The shortest whole program:
//
//	package main
//
//	import (
//		"fmt"
//		"log"
//
//		"github.com/goverbs/goverbs/netlinkrdma"
//	)
//
//	func main() {
//		var c netlinkrdma.Client
//		devices, err := c.Devices()
//		if err != nil {
//			log.Fatal(err)
//		}
//		for _, d := range devices {
//			fmt.Println(d.Name, d.Protocol, d.Ports)
//		}
//	}
//
// # Events
//
// Subscribe first, then list, and nothing is missed:
//
//	events, err := c.Subscribe()
//	devices, err := c.Devices()
//	for {
//		event, err := events.Next(ctx)
//		if errors.Is(err, netlinkrdma.ErrEventsLost) {
//			devices, err = c.Devices() // start over
//
// Linux 6.1 sends no events, and Subscribe says [verbs.ErrNotSupported]. In shared mode
// they are heard in the first network namespace only. A program that is to run on
// 6.1, or in a container, compares what Devices and Ports list from time to time, by
// Device.Index: a name may be used again, an index isn't while the device lives.
//
// # Values
//
// An attribute that the kernel may leave out is an [Opt]. An attribute of a newer kernel is
// ignored, and a value without a name prints as QPState(27).
//
// # Network namespaces
//
// Every call opens a socket of its own and closes it. The socket belongs to
// the network namespace of the calling thread, or to that of a [Netns], whose
// calls leave no thread behind:
//
//	blue := netlinkrdma.Client{Kernel: netlinkrdma.Netns{File: f}}
//	err := c.MoveDevice(device, f)         // there, in exclusive mode
//	err = blue.MoveDevice(device, initial) // and back
//
// What the kernel shows depends on it: in exclusive mode only the devices of
// that namespace, in shared mode all of them, but a port's netdev only when
// it lives there too. In exclusive mode a link of siw or rxe belongs to the
// first namespace, wherever it was added, and can't be moved; it goes when its
// netdev does, as all netdevs of a namespace that ends.
//
// # Errors
//
// The kernel's errno is kept: errors.Is(err, syscall.EPERM) works. Beside it
// stand [ErrNotFound], [ErrNoObject], [ErrNoRaw], [ErrNoFRMRPools], [ErrNoStatistics],
// [ErrEventsLost], [verbs.ErrNotSupported], [ErrPermission], [ErrInvalidName] and
// [ErrMalformed]. Where the kernel says in words what is wrong, the error has
// them.
//
// Only linux has NETLINK_RDMA. Elsewhere every call fails with
// [verbs.ErrNotSupported].
package netlinkrdma
