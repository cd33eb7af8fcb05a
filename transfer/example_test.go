package transfer_test

import (
	"context"
	"fmt"
	"log"
	"net"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/transfer"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// process is a program that uses rdmatest without a test.
type process struct{}

func (process) Helper()                           {}
func (process) Cleanup(func())                    {}
func (process) Errorf(format string, args ...any) { log.Printf(format, args...) }

func open(h *rdmatest.Host) *transfer.Engine {
	dev, err := uverbs.Open(h.Device(0).Name())
	if err != nil {
		log.Fatal(err)
	}
	e, err := transfer.New([]*uverbs.Device{dev}, nil)
	if err != nil {
		log.Fatal(err)
	}
	return e
}

// One program writes blocks of a cache to another one, in one batch, and notifies it. The other one keeps block i at i times
// the size of a block.
func ExamplePeer_SubmitNotify() {
	const blockSize, done = 16 << 10, 1
	fabric := rdmatest.New(process{})
	ctx := context.Background()

	decode := open(fabric.Host(1)) // the program that needs the cache
	cache, err := decode.Register(make([]byte, 64*blockSize), verbs.AccessRemoteWrite)
	if err != nil {
		log.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go decode.Serve(l)
	descriptor := cache.Descriptor() // goes to the other program, in any way

	prefill := open(fabric.Host(0)) // the program that has computed it
	own, err := prefill.Register(make([]byte, 64*blockSize), 0)
	if err != nil {
		log.Fatal(err)
	}
	copy(own.Bytes()[7*blockSize:], "block 7")
	peer, err := prefill.Open(ctx, l.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	remote, err := transfer.ParseDescriptor(descriptor)
	if err != nil {
		log.Fatal(err)
	}
	var ops []transfer.Op
	for _, i := range []int{3, 7, 20} {
		ops = append(ops, transfer.Op{Opcode: verbs.OpRDMAWrite, Local: own.Span(i*blockSize, blockSize),
			Remote: remote, Offset: uint64(i * blockSize)})
	}
	batch, err := peer.SubmitNotify(ctx, ops, done)
	if err != nil {
		log.Fatal(err)
	}
	if err := batch.Wait(); err != nil {
		log.Fatal(err)
	}

	if err := decode.Await(ctx, done, 1); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", cache.Bytes()[7*blockSize:][:7])
	if err := prefill.Close(); err != nil {
		log.Fatal(err)
	}
	if err := decode.Close(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// block 7
}

// One program writes its weights to eight others at the same time, and each of them knows when it has all.
func Example_weights() {
	const size, loaded, receivers = 1 << 20, 1, 8
	fabric := rdmatest.NewWith(process{}, &rdmatest.Options{Hosts: make([]rdmatest.HostOptions, receivers+1)})
	ctx := context.Background()

	trainer := open(fabric.Host(receivers))
	weights, err := trainer.Register(make([]byte, size), 0)
	if err != nil {
		log.Fatal(err)
	}
	copy(weights.Bytes()[size-4:], "last")

	var engines []*transfer.Engine
	var regions []*transfer.Region
	var batches []*transfer.Batch
	for i := range receivers {
		e := open(fabric.Host(i)) // a program of its own
		region, err := e.Register(make([]byte, size), verbs.AccessRemoteWrite)
		if err != nil {
			log.Fatal(err)
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			log.Fatal(err)
		}
		go e.Serve(l)
		engines, regions = append(engines, e), append(regions, region)

		peer, err := trainer.Open(ctx, l.Addr().String())
		if err != nil {
			log.Fatal(err)
		}
		remote, err := transfer.ParseDescriptor(region.Descriptor())
		if err != nil {
			log.Fatal(err)
		}
		batch, err := peer.SubmitNotify(ctx, []transfer.Op{{Opcode: verbs.OpRDMAWrite, Local: weights.Span(0, size), Remote: remote}}, loaded)
		if err != nil {
			log.Fatal(err)
		}
		batches = append(batches, batch)
	}
	for _, b := range batches {
		if err := b.Wait(); err != nil {
			log.Fatal(err)
		}
	}

	for i, e := range engines {
		if err := e.Await(ctx, loaded, 1); err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d: %s\n", i, regions[i].Bytes()[size-4:])
	}
	for _, e := range append(engines, trainer) {
		if err := e.Close(); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// 0: last
	// 1: last
	// 2: last
	// 3: last
	// 4: last
	// 5: last
	// 6: last
	// 7: last
}
