package msg_test

import (
	"context"
	"log"

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
	l, err := msg.Listen(":7471", &cfg)
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		for {
			if _, err := l.Accept(ctx); err != nil { // its messages come to the pool
				log.Print(err)
			}
		}
	}()
	for {
		c, m, err := cfg.Pool.Recv(ctx)
		if err != nil { // the client has gone
			go c.Close()
			continue
		}
		if err := c.Send(ctx, m.Bytes()); err != nil {
			log.Print(err)
		}
		m.Release()
	}
}
