// Package uverbs is the RDMA verbs over the Linux kernel's own interface,
// /dev/infiniband/uverbs*, without C and without libibverbs.
//
// [Open] a [Device]; from it come completion queues ([CQ]) and a [PD], and from
// that memory regions ([MR]) and windows on them ([MW]), queue pairs ([QP]), shared
// receive queues ([SRQ]) and addresses for datagrams ([verbs.AH]). Posting and polling
// run in user space on queues shared with the device, through a provider: a package
// that knows one driver's queues. Name the providers a program needs with blank
// imports,
//
//	import _ "github.com/goverbs/goverbs/provider/rxe"
//
// What needs no queues (query, GID table, PD, async events) works without one.
//
// Open takes a name. [OpenNetdev], [OpenPCI], [OpenNode], [OpenFile] and
// rdmacm.OpenDevice find a device by its interface, its PCI address, its node, a
// descriptor that another process opened, or an IP address. [ImportFile] shares one that
// another process uses.
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
// Every object keeps its parents reachable, and Close of an object still in use
// is refused with [verbs.ErrInUse]. Objects must be closed, children first; only a
// Device that became unreachable with all it owns is closed by the runtime.
//
// # Concurrency
//
// All methods may be called from several goroutines. Posts to one send queue
// take turns, as do posts to one receive queue and polls of one CQ; different
// queues never wait for each other.
//
// Waiting parks a goroutine, not a thread. A lone waiter on a [CompChannel] first
// blocks its thread, for at most 500 µs. It does so only while recent events arrived
// that fast and another P is free.
//
// # Errors
//
// Errors name the operation, the object, the device and, where it is known,
// the remedy. They match the kernel's errno and this package's sentinels with
// errors.Is. A completion's [verbs.Status] is an error as well.
package uverbs
