// Package efa is the provider for the Elastic Fabric Adapter, the network card of AWS's instances
// for parallel computing. Import it for its side effect:
//
//	package main
//
//	import (
//		"log"
//
//		_ "github.com/goverbs/goverbs/provider/efa"
//		"github.com/goverbs/goverbs/uverbs"
//	)
//
//	func main() {
//		dev, err := uverbs.Open("rdmap0s6")
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
// EFA has UD queue pairs, which have SEND and SEND_WITH_IMM, and SRD queue pairs
// ([verbs.QPTypeSRD]), which also have RDMA_READ, RDMA_WRITE and RDMA_WRITE_WITH_IMM where the device
// has them: see uverbs.Device.Supports. There is no connection manager, and no order between
// messages. A send has at most PortAttr.MaxMsgSize bytes, and a read or write at most
// DeviceAttr.MaxRDMASize.
//
// Every send needs SendSignaled or a QP with SignalAll. Fences and solicited events do not exist. A
// read or write has exactly one SGE. A QP with MaxInline above 32 has sends of twice the size, so half
// as many fit, and only such a QP has writes with inline data. A receive has at least one SGE, of
// which the device uses at most 65535 bytes. On UD, the first 40 bytes of a receive are not part of
// the message.
//
// A work request that fails does not end its QP, except with StatusWRFlushErr and with vendor error 2,
// a fault of the QP itself. Posts to a QP in ERR are refused. The work requests that a QP has when it
// goes to ERR complete with StatusWRFlushErr then or when the QP is closed, which the device decides.
// Completions that the device makes while a QP is closed can be polled after Close.
//
// Address handles of one PD with the same GID are one for the device, and before Linux 7.3 the end of
// one broke the others. So this provider creates each only once, and destroys it when the last handle
// is closed.
//
// On Linux 7.3 and devices that have them, uverbs.CompCounter counts completed work requests, and the
// reads and writes of peers.
//
// The kernel allocates all queues. Sends are stored to memory of the device, and doorbells to its
// registers; package mmap has the rules.
package efa
