// Package transfer moves memory between programs in batches of RDMA READs and WRITEs, over all RDMA devices of a host.
// It is for programs that move much at a time, such as KV caches, model weights and shards of data, between memory that
// they know by address.
//
// Experimental: may change in any release; see docs/stability.md.
//
//	e, err := transfer.New(devices, nil)
//	region, err := e.Register(memory, verbs.AccessRemoteRead) // peers may read it
//	go e.Serve(listener)                                      // and connect here
//	send(region.Descriptor())                                 // in any way
//
//	peer, err := e.Open(ctx, "10.0.0.1:7471")                 // in another program
//	remote, err := transfer.ParseDescriptor(received)
//	batch, err := peer.Submit(ctx, []transfer.Op{{Opcode: verbs.OpRDMARead, Local: own.Span(0, n), Remote: remote}})
//	err = batch.Wait()
//
// The program whose memory is read or written takes no part. If it must know when WRITEs have landed, the other program
// notifies it: see [Peer.SubmitNotify] and [Engine.Await].
//
// The shortest whole program, which reads the first MiB of a peer's region:
//
//	package main
//
//	import (
//		"context"
//		"log"
//		"os"
//
//		_ "github.com/goverbs/goverbs/provider/all"
//		"github.com/goverbs/goverbs/transfer"
//		"github.com/goverbs/goverbs/uverbs"
//		"github.com/goverbs/goverbs/verbs"
//	)
//
//	func main() {
//		dev, err := uverbs.Open("mlx5_0")
//		if err != nil {
//			log.Fatal(err)
//		}
//		defer dev.Close()
//		e, err := transfer.New([]*uverbs.Device{dev}, nil)
//		if err != nil {
//			log.Fatal(err)
//		}
//		defer e.Close()
//		descriptor, err := os.ReadFile("descriptor") // of the peer
//		if err != nil {
//			log.Fatal(err)
//		}
//		remote, err := transfer.ParseDescriptor(descriptor)
//		if err != nil {
//			log.Fatal(err)
//		}
//		region, err := e.Register(make([]byte, 1<<20), 0)
//		if err != nil {
//			log.Fatal(err)
//		}
//		peer, err := e.Open(context.Background(), "10.0.0.1:7471")
//		if err != nil {
//			log.Fatal(err)
//		}
//		b, err := peer.Submit(context.Background(), []transfer.Op{
//			{Opcode: verbs.OpRDMARead, Local: region.Span(0, 1<<20), Remote: remote}})
//		if err != nil {
//			log.Fatal(err)
//		}
//		if err := b.Wait(); err != nil {
//			log.Fatal(err)
//		}
//	}
//
// # Rails
//
// A [Peer] has a rail over each device: a queue pair of package oob, of type RC, or SRD on EFA. An operation is cut
// into slices of 64 KiB, and each goes over the rail with the fewest bytes outstanding. Rails over the devices that
// are nearest to the memory of this program come first, by the NUMA node of the memory or the place of the GPU. The
// others are used while these have no room. Package topo determines the distances. The place of the peer's memory does
// not count. Slices land in any order. If a rail fails, it is connected again in the background, and its unfinished
// slices go over the others. The caller sees an error only if no rail is left, or if the operation itself is at fault:
// the descriptor is wrong, or the peer has deregistered the memory.
//
// An unfinished WRITE of a failed rail must not land after its batch has ended. Therefore it is posted again once the
// peer has confirmed that the old queue pair is closed, or two seconds after the failure if the peer does not answer.
//
// # Memory
//
// A device that has a work request may access its memory until the work request has completed, even if the batch was
// canceled. [Region.Close] fails until then.
//
// # Security
//
// A connected peer that has or guesses the keys may read and write all regions, as their access flags allow. Protect
// the streams with TLS ([Config].Dial, and a TLS listener for [Engine.Serve]), and serve only programs that are trusted
// with these regions.
package transfer

// # Implementation
//
// peer.go has batches and their order, rail.go one connection and its work requests, serve.go the other end, hello.go
// the messages before package oob connects them. One lock a Peer guards batches and rails. Submit posts, and so does
// the goroutine of a rail when it has handled completions. That goroutine connects its rail, and waits for completions.
//
// A slice that fails is held by its rail (rail.held) until release. Only then may another rail have it. The first
// message of a connection is a probe: a rail is up when the peer's device has acknowledged it, because streams may take
// another path than packets.
//
// A notification is a SEND of its number on the connection and its value. When a connection fails, the peer's answer to
// the next request contains the numbers that it has received. So each arrives once. The end that serves posts receives
// once it counts notifications, so the probe is acknowledged after that.
