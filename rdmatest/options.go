package rdmatest

import (
	"net/netip"
	"time"
)

// TB is the part of a test that a fabric needs. *[testing.T], *[testing.B] and *[testing.F] implement it.
type TB interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
}

// Options describe a fabric. The zero value, like nil, is two hosts with a device of
// kind RXE each.
type Options struct {
	// Hosts are the hosts, of which there must be one. Nil: two, with a device of Kind each.
	Hosts []HostOptions
	// Kind is the kind of the devices whose options say none. Zero: RXE.
	Kind Kind
	// Strict makes it an error of the test when a program makes a mistake that a device
	// ends a connection for: it sends to a peer that has no receive, or more than that has
	// room for, or uses a key that does not open the memory. Faults that the test asked for are none.
	Strict bool
	// Endless says that objects left open at the end of the test are no error. It is for
	// programs with servers that end with the process.
	Endless bool
	// LeakTimeout is how long the end of the test waits for objects that are freed in the background, such
	// as by a timer, when no goroutine of the process runs any more. Zero: 100 ms. In a bubble of
	// testing/synctest it is always a minute of the bubble's time.
	LeakTimeout time.Duration
	// Seed makes loss and reordering take another course.
	Seed uint64
}

// HostOptions describe a host.
type HostOptions struct {
	// Devices are its devices. Nil: one.
	Devices []DeviceOptions
}

// DeviceOptions describe a device.
type DeviceOptions struct {
	// Kind is the kind of the device. Zero: the Kind of the fabric.
	Kind Kind
	// InfiniBand puts a device of kind MLX5 on InfiniBand, with two LIDs, in place of Ethernet. Its queue
	// pairs can have alternate paths.
	InfiniBand bool
	// RoCE puts a device of kind ERDMA on RoCE v2 in place of iWARP. Its queue pairs may then be
	// connected without package rdmacm too.
	RoCE bool
	// Name is the name of the device. Empty: the kind and the lowest number that is free.
	Name string
	// Addrs are the addresses of its network device. Nil: one that no other fabric of the
	// process has, such as 198.18.0.1.
	Addrs []netip.Addr
}
