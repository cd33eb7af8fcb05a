// Package uverbs implements the RDMA verbs on the Linux kernel's own interface,
// /dev/infiniband/uverbs*, without C and libibverbs.
//
// [Open] returns a [Device]. A Device creates completion queues ([CQ]) and protection domains
// ([PD]). A PD creates memory regions ([MR]) and windows on them ([MW]), queue pairs ([QP]),
// shared receive queues ([SRQ]) and address handles for datagrams ([AH]). Posting and
// polling run in user space, on queues shared with the device, through a provider. A provider
// is a package that knows the queues of one driver. Link the providers that a program needs
// with blank imports:
//
//	import _ "github.com/goverbs/goverbs/provider/rxe"
//
// Operations without queues (queries, GID tables, PDs, asynchronous events) work without a
// provider.
//
// Open finds a device by its name. [OpenNetdev], [OpenPCI], [OpenNode], [OpenFile] and
// rdmacm.OpenDevice find it by its network interface, its PCI address, its device node, a
// descriptor that another process opened, or an IP address. [ImportFile] shares a device with
// another process.
//
// The shortest whole program:
//
//	package main
//
//	import (
//		"fmt"
//		"log"
//
//		_ "github.com/goverbs/goverbs/provider/all"
//		"github.com/goverbs/goverbs/uverbs"
//		"github.com/goverbs/goverbs/verbs"
//	)
//
//	func main() {
//		dev, err := uverbs.Open("rxe0")
//		if err != nil {
//			log.Fatal(err)
//		}
//		defer dev.Close()
//		pd, err := dev.AllocPD()
//		if err != nil {
//			log.Fatal(err)
//		}
//		defer pd.Close()
//		mr, err := pd.AllocMR(4096, verbs.AccessLocalWrite|verbs.AccessRemoteRead, nil)
//		if err != nil {
//			log.Fatal(err)
//		}
//		defer mr.Close()
//		fmt.Printf("a peer may read %d bytes at %#x with key %#x\n", len(mr.Bytes()), mr.Addr(), mr.RKey())
//	}
//
// # Ownership
//
// Every object keeps its parents reachable. Close of an object that others use returns
// [verbs.ErrInUse], so close children first. An [Endpoint] closes all that was created on it, in
// that order. All objects must be closed. The one exception is a Device that becomes unreachable
// together with all of its objects: the runtime then closes it.
//
// # Concurrency
//
// All methods may be called from several goroutines. Posts to one send queue are serialized,
// as are posts to one receive queue and polls of one CQ. Different queues never wait for each
// other.
//
// A waiter blocks its goroutine, not a thread. A lone waiter on a [CompChannel] first blocks
// its thread, for at most 500 µs. It does so only while recent events arrived that fast and
// another P is free.
//
// # Errors
//
// Errors are of type [verbs.Error]. They name the operation, the object, the device and, if it is known,
// the remedy. With errors.Is, they match the kernel's errno and the sentinels of package verbs. The
// [verbs.Status] of a completion is an error as well.
package uverbs

// Implementation
//
// Objects. A create call attaches the new object to the ownership graph (object.go) before it asks
// the kernel, and detaches it if the kernel refuses, so a parent can't be closed in between. A call
// that passes an object to the kernel keeps the object open meanwhile (object.using), because after
// Close the kernel may give its number to another object. Posts and polls have the queue's lock
// for that. A failed destroy leaves the object open, as in the kernel. The cleanup of an unreachable
// Device unmaps its queues, because each mapping keeps the kernel's context alive.
//
// Locks. They are taken in this order: send queue, receive queue, CQ, SRQ, then the provider's own.
// Package uverbs takes all but the last, with one exception: a provider whose CQ frees entries of an SRQ
// while it is polled takes driver.CreateSRQ.Lock. Two CQs are never locked at once. A system call holds
// the lock of its own queue at most: posts wait for a Modify of their QP, but no CQ waits for a QP, and
// nothing waits for the destruction of an object.
//
// Events. A goroutine for each open device reads its asynchronous events (async.go). An event that says that
// a QP has failed or that a CQ has overflowed takes effect at once, and then waits for Device.AsyncEvent.
// An event contains the cookie of its object, a number that is never used twice. An event
// that arrives after its object was destroyed finds no object. So, unlike libibverbs, Close does not wait
// until all events have been acknowledged.
//
// Failures (qp_fail.go). CQ.Poll finds the QP of a failed completion under the CQ's lock. Without
// that lock, uverbs moves the QP to ERR and calls the provider's Flush. A move to ERR by the user
// and a fatal event have the same effect. The QP's generation, which grows at each RESET, identifies
// completions from before a RESET; these have no effect. A post to a failed QP takes the slow
// path: Flush is called after it, and the room on the CQ limits it. siw needs that, because its
// kernel flushes the queues only when the QP enters ERR. rxe's kernel flushes receives whenever the
// QP is moved to ERR, so uverbs moves it again after each post. siw may put a QP into ERR while no work is
// outstanding, and its doorbell still succeeds then. Only an event reports that.
//
// Overflows. A CQ that overflows ends its waits, because completions that they wait for may be lost. It
// moves QPs to ERR only if they belong to connections of rdmacm: a program that polls may go on with what the
// device allows, as in C.
//
// RESET and Close (cq_clean.go). After the kernel's call, no more completions of the QP can arrive.
// So both CQs are cleaned, one after the other, before the provider reuses the queues. The kernel may
// give the number of a destroyed QP to a new one before the CQs are cleaned; then the new QP cleans
// them. The queues are unmapped after the QP was removed from both CQs, when no Poll can be reading them.
