// Echo is a server for a thousand connections and more. They share a pool, so none of them has a
// goroutine or a descriptor of its own. Each has a few small buffers. A few goroutines answer all.
//
//	echo -dev siw0 -listen 10.0.0.1:7471
//	echo -dev siw0 -conns 1000 10.0.0.1:7471
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goverbs/goverbs/msg"
	_ "github.com/goverbs/goverbs/provider/all"
	"github.com/goverbs/goverbs/uverbs"
)

func main() {
	dev := flag.String("dev", "siw0", "use this RDMA `device`")
	listen := flag.String("listen", ":7471", "serve at this `address`")
	conns := flag.Int("conns", 1000, "`number` of connections")
	rounds := flag.Int("rounds", 10, "as a client, `number` of messages to send on each")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "echo [options] serves; echo [options] ADDRESS asks a server.")
		flag.PrintDefaults()
	}
	flag.Parse()
	device, err := uverbs.Open(*dev)
	if err != nil {
		log.Fatal(err)
	}
	cfg := msg.Config{Window: 4, EagerSize: 256} // small, as there are many
	if cfg.Pool, err = msg.NewPool(device, *conns, &cfg); err != nil {
		log.Fatal(err)
	}
	if flag.NArg() == 0 {
		err = serve(*listen, cfg)
	} else {
		err = ask(flag.Arg(0), *conns, *rounds, cfg)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func serve(address string, cfg msg.Config) error {
	lc := msg.ListenConfig{Config: cfg}
	l, err := lc.Listen(context.Background(), address)
	if err != nil {
		return err
	}
	for range runtime.GOMAXPROCS(0) {
		go answer(cfg.Pool)
	}
	for n := 1; ; n++ {
		_, err := l.Accept(context.Background()) // its messages come to the pool
		switch {
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil: // of one client
			log.Print(err)
			n--
		case n%50 == 0:
			fmt.Printf("%d connections were made; there are %d goroutines\n", n, runtime.NumGoroutine())
		}
	}
}

// answer sends back the messages of all connections. A client that takes no answers for a while
// loses its connection, and the others don't wait for it longer.
func answer(pool *msg.Pool) {
	for {
		c, m, err := pool.Recv(context.Background())
		if err == nil {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			err = c.Send(ctx, m.Bytes())
			cancel()
			m.Release()
		}
		if err != nil {
			go c.Close()
		}
	}
}

func ask(address string, conns, rounds int, cfg msg.Config) error {
	d := msg.Dialer{Config: cfg}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	var clients []*msg.Conn
	for range conns {
		c, err := d.Dial(ctx, address)
		if err != nil {
			return err
		}
		clients = append(clients, c)
	}
	fmt.Printf("%d connections, %d goroutines\n", len(clients), runtime.NumGoroutine())
	var echoed atomic.Int64
	var all sync.WaitGroup
	for i, c := range clients {
		all.Go(func() {
			defer c.Close()
			for round := range rounds {
				text := fmt.Sprintf("message %d of client %d", round, i)
				if err := echo(ctx, c, text); err != nil {
					log.Print(err)
					return
				}
				echoed.Add(1)
			}
		})
	}
	all.Wait()
	fmt.Printf("%d of %d messages came back\n", echoed.Load(), conns*rounds)
	return nil
}

func echo(ctx context.Context, c *msg.Conn, text string) error {
	if err := c.Send(ctx, []byte(text)); err != nil {
		return err
	}
	m, err := c.Recv(ctx)
	if err != nil {
		return err
	}
	defer m.Release()
	if string(m.Bytes()) != text {
		return fmt.Errorf("%q came back as %q", text, m.Bytes())
	}
	return nil
}
