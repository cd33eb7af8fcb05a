package msg_test

import (
	"context"
	"errors"
	"log"
	"net"
	"time"

	"github.com/goverbs/goverbs/msg"
	"github.com/goverbs/goverbs/uverbs"
)

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
