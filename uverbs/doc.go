// Package uverbs implements the RDMA verbs on the Linux kernel's own interface,
// /dev/infiniband/uverbs*, without C and libibverbs.
//
// [Open] returns a [Device]. A Device creates completion queues ([CQ]) and protection domains
// ([PD]). A PD creates memory regions ([MR]) and windows on them ([MW]), queue pairs ([QP]),
// shared receive queues ([SRQ]) and address handles for datagrams ([verbs.AH]). Posting and
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
// [verbs.ErrInUse], so close children first. All objects must be closed. As the only
// exception, the runtime closes a Device that became unreachable together with all of its
// objects.
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
// Errors name the operation, the object, the device and, if it is known, the remedy. With
// errors.Is, they match the kernel's errno and the sentinels of package verbs. The
// [verbs.Status] of a completion is an error as well.
package uverbs
