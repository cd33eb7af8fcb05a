// Command mooncake is a node or an initiator of package transfer/mooncake, for mooncake.sh.
//
//	mooncake -device rxe0 -name 127.0.0.1:15001 serve
//	mooncake -device rxe0 -segment 127.0.0.1:15428 check
//	mooncake -device rxe0 -segment 127.0.0.1:15428 -batches 100 read
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"os"

	_ "github.com/goverbs/goverbs/provider/all"
	"github.com/goverbs/goverbs/transfer"
	"github.com/goverbs/goverbs/transfer/mooncake"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

func main() {
	device := flag.String("device", "rxe0", "the device")
	name := flag.String("name", "127.0.0.1:15001", "serve: the address and the name of the node")
	segment := flag.String("segment", "", "check: the name of the other node")
	size := flag.Int("size", 64<<20, "bytes of memory")
	batches := flag.Int("batches", 100, "read: how many batches")
	metadata := flag.String("metadata", "", "URL of the metadata server")
	flag.Parse()
	if err := run(flag.Arg(0), *device, *name, *segment, *size, *batches, &mooncake.Config{Metadata: *metadata, Notified: func(name, message string) {
		fmt.Printf("notification of %q: %q\n", name, message)
	}}); err != nil {
		log.Fatal(err)
	}
}

func run(mode, device, name, segment string, size, batches int, cfg *mooncake.Config) (err error) {
	dev, err := uverbs.Open(device)
	if err != nil {
		return err
	}
	defer dev.Close()
	e, err := transfer.New([]*uverbs.Device{dev}, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	region, err := e.Register(make([]byte, size), verbs.AccessRemoteRead|verbs.AccessRemoteWrite)
	if err != nil {
		return err
	}
	ctx := context.Background()
	switch mode {
	case "serve":
		return serve(ctx, e, region, name, cfg)
	case "check":
		return check(ctx, e, region, segment, cfg)
	case "read":
		return read(ctx, e, region, segment, batches, cfg)
	}
	return fmt.Errorf("%q is none of serve, check and read: %w", mode, os.ErrInvalid)
}

func serve(ctx context.Context, e *transfer.Engine, region *transfer.Region, name string, cfg *mooncake.Config) error {
	l, err := net.Listen("tcp", name)
	if err != nil {
		return err
	}
	node, err := mooncake.NewNode(ctx, e, name, cfg)
	if err != nil {
		return err
	}
	if err := node.Publish(ctx, region); err != nil {
		return err
	}
	fmt.Println("node", name)
	return node.Serve(l)
}

// check writes random bytes to the first buffer, reads them again, and compares them.
func check(ctx context.Context, e *transfer.Engine, region *transfer.Region, name string, cfg *mooncake.Config) error {
	s, err := mooncake.Open(ctx, e, name, cfg)
	if err != nil {
		return err
	}
	defer s.Close()
	if len(s.Buffers()) == 0 {
		return errors.New("the segment has no buffers")
	}
	b := s.Buffers()[0]
	n := int(min(uint64(region.Len()), b.Length))
	_, _ = rand.Read(region.Bytes()[:n]) // never fails
	want := bytes.Clone(region.Bytes()[:n])
	for _, opcode := range []verbs.Opcode{verbs.OpRDMAWrite, verbs.OpRDMARead} {
		batch, err := s.Submit(ctx, []transfer.Op{{Opcode: opcode, Local: region.Span(0, n), Remote: b.Remote}})
		if err != nil {
			return err
		}
		if err := batch.Wait(); err != nil {
			return err
		}
		fmt.Printf("%v of %d bytes at %#x\n", opcode, n, b.Addr)
		if opcode == verbs.OpRDMAWrite {
			clear(region.Bytes()[:n])
		}
	}
	if !bytes.Equal(region.Bytes()[:n], want) {
		return errors.New("the bytes differ")
	}
	fmt.Println("the bytes are equal")
	return s.Notify(ctx, "goverbs", "checked")
}

const (
	batchSize = 64
	blockSize = 64 << 10
)

// read reads the start of the first buffer in batches, as transfer_engine_bench does with --batch_size=64.
func read(ctx context.Context, e *transfer.Engine, region *transfer.Region, name string, batches int, cfg *mooncake.Config) error {
	s, err := mooncake.Open(ctx, e, name, cfg)
	if err != nil {
		return err
	}
	defer s.Close()
	if len(s.Buffers()) == 0 {
		return errors.New("the segment has no buffers")
	}
	remote := s.Buffers()[0].Remote
	ops := make([]transfer.Op, batchSize)
	for range batches {
		for i := range ops {
			ops[i] = transfer.Op{Opcode: verbs.OpRDMARead, Local: region.Span(i*blockSize, blockSize), Remote: remote, Offset: uint64(i * blockSize)}
		}
		batch, err := s.Submit(ctx, ops)
		if err != nil {
			return err
		}
		if err := batch.Wait(); err != nil {
			return err
		}
	}
	fmt.Println("batch count", batches)
	return nil
}
