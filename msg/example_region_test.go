package msg_test

import (
	"context"
	"fmt"
	"log"

	"github.com/goverbs/goverbs/msg"
)

// A buffer is filled and sent without a copy. One that isn't sent is freed.
func ExampleBuffer() {
	ctx := context.Background()
	client, server := exampleConns(ctx)
	unused, err := client.Alloc(ctx, 8)
	if err != nil {
		log.Fatal(err)
	}
	unused.Free()
	b, err := client.Alloc(ctx, 8)
	if err != nil {
		log.Fatal(err)
	}
	copy(b.Bytes(), "question")
	if err := client.SendBuffer(ctx, b); err != nil {
		log.Fatal(err)
	}
	m, err := server.Recv(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", m.Bytes())
	m.Release()
	// Output: question
}

// The server registers memory and sends its description. The client reads from it, and the
// server's program does nothing for that.
func ExampleRegion() {
	ctx := context.Background()
	client, server := exampleConns(ctx)
	shared, err := server.Register([]byte("what the server has"), msg.MayRead)
	if err != nil {
		log.Fatal(err)
	}
	description, err := shared.Remote().MarshalBinary()
	if err != nil {
		log.Fatal(err)
	}
	if err := server.Send(ctx, description); err != nil {
		log.Fatal(err)
	}

	m, err := client.Recv(ctx)
	if err != nil {
		log.Fatal(err)
	}
	var remote msg.RemoteRegion
	if err := remote.UnmarshalBinary(m.Bytes()); err != nil {
		log.Fatal(err)
	}
	m.Release()
	local, err := client.Register(make([]byte, 6), 0)
	if err != nil {
		log.Fatal(err)
	}
	if err := client.Read(ctx, local.Span(0, 6), remote, 9); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", local.Bytes())
	fmt.Println(local.Close(), shared.Close())
	// Output:
	// server
	// <nil> <nil>
}

// A part of a region is described with offsets of its own. What lies outside of it is
// refused before the device sees the operation.
func ExampleRemoteRegion_Slice() {
	ctx := context.Background()
	client, server := exampleConns(ctx)
	shared, err := server.Register(make([]byte, 4096), msg.MayRead)
	if err != nil {
		log.Fatal(err)
	}
	part, err := shared.Remote().Slice(1024, 8)
	if err != nil {
		log.Fatal(err)
	}
	local, err := client.Register(make([]byte, 16), 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(client.Read(ctx, local.Span(0, 8), part, 0))
	fmt.Println(client.Read(ctx, local.Span(0, 16), part, 0) != nil)
	// Output:
	// <nil>
	// true
}
