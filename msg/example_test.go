package msg_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"

	"github.com/goverbs/goverbs/msg"
	_ "github.com/goverbs/goverbs/provider/all"
	"github.com/goverbs/goverbs/uverbs"
)

// An echo server: each message goes back to where it came from.
func Example() {
	ctx := context.Background()
	l, err := msg.Listen(":7471")
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
