package rdmacm_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// A server of thousands of clients with one CQ and one protection domain for all of
// them: no connection takes a file descriptor, and one loop takes all completions,
// which it distinguishes by the QP number. Room for 64 work requests a connection and
// queue is the default.
func ExampleListenConfig_sharedCQ() {
	const clients, room = 1000, 2 * 64
	ctx := context.Background()
	dev, err := uverbs.Open("siw0")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	end, err := dev.CreateEndpoint(&uverbs.EndpointOptions{SendCQEntries: clients * room})
	if err != nil {
		log.Fatal(err)
	}
	defer end.Close()
	cq := end.SendCQ
	go func() {
		wcs := make([]verbs.WC, 64)
		for {
			n, err := cq.Wait(ctx, wcs)
			if err != nil {
				return
			}
			for _, wc := range wcs[:n] {
				fmt.Printf("QP %d, work request %d: %v\n", wc.QPN, wc.WRID, wc.Status)
			}
		}
	}()
	lc := rdmacm.ListenConfig{Config: rdmacm.Config{PD: end.PD, QP: uverbs.QPOptions{SendCQ: cq, RecvCQ: cq}}}
	l, err := lc.Listen(context.Background(), "10.0.0.1:7471")
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	for {
		conn, err := l.Accept(ctx)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // of one client
			log.Print(err)
			continue
		}
		go func() {
			<-conn.Done() // its work requests are being flushed
			conn.Close()
		}()
	}
}
