// Package siw is the provider for soft iWARP, the Linux driver that speaks RDMA
// over TCP on any network device. Import it for its side effect:
//
//	package main
//
//	import (
//		"log"
//
//		_ "github.com/goverbs/goverbs/provider/siw"
//		"github.com/goverbs/goverbs/uverbs"
//	)
//
//	func main() {
//		dev, err := uverbs.Open("siw0")
//		if err != nil {
//			log.Fatal(err)
//		}
//		defer dev.Close()
//		cq, err := dev.CreateCQ(16, nil) // on rings that the provider knows
//		if err != nil {
//			log.Fatal(err)
//		}
//		defer cq.Close()
//	}
//
// What siw offers: RC queue pairs that rdma_cm connects; SEND, SEND_WITH_INV,
// RDMA_WRITE, RDMA_READ, RDMA_READ_WITH_INV; inline data of up to 80 bytes for
// SEND and RDMA_WRITE; up to 6 SGEs, but 1 for reads; SRQ with limit event.
// It has no immediate data, atomics, memory windows or datagrams.
//
// The kernel serves reads from regions without AccessRemoteRead, does not end a
// key on RDMA_READ_WITH_INV of a user, and does not tell the receiver which key a
// SEND_WITH_INV ended.
//
// What is particular: a SEND that finds no receive posted ends the connection,
// for iWARP has no receiver-not-ready. Solicited-only events are not supported;
// the kernel loses them for receives. Work requests posted after a QP failed are
// completed by this provider, as the kernel never does.
//
// All queues are arrays in kernel memory whose entries carry a word that says
// whose they are; package mmap has the rules. The doorbell is a system call,
// left out while the kernel is still busy with earlier entries.
package siw
