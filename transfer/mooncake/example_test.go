package mooncake_test

import (
	"context"
	"fmt"
	"log"
	"net"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/transfer"
	"github.com/goverbs/goverbs/transfer/mooncake"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// process is a program that uses rdmatest without a test.
type process struct{}

func (process) Helper()                           {}
func (process) Cleanup(func())                    {}
func (process) Errorf(format string, args ...any) { log.Printf(format, args...) }

// A node serves a region, and another program reads it by its address. Either of them may be in C++.
func Example() {
	check := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	fabric := rdmatest.New(process{})
	dev, err := uverbs.Open(fabric.Host(0).Device(0).Name())
	check(err)
	defer dev.Close()
	e, err := transfer.New([]*uverbs.Device{dev}, nil)
	check(err)
	defer e.Close()
	ctx := context.Background()

	cache, err := e.Register([]byte("keys and values"), verbs.AccessRemoteRead)
	check(err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	node, err := mooncake.NewNode(ctx, e, l.Addr().String(), nil)
	check(err)
	check(node.Publish(ctx, cache))
	go node.Serve(l)

	segment, err := mooncake.Open(ctx, e, l.Addr().String(), nil)
	check(err)
	remote, offset, err := segment.At(segment.Buffers()[0].Addr+9, 6)
	check(err)
	local, err := e.Register(make([]byte, 6), 0)
	check(err)
	batch, err := segment.Submit(ctx, []transfer.Op{{Opcode: verbs.OpRDMARead, Local: local.Span(0, 6), Remote: remote, Offset: offset}})
	check(err)
	check(batch.Wait())
	fmt.Printf("%s\n", local.Bytes())
	// Output: values
}
