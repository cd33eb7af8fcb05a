// Package netlinkrdma speaks the kernel's NETLINK_RDMA family. It lists RDMA devices,
// their ports, character devices, objects and counters. It changes the settings of a
// device and of the whole system, adds and deletes the links of the software drivers
// (siw, rxe), and reports devices that come and go. It needs no /sys, no /proc and no
// device node.
//
// [Client] has all calls. Its zero value talks to the running kernel:
//
//	var c netlinkrdma.Client
//	devices, err := c.Devices()
//
// A device may have many objects, so they are returned one by one while the kernel lists
// them (QPs, CMIDs, CQs, MRs, PDs, Contexts, SRQs,
// FRMRPools). QP and its like return the object with a given number:
//
//	for qp, err := range c.QPs(devices[0].Index, nil) {
//
// A dump is not a snapshot. The kernel fills one datagram at a time and continues at the
// same position. An object that is created during a dump may be missing. When an object
// is destroyed during a dump, another object may be missing too.
//
// There are counters of a port (PortCounters), of QPs that share a counter
// (QPCounters) and of memory regions (AllMRCounters). The mode of the port decides
// which QPs share a counter (SetAutoCounters, BindCounter). Optional counters slow the
// device down and are off at first (CounterStatus, SetOptionalCounters).
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
// Subscribe before you list the devices, so that no change is missed:
//
//	events, err := c.Subscribe()
//	devices, err := c.Devices()
//	for {
//		event, err := events.Next(ctx)
//		if errors.Is(err, netlinkrdma.ErrEventsLost) {
//			devices, err = c.Devices() // start over
//
// Linux 6.1 sends no events, and Subscribe returns [verbs.ErrNotSupported]. In shared mode
// the kernel sends events to the initial network namespace only. A program that must run
// on 6.1 or in a container should call Devices and Ports from time to time and compare
// the results by Device.Index. A name may be used again by another device; an index is
// not reused while the device exists.
//
// # Values
//
// An attribute that the kernel may leave out is an [Opt]. Attributes that only a newer
// kernel has are ignored. A value without a name prints as QPState(27).
//
// # Network namespaces
//
// Every call opens a socket and closes it. The socket belongs to the network namespace of
// the calling thread. With a [Socket] all calls share one, which stays in the namespace of
// the thread that made the first call. With a [Netns] the socket belongs to that namespace,
// and no thread of the program stays there:
//
//	blue := netlinkrdma.Client{Kernel: netlinkrdma.Netns{File: f}}
//	err := c.MoveDevice(device, f)         // there, in exclusive mode
//	err = blue.MoveDevice(device, initial) // and back
//
// In exclusive mode the kernel shows only the devices of the socket's namespace. In
// shared mode it shows all devices, but a port's network device only if that is in the
// same namespace. In exclusive mode a link of siw or rxe belongs to the initial namespace,
// wherever it was added, and cannot be moved. The kernel deletes the link when its network
// device is deleted, as happens to most network devices of a namespace that ends.
//
// # Errors
//
// Errors match the kernel's errno: errors.Is(err, syscall.EPERM) works. They also match
// [ErrNotFound], [ErrNoObject], [ErrNoRaw], [ErrNoFRMRPools], [ErrNoStatistics],
// [ErrEventsLost], [verbs.ErrNotSupported], [ErrPermission], [ErrInvalidName] or
// [ErrMalformed] where these apply. If the kernel explains a failure in words, the error
// has that text.
//
// If a kernel or driver does not support a call, the error matches
// [errors.ErrUnsupported]. Only Linux has NETLINK_RDMA. On other systems every call fails
// with [verbs.ErrNotSupported].
//
// GOVERBS_DEBUG=netlink in the environment prints every request and its result to standard
// error.
package netlinkrdma

/*
Implementation

A call of the zero Client opens a socket, sends one request, reads the answer and closes the
socket, so nothing is shared and several goroutines may use a Client. A Socket keeps its socket
open. Before it sends a request it receives the rest of the answer to the last one, which is
incomplete if a loop over a dump made the request or has ended early. The kernel carries a request out inside
the system call that sends it. Only events wait, in Go's netpoller.

A dump is yielded while it is read. If the kernel reports that its list changed, the dump is
repeated, and objects that were yielded before are skipped by their numbers.

Unknown attributes are skipped, so that newer kernels work. A wrong length is an error that
names the attribute.

Netns opens the socket on a thread that enters the namespace and ends with its goroutine,
because the goroutine returns while it is locked to the thread. The main thread cannot end,
so it waits while another thread does the work.
*/
