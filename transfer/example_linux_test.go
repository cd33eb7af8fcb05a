package transfer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"syscall"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/transfer"
	"github.com/goverbs/goverbs/verbs"
)

// buffer describes memory of a GPU. The process that owns the memory sends it with the descriptor of the DMA buffer.
type buffer struct {
	Offset uint64 // of the memory in the DMA buffer
	Length int
	GPU    string // PCI address
}

// receive receives a DMA buffer from the process that owns the memory.
func receive(c *net.UnixConn) (*os.File, *buffer, error) {
	text, control := make([]byte, 4096), make([]byte, syscall.CmsgSpace(4))
	n, m, _, _, err := c.ReadMsgUnix(text, control)
	if err != nil {
		return nil, nil, err
	}
	messages, err := syscall.ParseSocketControlMessage(control[:m])
	if err != nil {
		return nil, nil, err
	}
	var files []*os.File
	for i := range messages {
		fds, err := syscall.ParseUnixRights(&messages[i])
		if err != nil {
			return nil, nil, err
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "DMA buffer"))
		}
	}
	b := new(buffer)
	if err = json.Unmarshal(text[:n], b); err == nil && len(files) == 1 {
		return files[0], b, nil
	}
	for _, f := range files {
		err = errors.Join(err, f.Close())
	}
	return nil, nil, fmt.Errorf("%d descriptors with %q: %w", len(files), text[:n], err)
}

// A process receives the descriptor of a DMA buffer over a Unix socket, and a peer writes to the memory of the GPU. The
// other process need not know of RDMA: docs/transfers.md has it in Python. Here, a file stands for the memory, and a
// model of a ConnectX maps it.
func ExampleEngine_RegisterDMABuf() {
	const size = 1 << 20
	memory, err := os.CreateTemp("", "gpu")
	if err != nil {
		log.Fatal(err)
	}
	defer os.Remove(memory.Name())
	if err := memory.Truncate(size); err != nil {
		log.Fatal(err)
	}
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		log.Fatal(err)
	}
	text := fmt.Appendf(nil, `{"offset": 4096, "length": %d}`, size-4096)
	if err := syscall.Sendmsg(pair[0], text, syscall.UnixRights(int(memory.Fd())), nil, 0); err != nil {
		log.Fatal(err)
	}
	socket, err := net.FileConn(os.NewFile(uintptr(pair[1]), "socket"))
	if err != nil {
		log.Fatal(err)
	}

	file, b, err := receive(socket.(*net.UnixConn))
	if err != nil {
		log.Fatal(err)
	}
	fabric := rdmatest.NewWith(process{}, &rdmatest.Options{Kind: rdmatest.MLX5, Hosts: make([]rdmatest.HostOptions, 2)})
	gpu := open(fabric.Host(1))
	region, err := gpu.RegisterDMABuf(file, b.Offset, b.Length, verbs.AccessRemoteWrite, b.GPU)
	if err != nil {
		log.Fatal(err)
	}
	if err := file.Close(); err != nil { // the region keeps the memory
		log.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go gpu.Serve(l)
	remote, err := transfer.ParseDescriptor(region.Descriptor())
	if err != nil {
		log.Fatal(err)
	}

	writer := open(fabric.Host(0)) // another program
	weights, err := writer.Register([]byte("weights"), 0)
	if err != nil {
		log.Fatal(err)
	}
	peer, err := writer.Open(context.Background(), l.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	batch, err := peer.Submit(context.Background(), []transfer.Op{{Opcode: verbs.OpRDMAWrite, Local: weights.Span(0, 7), Remote: remote, Offset: 100}})
	if err == nil {
		err = batch.Wait()
	}
	if err != nil {
		log.Fatal(err)
	}

	got := make([]byte, 7)
	if _, err := memory.ReadAt(got, 4096+100); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("the GPU has %q\n", got)
	if err := errors.Join(writer.Close(), gpu.Close()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// the GPU has "weights"
}
