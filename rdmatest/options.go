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

// Options describe a fabric. Nil and the zero value mean two hosts that have one device of kind RXE each.
type Options struct {
	// Hosts describes the hosts. There must be at least one. Nil means two hosts that have one device of
	// Kind each.
	Hosts []HostOptions
	// Kind is the kind of the devices whose options don't specify one. Zero means RXE.
	Kind Kind
	// Strict makes it an error of the test if a program makes a mistake that ends a connection. Such
	// mistakes are a message to a peer without a receive, a message that is too long for the receive,
	// and a key without the necessary access to the memory. Faults that the test requested are not
	// mistakes.
	Strict bool
	// Endless allows objects to be left open at the end of the test. It is for programs with servers that
	// run until the process exits.
	Endless bool
	// LeakTimeout is how long the end of the test waits for objects that are freed in the background, for
	// example by a timer, after no goroutine of the process runs any more. Zero means 100 ms. In a bubble
	// of testing/synctest it is always one minute of the bubble's time.
	LeakTimeout time.Duration
	// Seed seeds the random choices of loss, of reordering, and of the order on devices of kind EFA.
	Seed uint64
	// InOrder makes devices of kind EFA carry out and complete what is posted in order, which the real ones don't
	// promise.
	InOrder bool
}

// HostOptions describe a host.
type HostOptions struct {
	// Devices describes the host's devices. Nil means one device.
	Devices []DeviceOptions
}

// DeviceOptions describe a device.
type DeviceOptions struct {
	// Kind is the kind of the device. Zero means the Kind in Options.
	Kind Kind
	// InfiniBand puts a device of kind MLX5 on InfiniBand instead of Ethernet. The device has two LIDs.
	// Its queue pairs can have alternate paths.
	InfiniBand bool
	// Subnet puts a device of kind MLX5 on InfiniBand, in a subnet that gives its port LIDs and GIDs, and leads its
	// packets. All devices of a fabric that have one are in the same subnet. Nil means InfiniBand without a subnet, if
	// InfiniBand is true: the port is active, and each LID is reached.
	Subnet SubnetPort
	// RoCE puts a device of kind ERDMA on RoCE v2 instead of iWARP. Its queue pairs can also be connected
	// without package rdmacm then.
	RoCE bool
	// Name is the name of the device. If it is empty, the name is made from the kind and the lowest free
	// number.
	Name string
	// Addrs are the addresses of the network device. Nil means one address that no other fabric of the
	// process has, such as 198.18.0.1.
	Addrs []netip.Addr
}
