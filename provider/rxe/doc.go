// Package rxe is the provider for soft RoCE, the Linux driver that speaks RoCE v2
// on any Ethernet device. Import it for its side effect:
//
//	package main
//
//	import (
//		"log"
//
//		_ "github.com/goverbs/goverbs/provider/rxe"
//		"github.com/goverbs/goverbs/uverbs"
//	)
//
//	func main() {
//		dev, err := uverbs.Open("rxe0")
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
// rxe supports RC, UC and UD queue pairs, connected by hand or with rdma_cm; on RC SEND,
// SEND_WITH_IMM, SEND_WITH_INV, RDMA_WRITE, RDMA_WRITE_WITH_IMM, RDMA_READ, COMPARE_SWAP,
// FETCH_ADD, LOCAL_INV and BIND_MW, and FLUSH and ATOMIC_WRITE on newer kernels (6.12 has
// them, 6.1 not: the kernel is asked); on UC those of SEND, RDMA_WRITE and BIND_MW that
// have no invalidation; on UD SEND and SEND_WITH_IMM. Up to 512 bytes of inline data for
// sends and writes, up to 32 SGEs; memory windows of both types; SRQ with limit event; SRQs
// and CQs can be resized.
//
// A datagram that is longer than the port's MTU completes as if it had been sent.
// RDMA_READ_WITH_INV, and SEND_WITH_INV on UC, are in the kernel's tables but not in its
// packets, so they are refused. A Q_Key with its top bit set is sent as it is. Sends are
// refused before RTS, and receives in RESET, with EINVAL.
//
// The receives of a failed QP are flushed whenever they were posted, once the failure is
// known: by a failed completion that was polled, or by a move to ERR. The kernel reports
// the failure in no other way. If a peer's bad request ended a QP that had no receive
// posted, receives that are posted later stay queued until something is sent.
//
// Kernels newer than 6.1 complete a send with a local error, such as a bad key, as flushed,
// and do not report the reason. A SEND_WITH_INV of a key that the peer does not have
// succeeds, and the peer's QP fails. A CQ armed for solicited completions gets no event for
// a failed send, nor, on those kernels, for a failed receive. A CQ that is full loses
// completions and raises EventCQErr; a QP whose receive was lost fails.
//
// A RetryCnt of 7 means no limit: such a QP waits forever for a peer that has died, unless
// rdma_cm reports it. Where packets get lost, messages of one packet each are safe. When
// longer ones are sent again, some kernels, 6.12 among them, sometimes lose their position:
// the QP fails, or hangs.
//
// The kernel deletes a link, or the network device below it, once all programs have closed
// the device, and raises no event for that. Without the network device sends fail.
//
// All queues are rings in kernel memory with one index per side; package mmap has the
// rules. The doorbell of a send queue and the arming of a CQ are system calls, one per
// batch; receive queues have no doorbell. The kernel trusts much of a send queue's content,
// so this provider never queues a request that the kernel can't carry out.
package rxe
