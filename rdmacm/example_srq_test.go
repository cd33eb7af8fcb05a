package rdmacm_test

import (
	"context"
	"errors"
	"log"
	"net"
	"sync"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// A server whose connections share their receives. A message of any client takes the
// oldest one. The clients must be held to fewer messages at a time than there are: over
// siw one that finds no receive ends its connection.
func ExampleConfig_sharedReceives() {
	dev, err := uverbs.Open("siw0")
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(serveShared(context.Background(), dev, ":7471"))
}

// serveShared answers each message of at most 48 bytes with its bytes.
func serveShared(ctx context.Context, dev *uverbs.Device, address string) error {
	const receives, size = 1024, 48
	end, err := dev.CreateEndpoint(&uverbs.EndpointOptions{SendCQEntries: receives})
	if err != nil {
		return err
	}
	defer end.Close()
	srq, err := end.PD.CreateSRQ(&uverbs.SRQOptions{MaxWR: receives, MaxSGE: 1})
	if err != nil {
		return err
	}
	mr, err := end.PD.AllocMR(receives*size, verbs.AccessLocalWrite, nil)
	if err != nil {
		return err
	}
	post := func(slot uint64) error {
		_, err := srq.PostRecv([]verbs.RecvWR{{WRID: slot, SGL: []verbs.SGE{mr.SGE(int(slot)*size, size)}}})
		return err
	}
	for slot := range uint64(receives) {
		if err := post(slot); err != nil {
			return err
		}
	}
	cq := end.RecvCQ
	var conns sync.Map         // *rdmacm.Conn by the number of its queue pair
	var closing sync.WaitGroup // their queue pairs, which need cq and srq
	lc := rdmacm.ListenConfig{Config: rdmacm.Config{
		PD: end.PD, QP: uverbs.QPOptions{RecvCQ: cq, SRQ: srq},
		// A message may complete before Accept has returned its connection. Prepare runs
		// before the peer may send.
		Prepare: func(c *rdmacm.Conn) error {
			qpn := c.QP().QPN()
			conns.Store(qpn, c)
			closing.Add(1)
			c.Own(closer(func() { // also if nobody accepts it
				conns.CompareAndDelete(qpn, c) // the number may be another's by now
				closing.Done()
			}))
			return nil
		}}}
	l, err := lc.Listen(ctx, address)
	if err != nil {
		return err
	}
	defer closing.Wait()
	defer conns.Range(func(_, c any) bool { c.(*rdmacm.Conn).Disconnect(); return true })
	defer l.Close()
	closing.Go(func() {
		for {
			c, err := l.Accept(ctx)
			switch {
			case err == nil:
				closing.Go(func() {
					<-c.Done()
					c.Close()
				})
			case ctx.Err() != nil || errors.Is(err, net.ErrClosed):
				return
			default: // of one client
				log.Print(err)
			}
		}
	})
	wcs, sent := make([]verbs.WC, 64), make([]verbs.WC, 64)
	for {
		n, err := cq.Wait(ctx, wcs)
		if err != nil {
			return err
		}
		for _, wc := range wcs[:n] { // of all clients
			if c, ok := conns.Load(wc.QPN); ok && wc.Status == verbs.StatusSuccess {
				c := c.(*rdmacm.Conn)
				c.SendCQ().Poll(sent) // the answers that have left make room
				_, err := c.QP().PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendSignaled,
					Inline: mr.Bytes()[wc.WRID*size:][:wc.ByteLen]}})
				if err != nil {
					c.Disconnect() // it asks faster than it takes answers, or is gone
				}
			}
			if err := post(wc.WRID); err != nil {
				return err
			}
		}
	}
}

// closer is a function as an io.Closer.
type closer func()

func (f closer) Close() error {
	f()
	return nil
}
