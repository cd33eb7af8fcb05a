// Package erdma is the provider for eRDMA, the network card of Alibaba Cloud's
// instances. Import it for its side effect:
//
//	package main
//
//	import (
//		"log"
//
//		_ "github.com/goverbs/goverbs/provider/erdma"
//		"github.com/goverbs/goverbs/uverbs"
//	)
//
//	func main() {
//		dev, err := uverbs.Open("erdma_0")
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
// It is verified against a model of the device, not yet on hardware; docs/hardware.md lists
// the limits of that.
//
// erdma supports RC queue pairs, between eRDMA devices only. On iWARP only rdma_cm connects them. On
// RoCE v2, which Linux supports since 6.14, a program may also connect them itself. They have SEND,
// SEND_WITH_IMM, SEND_WITH_INV, RDMA_WRITE, RDMA_WRITE_WITH_IMM, RDMA_READ, and
// COMPARE_SWAP and FETCH_ADD where the device has them; inline data of up to 96 bytes for
// sends and writes; up to 6 SGEs, but 1 for reads and for receives. RDMA_READ_WITH_INV,
// which invalidates the key of its own buffer, and LOCAL_INV have the layout of the
// kernel's own requests; rdma-core has neither. There are no SRQs, memory windows or
// datagrams, and CQs can't be resized. Datagrams would need address handles, which the kernel
// has for its own use only.
//
// On iWARP only the kernel knows whether a QP is connected, so sends that are posted before
// are passed to the device. A send takes one to four blocks of 32 bytes in its queue, which has
// four blocks for each send that was requested: a queue takes up to four times as many
// small sends. This provider completes work requests that are posted after a QP failed;
// they may complete before those that the device has.
//
// All queues are memory of this process that the device reads and writes. Doorbells are
// stores to the device; each value is first written to a record in memory. Package mmap has
// the rules.
package erdma
