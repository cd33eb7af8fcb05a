package rdmacm_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"sync"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
)

// A server whose connections share their receives. It tells each client how long its messages
// are. A message of any client takes the oldest receive. Its completion names a queue pair, and
// a table says whose connection that is.
//
// A message may complete before Accept has returned its connection. So Prepare, which runs
// before the peer may send, fills the table.
//
// The clients must be held to fewer messages at a time than there are receives: over siw one
// that finds none ends its connection.
func ExampleConfig_sharedReceives() {
	const receives, size = 1024, 512
	const answer = 1 << 63 // the WRID of sends
	ctx := context.Background()
	dev, err := uverbs.Open("siw0")
	if err != nil {
		log.Fatal(err)
	}
	pd, err := dev.AllocPD()
	if err != nil {
		log.Fatal(err)
	}
	srq, err := pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: receives, MaxSGE: 1})
	if err != nil {
		log.Fatal(err)
	}
	mr, err := pd.AllocMR(receives*size, uverbs.AccessLocalWrite, nil)
	if err != nil {
		log.Fatal(err)
	}
	post := func(slot uint64) {
		_, err := srq.PostRecv([]uverbs.RecvWR{{WRID: slot, SGL: []uverbs.SGE{mr.SGE(int(slot)*size, size)}}})
		if err != nil {
			log.Fatal(err)
		}
	}
	for slot := range uint64(receives) {
		post(slot)
	}
	channel, err := dev.CreateCompChannel()
	if err != nil {
		log.Fatal(err)
	}
	cq, err := dev.CreateCQ(2*receives, &uverbs.CQOptions{Channel: channel})
	if err != nil {
		log.Fatal(err)
	}
	var clients sync.Map // from the queue pair's number to its *rdmacm.Conn
	l, err := rdmacm.Listen(":7471", &rdmacm.Config{
		PD: pd,
		QP: uverbs.QPOptions{SendCQ: cq, RecvCQ: cq, SRQ: srq},
		Prepare: func(c *rdmacm.Conn) error {
			clients.Store(c.QP().Num(), c)
			c.Own(client{&clients, c}) // goes with c, also if it is never accepted
			return nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		for {
			c, err := l.Accept(ctx)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil { // of one client
				log.Print(err)
				continue
			}
			go func() {
				<-c.Done()
				c.Close()
			}()
		}
	}()
	wcs := make([]uverbs.WC, 64)
	for {
		n, err := cq.Wait(ctx, wcs)
		if err != nil {
			log.Fatal(err)
		}
		for _, wc := range wcs[:n] { // of all clients
			if wc.WRID == answer {
				continue
			}
			if c, ok := clients.Load(wc.QPN); ok && wc.Status == uverbs.StatusSuccess {
				_, err := c.(*rdmacm.Conn).QP().PostSend([]uverbs.SendWR{{WRID: answer, Opcode: uverbs.OpSend,
					Flags: uverbs.SendSignaled, Inline: fmt.Appendf(nil, "%d bytes came", wc.ByteLen)}})
				if err != nil { // it asks faster than it takes answers, or has gone
					_ = c.(*rdmacm.Conn).Disconnect()
				}
			}
			post(wc.WRID)
		}
	}
}

// client is an entry in the table of connections.
type client struct {
	table *sync.Map
	conn  *rdmacm.Conn
}

// Close takes it off the table, unless the number of its queue pair is another's by now.
func (c client) Close() error {
	c.table.CompareAndDelete(c.conn.QP().Num(), c.conn)
	return nil
}
