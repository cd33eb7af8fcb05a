// Package mlx5 is the provider for NVIDIA's network cards from ConnectX-4 on, and for
// BlueField. Import it for its side effect:
//
//	package main
//
//	import (
//		"log"
//
//		_ "github.com/goverbs/goverbs/provider/mlx5"
//		"github.com/goverbs/goverbs/uverbs"
//	)
//
//	func main() {
//		dev, err := uverbs.Open("mlx5_0")
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
// This provider supports RC, UC and UD queue pairs with SEND, SEND_WITH_IMM, RDMA_WRITE and
// RDMA_WRITE_WITH_IMM, on RC also SEND_WITH_INV, RDMA_READ, COMPARE_SWAP and FETCH_ADD;
// windows of both types and LOCAL_INV on RC and UC; XRC with all operations of RC;
// raw packet queue pairs, whose SEND takes a whole Ethernet frame and whose TSO a TCP segment
// with its headers; VLAN tags, which the provider inserts; WQs, to which an RSS QP distributes
// frames; flow rules that tag, drop and count; inline data; SRQs; CQs that can be resized and can
// report time stamps, flow tags, VLAN tags and checksums; device memory; the null key; address
// handles, on RoCE where the kernel finds the MAC (Linux 4.4 and later). There are no FLUSH,
// ATOMIC_WRITE and RDMA_READ_WITH_INV.
//
// Send queues have the sizes of rdma-core's, whose requests on RC and UC have room for a
// window's binding. A QP with one SGE therefore takes 60 bytes inline; QP.Cap holds the
// actual sizes. Nothing may be posted to a send queue before RTS, or to a receive queue
// before INIT: the device would carry it out later, without a report.
//
// All queues are memory of this process that the device reads and writes. A doorbell is a
// record in memory, followed by a store to a register, or by a copy of the whole request to
// a register; package mmap has the rules.
package mlx5
