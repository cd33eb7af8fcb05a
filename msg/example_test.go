package msg_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/msg"
	_ "github.com/goverbs/goverbs/provider/all"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
)

// An echo server: each message goes back to where it came from.
func Example() {
	ctx := context.Background()
	l, err := msg.Listen(ctx, ":7471")
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	for {
		c, err := l.Accept(ctx)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // of one client
			log.Print(err)
			continue
		}
		go echo(ctx, c)
	}
}

func echo(ctx context.Context, c *msg.Conn) {
	defer c.Close()
	for {
		m, err := c.Recv(ctx)
		if err == io.EOF {
			return
		}
		if err != nil {
			log.Print(err)
			return
		}
		if err := c.Send(ctx, m.Bytes()); err != nil {
			log.Print(err)
		}
		m.Release()
	}
}

// A client that sends a question without copying it.
func ExampleConn_Alloc() {
	ctx := context.Background()
	c, err := msg.Dial(ctx, "10.0.0.1:7471")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	b, err := c.Alloc(ctx, 8)
	if err != nil {
		log.Fatal(err)
	}
	copy(b.Bytes(), "question")
	if err := c.SendBuffer(ctx, b); err != nil {
		log.Fatal(err)
	}
	m, err := c.Recv(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", m.Bytes())
	m.Release()
}

// The peer has sent the description of a counter. It is read and increased without the
// peer's program.
func ExampleConn_FetchAdd() {
	ctx := context.Background()
	c, err := msg.Dial(ctx, "10.0.0.1:7471")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	m, err := c.Recv(ctx)
	if err != nil {
		log.Fatal(err)
	}
	var counter msg.RemoteRegion
	if err := counter.UnmarshalBinary(m.Bytes()); err != nil {
		log.Fatal(err)
	}
	m.Release()
	before, err := c.FetchAdd(ctx, counter, 0, 1)
	fmt.Println(before, err)
}

// A server for many clients, which share a pool.
func ExamplePool() {
	dev, err := uverbs.Open("siw0")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	cfg := msg.Config{Window: 8}
	pool, err := msg.NewPool(dev, 500, &cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	cfg.Pool = pool
	lc := msg.ListenConfig{Config: cfg}
	l, err := lc.Listen(context.Background(), "10.0.0.1:7471")
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	c, err := l.Accept(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
}

// An echo server whose idle connections have no goroutine.
func ExamplePool_Recv() {
	ctx := context.Background()
	dev, err := uverbs.Open("siw0")
	if err != nil {
		log.Fatal(err)
	}
	cfg := msg.Config{Window: 4, EagerSize: 256}
	if cfg.Pool, err = msg.NewPool(dev, 10000, &cfg); err != nil {
		log.Fatal(err)
	}
	lc := msg.ListenConfig{Config: cfg}
	l, err := lc.Listen(context.Background(), ":7471")
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		for {
			_, err := l.Accept(ctx) // its messages come to the pool
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil { // of one client
				log.Print(err)
			}
		}
	}()
	for {
		c, m, err := cfg.Pool.Recv(ctx)
		if c == nil { // the pool is closed
			return
		}
		if err == nil {
			short, cancel := context.WithTimeout(ctx, time.Second) // a client that takes no answers holds up no other for longer
			err = c.Send(short, m.Bytes())
			cancel()
			m.Release()
		}
		if err != nil { // the client has gone
			c.Close()
		}
	}
}

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

// The description of a part of a region has its own offsets. An operation beyond it is
// refused before the device sees it.
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

// exampleTest stands in for the *testing.T that devices in software need.
type exampleTest struct{}

func (exampleTest) Helper()                           {}
func (exampleTest) Cleanup(func())                    {}
func (exampleTest) Errorf(format string, args ...any) { log.Printf(format, args...) }

// exampleConns are both ends of a connection between two hosts in software.
func exampleConns(ctx context.Context) (client, server *msg.Conn) {
	fabric := rdmatest.NewWith(exampleTest{}, &rdmatest.Options{Endless: true})
	l, err := msg.Listen(ctx, fabric.Host(1).Addr()+":0")
	if err != nil {
		log.Fatal(err)
	}
	accepted := make(chan *msg.Conn, 1)
	go func() {
		c, err := l.Accept(ctx)
		if err != nil {
			log.Fatal(err)
		}
		accepted <- c
	}()
	if client, err = msg.Dial(ctx, l.Addr().String()); err != nil {
		log.Fatal(err)
	}
	return client, <-accepted
}

// A listener says at which port it is when it was asked for any.
func ExampleListener() {
	fabric := rdmatest.NewWith(exampleTest{}, &rdmatest.Options{Endless: true})
	l, err := msg.Listen(context.Background(), fabric.Host(0).Addr()+":0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(l.Addr().Port() != 0, l.Close())
	// Output: true <nil>
}

// A message is released when its bytes are no more needed. So the sender may send another.
func ExampleMessage() {
	ctx := context.Background()
	client, server := exampleConns(ctx)
	if err := client.Send(ctx, []byte("hello")); err != nil {
		log.Fatal(err)
	}
	m, err := server.Recv(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", m.Bytes())
	m.Release()
	// Output: hello
}

// A listener with a small backlog and small buffers.
func ExampleListenConfig() {
	fabric := rdmatest.NewWith(exampleTest{}, &rdmatest.Options{Endless: true})
	lc := msg.ListenConfig{Backlog: 16, Config: msg.Config{EagerSize: 256}}
	l, err := lc.Listen(context.Background(), fabric.Host(0).Addr()+":0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(l.Close())
	// Output: <nil>
}

// A dial that gives up after a second.
func ExampleDialer() {
	fabric := rdmatest.NewWith(exampleTest{}, &rdmatest.Options{Endless: true})
	d := msg.Dialer{Timeout: time.Second}
	_, err := d.Dial(context.Background(), fabric.Host(0).Addr()+":7471")
	fmt.Println(errors.Is(err, syscall.ECONNREFUSED))
	// Output: true
}
