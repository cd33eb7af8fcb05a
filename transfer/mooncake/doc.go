// Package mooncake lets a program read and write memory of Mooncake's transfer engine, and lets Mooncake's transfer
// engine read and write memory of the program. It speaks the protocol of unmodified nodes in C++: JSON over TCP, RC
// queue pairs, and metadata from the nodes themselves (P2PHANDSHAKE) or from an HTTP server. Batches, slices and rails
// are those of package transfer.
//
// Experimental: may change in any release; see docs/stability.md.
//
// To read and write another node's segment:
//
//	e, err := transfer.New(devices, nil)
//	segment, err := mooncake.Open(ctx, e, "10.0.0.1:15428", nil)
//	remote, offset, err := segment.At(address, 1<<20) // a pointer in the other program
//	batch, err := segment.Submit(ctx, []transfer.Op{
//		{Opcode: verbs.OpRDMARead, Local: region.Span(0, 1<<20), Remote: remote, Offset: offset}})
//	err = batch.Wait()
//
// To be a node:
//
//	node, err := mooncake.NewNode(ctx, e, listener.Addr().String(), nil)
//	err = node.Publish(ctx, region)
//	err = node.Serve(listener)
//
// # Limits
//
// A message has at most 1 MiB, as in Mooncake. That is a segment of about 12,000 regions with one device. A [Node] has
// at most 4096 connections of queue pairs, and at most 128 streams at a time; the oldest one makes room. A [Segment]
// has up to 64 devices and 65536 buffers. Peers must use 1 to 16 queue pairs a connection (MC_NUM_QP_PER_EP).
//
// The path MTU is not exchanged, so the active MTU of both ports must be equal. The number of outstanding READs is not
// exchanged either. Mooncake's nodes use 16, and a device that serves fewer fails their READs.
//
// This package supports neither Mooncake Store, nor etcd and Redis as metadata servers, nor transports other than RDMA.
//
// # Security
//
// The protocol has no authentication. Anyone who can reach the listener of a [Node] may read its descriptor, connect,
// and access all regions of its engine, as their access flags allow. Use it in trusted networks only, with an engine of
// its own.
package mooncake
