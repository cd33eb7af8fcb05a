package rdmacm_test

import (
	"context"
	"log"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
)

// A server whose connections share their receives. A message of any client takes the
// oldest one. The clients must be held to fewer messages at a time than there are: over
// siw one that finds no receive ends its connection.
func ExampleConfig_sharedReceives() {
	const receives, size = 1024, 512
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
	cq, err := dev.CreateCQ(receives, &uverbs.CQOptions{Channel: channel})
	if err != nil {
		log.Fatal(err)
	}
	l, err := rdmacm.Listen(":7471", &rdmacm.Config{PD: pd, QP: uverbs.QPOptions{RecvCQ: cq, SRQ: srq}})
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		for {
			if _, err := l.Accept(ctx); err != nil {
				log.Print(err)
			}
		}
	}()
	wcs := make([]uverbs.WC, 64)
	for {
		n, err := cq.Wait(ctx, wcs)
		if err != nil {
			log.Fatal(err)
		}
		for _, wc := range wcs[:n] { // of all clients
			if wc.Status == uverbs.StatusSuccess {
				log.Printf("queue pair %d received %q", wc.QPN, mr.Bytes()[wc.WRID*size:][:wc.ByteLen])
			}
			post(wc.WRID)
		}
	}
}
