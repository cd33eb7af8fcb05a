// Package rdmatest has RDMA devices in software, for tests. A [Fabric] is a network of
// hosts with devices. Programs find the devices with [uverbs.Devices], open them, dial and
// listen with packages rdmacm, rsocket and msg, and notice no difference. A test needs
// nothing else: no kernel module, no root, no network, and no Linux.
//
//	fabric := rdmatest.New(t)
//	l, err := rdmacm.Listen(context.Background(), fabric.Host(1).Addr()+":0")
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
// [RXE] is like the soft RoCE device of Linux: reliable and unreliable connections, datagrams, multicast, shared
// receive queues, atomics, memory windows. [SIW] is like the soft iWARP device. It has reliable connections, which only
// package rdmacm can create. [ERDMA] is like Alibaba Cloud's network card, with a model of the hardware. It has
// reliable connections of package rdmacm, immediate data and atomics. DeviceOptions.RoCE puts it on RoCE v2. [MLX5] is
// like NVIDIA's network cards on Ethernet, also with a model of the hardware. It has everything that RXE has. [EFA] is
// like the network card of Amazon's cloud, also with a model of the hardware. It has SRD and UD queue pairs and no
// connection manager. Messages and completions are in an order that Options.Seed determines, and an error concerns one
// message. The devices are as strict as the real ones. Calls fail with the errno of Linux 6.12. Mistakes that end a
// connection on a real device end it here, with the same completions. The importer needs no provider, because this
// package imports those of its devices.
//
// # Memory
//
// Regions need memory as on Linux 6.12. Memory that the device may write must be writable, and no
// shared mapping of a file on a disk: otherwise registering it fails with EFAULT. This is checked
// on Linux only. Unlike a kernel, this package does not pin pages. An access to memory that the
// test has protected, unmapped or cut short since then fails with an error completion, and never
// ends the process. If other memory has been mapped at the same address, the device accesses that
// memory.
//
// # Limits
//
// These differences are deliberate:
//   - A window of RXE gives access to its own range only. Linux's soft RoCE opens the whole region
//     behind it, and a program must not rely on that.
//   - A request is carried out within the call that posts it, unless there is latency. So a send queue
//     is never full of requests in progress.
//   - At most 1,000 completions that an RXE or SIW device loses for lack of room raise EventCQErr.
//   - What only the drivers and cards of ERDMA, MLX5 and EFA refuse is modelled on the sources of Linux and
//     rdma-core and on the InfiniBand specification. It has not been compared with a card. An example is
//     the status of an operation that the type of a queue pair does not have.
//   - An ID that listens without an address fails with EINVAL, because the connection manager of the
//     fabric can't tell which host the ID is on. rdmacm binds first.
//   - The ports of SIW listeners are not TCP ports of the machine. On Linux, a TCP socket can't have the
//     port of a listener.
//   - A port that is down sends nothing to itself either. The soft RoCE and soft iWARP of Linux 6.12
//     go on to reach their own addresses without a carrier, and soft iWARP raises no event then.
//   - A queue pair of SIW whose dial ends with CONNECT_ERROR stays in INIT. Linux moves it to ERR.
//   - READs between queue pairs with different path MTUs succeed, as on RXE. Cards may refuse them.
//
// # Faults
//
// A test injects a fault with one call, which takes effect at once:
//
//	of the network      [Fabric.SetLatency], SetBandwidth, SetLoss, SetReordering, Partition, Pause
//	of a device         [Device.SetLink], Remove, Fail, FailSend, FailRecv, CutSend, StallReceives, CutPath, AddAddr, RemoveAddr
//	of a host           [Host.SetMemlock], Kill
//	of the manager      [Fabric.FailCM], [Fabric.HoldCM]
//
// Faults of the network affect the connection manager too. A dial to a host that can't be reached
// is not refused, but fails after the timeout of Linux's connection manager. A requested fault
// that never happened is an error of the test, unless [Fault.Optional] was called.
//
// # Time
//
// Devices have no goroutine of their own. Without latency a message arrives before the
// call that posted it returns. Everything that takes time, such as latency and retries, is a timer of package
// time. In a bubble of testing/synctest, a test of minutes takes microseconds. Events
// happen in the same order in each run, as far as the test's own goroutines do.
//
// # The end of the test
//
// When the test ends, each object that was not closed is reported by name as an error of the
// test. See Options.LeakTimeout for objects that are closed in the background.
//
// # The race detector
//
// The race detector checks the memory of work requests while they are in the queues. As
// with a real device, it does not check a peer's accesses by RDMA READ, RDMA WRITE and
// atomics. Aligned words of 8 bytes are accessed atomically.
//
// [uverbs.Devices]: https://pkg.go.dev/github.com/goverbs/goverbs/uverbs#Devices
package rdmatest

// Implementation
//
// There are two layers. Package fakeverbs is the kernel's half of a device, with the model of
// its driver: it checks requests, keeps objects, and reads and writes queues. This package
// adds the surroundings: hosts, the network and the connection manager. The interface between
// them does not depend on a driver:
//
//   - A fakeverbs.Device is shared by all openings of a device; a Kernel is one opening.
//   - Work and Recv are a send and a receive of any driver. QP.TakeSend takes the oldest send,
//     and QP.Sent completes it. A queue pair that fails flushes the taken sends first.
//   - Kernel.Rang is called for a queue pair that has sends or has changed, without locks.
//   - QP.LocalOK, RemoteOK, Invalidate and Bind check and change keys.
//
// The fabric has one lock and no goroutine. A doorbell runs pump for its queue pair. pump does
// everything that is due: it completes the answered sends, delivers the oldest packet, and
// launches the next send. Each queue pair has one timer for later work. Without latency,
// everything happens within the call that posted, so the order of events is always the same.
// The fabric's lock is taken before the locks of fakeverbs, which makes no callbacks while it
// holds one. For an RC queue pair, pump keeps the locks of both openings until it is done, so that
// a list of requests takes each lock once.
//
// kind.go is the table of kinds. Each kind has rules in its own file. They extend those of its
// transport, which are in iwarp.go (TCP: any mistake ends the connection) and roce.go
// (acknowledgements, retries, receiver not ready). No other file names a kind.
//
// The connection manager (manager.go, cmid.go, connect.go) has the states of the kernel's cm.c.
// A message that needs an answer is an exchange, which is retransmitted like a MAD. Over iWARP
// it is TCP data (stream), which waits for a path.
//
// Names and addresses come from a registry of the process, so fabrics do not collide. As in a
// kernel, indexes are never reused, because rdmacm identifies devices by them.
