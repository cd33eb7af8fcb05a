// Udping measures how soon another machine answers a datagram. Datagrams are for many peers
// and one queue pair: nothing is connected, and a lost one stays lost. siw has none.
//
//	udping -listen 10.0.0.1:7471
//	udping -n 5 10.0.0.1:7471
package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/netip"
	"time"

	_ "github.com/goverbs/goverbs/provider/all"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// A buffer has room for the header in front of a datagram, and for a number.
const grh, size = 40, 8

func main() {
	listen := flag.String("listen", "", "answer at this `address`")
	n := flag.Int("n", 5, "`number` of requests")
	flag.Parse()
	ask, text := ping, flag.Arg(0)
	if *listen != "" {
		ask, text = serve, *listen
	}
	address, err := netip.ParseAddrPort(text)
	if err == nil {
		err = ask(address, *n)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// end is a datagram queue pair that has one buffer to receive into.
type end struct {
	*rdmacm.Conn
	mr *uverbs.MR
}

// prepare runs before any peer knows the queue pair, so no datagram arrives too early.
func (e *end) prepare(c *rdmacm.Conn) (err error) {
	if e.mr, err = c.PD().AllocMR(grh+size, verbs.AccessLocalWrite, nil); err != nil {
		return err
	}
	c.Own(e.mr)
	e.Conn = c
	return e.postReceive()
}

func (e *end) postReceive() error {
	_, err := e.QP().PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{e.mr.SGE(0, grh+size)}}})
	return err
}

// receive waits for a datagram. Until the next postReceive no other one is received.
func (e *end) receive(ctx context.Context) (wc verbs.WC, number []byte, err error) {
	var wcs [1]verbs.WC
	_, err = e.RecvCQ().Wait(ctx, wcs[:])
	return wcs[0], e.mr.Bytes()[grh:], errors.Join(err, wcs[0].Err())
}

func (e *end) send(number []byte, to *rdmacm.Peer) error {
	_, err := e.QP().PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, Inline: number,
		AH: to.AH, RemoteQPN: to.QPN, RemoteQKey: to.QKey}})
	if err != nil {
		return err
	}
	var wcs [1]verbs.WC
	_, err = e.SendCQ().Wait(context.Background(), wcs[:])
	return errors.Join(err, wcs[0].Err())
}

func serve(address netip.AddrPort, _ int) error {
	var e end
	if _, err := rdmacm.OpenUD(address.Addr(), &rdmacm.Config{Prepare: e.prepare}); err != nil {
		return err
	}
	l, err := (&rdmacm.ListenConfig{Config: rdmacm.Config{QP: uverbs.QPOptions{Type: verbs.QPTypeUD}}}).Listen(context.Background(), address.String())
	if err != nil {
		return err
	}
	go func() { // sends clients the number of the queue pair
		for {
			request, err := l.Next(context.Background())
			if err == nil {
				err = request.AcceptOn(e.Conn, nil)
			}
			if err != nil {
				log.Print(err)
			}
		}
	}()
	for {
		wc, number, err := e.receive(context.Background())
		if err != nil {
			return err
		}
		ah, err := e.PD().AHFromWC(e.DevicePort(), &wc, e.mr.Bytes()[:grh]) // a single peer would need only one
		if err != nil {
			return err
		}
		peer := &rdmacm.Peer{AH: ah, QPN: wc.SrcQPN, QKey: rdmacm.UDPQKey}
		number = bytes.Clone(number) // the next question may come as soon as the answer is out, into the same buffer
		if err := errors.Join(e.postReceive(), e.send(number, peer), ah.Close()); err != nil {
			return err
		}
	}
}

func ping(address netip.AddrPort, n int) error {
	var e end
	conn, err := (&rdmacm.Dialer{Config: rdmacm.Config{QP: uverbs.QPOptions{Type: verbs.QPTypeUD}, Prepare: e.prepare}}).Dial(context.Background(), address.String())
	if err != nil {
		return err
	}
	defer conn.Close()
	for i := range uint64(n) {
		start := time.Now()
		if err := e.send(binary.BigEndian.AppendUint64(nil, i), conn.Peer()); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		_, number, err := e.receive(ctx)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			fmt.Printf("no answer to %d\n", i)
			continue // the receive is still posted
		}
		if err != nil {
			return err
		}
		fmt.Printf("answer %d after %v\n", binary.BigEndian.Uint64(number), time.Since(start))
		if err := e.postReceive(); err != nil {
			return err
		}
	}
	return nil
}
