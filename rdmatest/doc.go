// Package rdmatest has RDMA devices in software, for tests. A [Fabric] is a network of
// hosts with devices. Programs find the devices with [uverbs.Devices], open them, dial and
// listen with packages rdmacm, rsocket and msg, and notice no difference. A test needs
// nothing else: no kernel module, no root, no network, and no Linux.
//
//	fabric := rdmatest.New(t)
//	l, err := rdmacm.Listen(fabric.Host(1).Addr()+":0")
//	…
//	c, err := rdmacm.Dial(ctx, l.Addr().String())
//
// The shortest whole program:
//
//	package main
//
//	import (
//		"fmt"
//		"log"
//
//		"github.com/goverbs/goverbs/rdmatest"
//		"github.com/goverbs/goverbs/uverbs"
//	)
//
//	type process struct{} // a test has its *testing.T instead
//
//	func (process) Helper()                           {}
//	func (process) Cleanup(func())                    {}
//	func (process) Errorf(format string, args ...any) { log.Printf(format, args...) }
//
//	func main() {
//		fabric := rdmatest.New(process{})
//		dev, err := uverbs.Open(fabric.Host(0).Device(0).Name())
//		if err != nil {
//			log.Fatal(err)
//		}
//		fmt.Println(dev.Close())
//	}
//
// # Devices
//
// [RXE] is like the soft RoCE device of Linux: reliable and unreliable connections,
// datagrams, multicast, shared receive queues, atomics, memory windows. [SIW] is like the
// soft iWARP device: reliable connections, which only package rdmacm makes. [ERDMA] is like
// Alibaba Cloud's network card, in which the model stands for the hardware too: reliable
// connections of package rdmacm, with immediate data and atomics; DeviceOptions.RoCE puts it on
// RoCE v2. [MLX5] is like NVIDIA's
// network cards on Ethernet, also with a model of the hardware: it has what RXE has. The devices
// are as strict as those: calls fail with the errno of Linux 6.12, and mistakes that end a
// connection of a device of that kind end it here, with the same completions. The importer
// needs no provider: this package links in those of its devices.
//
// # Faults
//
// Each is one call, which takes effect at once:
//
//	of the network      [Fabric.SetLatency], SetBandwidth, SetLoss, SetReordering, Partition, Pause
//	of a device         [Device.SetLink], Remove, Fail, FailSend, FailRecv, CutSend, StallReceives, CutPath
//	of a host           [Host.SetMemlock], Kill
//	of the manager      [Fabric.FailCM], [Fabric.HoldCM]
//
// Those of the network hold for the connection manager too: a host that nothing reaches is not
// refused, but dialled in vain until the time of Linux's connection manager is over. A fault that
// was asked for and never happened is an error of the test, unless [Fault.Optional] was called.
//
// # Time
//
// Devices have no goroutine of their own. Without latency a message arrives before the
// call that posted it returns. Everything that takes time, such as latency and retries, is a timer of package
// time. In a bubble of testing/synctest a test of minutes takes microseconds, and two runs
// of a test take the same course, as far as its own goroutines do.
//
// # The end of the test
//
// When the test ends, objects that were not closed are errors of the test, with names. See
// Options.LeakTimeout for objects that are closed in the background.
//
// # The race detector
//
// It sees the memory of work requests as long as they are in the queues. It does not see a
// peer's access by RDMA READ, RDMA WRITE and atomics, as with a device. Aligned words of 8
// bytes are whole.
//
// [uverbs.Devices]: https://pkg.go.dev/github.com/goverbs/goverbs/uverbs#Devices
package rdmatest

// Implementation
//
// There are two layers. Package fakeverbs is the kernel's half of a device, with the model of
// its driver: it checks requests, keeps objects, and reads and writes queues. This package
// adds the surroundings: hosts, the network and the connection manager. The seam between
// them knows no driver:
//
//   - A fakeverbs.Device is shared by all openings of a device; a Kernel is one opening.
//   - Work and Recv are a send and a receive of any driver. QP.TakeSend takes the oldest send,
//     and QP.Sent completes it. A queue pair that fails flushes the taken sends first.
//   - Kernel.Rang is called for a queue pair that has sends or has changed, without locks.
//   - QP.LocalOK, RemoteOK, Invalidate and Bind check and change keys.
//
// The fabric has one lock and no goroutine. A doorbell runs pump for its queue pair, which does
// everything that is due: it completes the answered sends, delivers the oldest packet, and
// launches the next send. Each queue pair has one timer for later work. Without latency, all
// happens within the call that posted, so a course of events is the same each time. The lock is
// taken before those of fakeverbs, which call nothing back while they hold theirs.
//
// kind.go is the table of kinds. Each kind has rules in a file of its own, on top of those of its
// transport: iwarp.go (TCP: any mistake ends the connection) and roce.go (acknowledgements,
// retries, receiver not ready). No other file names a kind.
//
// The connection manager (manager.go, cmid.go, connect.go) has the states of the kernel's cm.c.
// A message that needs an answer is an exchange, which is sent again as a MAD is. Over iWARP it
// is data of TCP (stream), which waits for a path.
//
// Names and addresses come from a registry of the process, so fabrics do not collide. Indexes
// are never used again, as in a kernel: rdmacm keeps devices by them.
