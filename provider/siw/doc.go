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
// siw supports RC queue pairs that rdma_cm connects; SEND, SEND_WITH_INV, RDMA_WRITE,
// RDMA_READ, RDMA_READ_WITH_INV; inline data of up to 80 bytes for SEND and RDMA_WRITE; up
// to 6 SGEs, but 1 for reads; SRQ with limit event. It has no immediate data, atomics,
// memory windows or datagrams.
//
// The kernel serves reads from regions without AccessRemoteRead, does not invalidate the
// key of an RDMA_READ_WITH_INV that a program posted, and does not report to the receiver
// which key a SEND_WITH_INV invalidated.
//
// A SEND that finds no receive posted ends the connection, because iWARP has no
// receiver-not-ready. Solicited-only events are not supported; the kernel loses them for
// receives. This provider completes work requests that are posted after a QP failed; the
// kernel never does.
//
// All queues are arrays in kernel memory whose entries carry an ownership word; package
// mmap has the rules. The doorbell is a system call. It is skipped while the kernel is
// still busy with earlier entries.
package siw
