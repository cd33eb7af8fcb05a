package oob_test

import (
	"context"
	"fmt"
	"log"
	"net"

	"github.com/goverbs/goverbs/oob"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// process is a program that uses rdmatest without a test.
type process struct{}

func (process) Helper()                           {}
func (process) Cleanup(func())                    {}
func (process) Errorf(format string, args ...any) { log.Printf(format, args...) }

func openPDs(kind rdmatest.Kind) (pds [2]*uverbs.PD) {
	fabric := rdmatest.NewWith(process{}, &rdmatest.Options{Kind: kind})
	for i := range pds {
		dev, err := uverbs.Open(fabric.Host(i).Device(0).Name())
		if err != nil {
			log.Fatal(err)
		}
		if pds[i], err = dev.AllocPD(); err != nil {
			log.Fatal(err)
		}
	}
	return pds
}

// The two ends of a stream connect a queue pair each.
func ExampleDial() {
	pds := openPDs(rdmatest.RXE)
	near, far := net.Pipe() // or TCP, TLS, …
	accepted := make(chan *oob.Conn)
	go func() {
		c, err := oob.Accept(context.Background(), far, &oob.Config{PD: pds[1]})
		if err != nil {
			log.Fatal(err)
		}
		accepted <- c
	}()
	c, err := oob.Dial(context.Background(), near, &oob.Config{PD: pds[0]})
	if err != nil {
		log.Fatal(err)
	}
	server := <-accepted
	fmt.Println(c.QP().Type(), c.Remote().QPN == server.QP().QPN(), c.MTU() == server.MTU())
	if err := c.Close(); err != nil {
		log.Fatal(err)
	}
	<-server.Done()
	fmt.Println(server.Err())
	if err := server.Close(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// RC true true
	// peer disconnected
}

// On EFA, each work request names the peer.
func ExampleConn_Peer() {
	ctx := context.Background()
	pds := openPDs(rdmatest.EFA)
	srd := uverbs.QPOptions{Type: verbs.QPTypeSRD}
	near, far := net.Pipe()
	served := make(chan string)
	go func() {
		c, err := oob.Accept(ctx, far, &oob.Config{PD: pds[1], QP: srd, Prepare: func(c *oob.Conn) error {
			mr, err := c.PD().AllocMR(64, verbs.AccessLocalWrite, nil)
			if err != nil {
				return err
			}
			c.Own(mr)
			_, err = c.QP().PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{mr.SGE(0, 64)}}})
			return err
		}})
		if err != nil {
			log.Fatal(err)
		}
		defer c.Close()
		var wcs [1]verbs.WC
		if _, err := c.RecvCQ().Wait(ctx, wcs[:]); err != nil {
			log.Fatal(err)
		}
		served <- fmt.Sprint(wcs[0].Opcode, " ", wcs[0].ByteLen, " bytes from the peer's queue pair: ", wcs[0].SrcQPN == c.Remote().QPN)
	}()
	c, err := oob.Dial(ctx, near, &oob.Config{PD: pds[0], QP: srd})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	to := c.Peer()
	wr := verbs.SendWR{Opcode: verbs.OpSend, Inline: []byte("hello"), Flags: verbs.SendSignaled,
		AH: to.AH, RemoteQPN: to.QPN, RemoteQKey: to.QKey}
	if _, err := c.QP().PostSend([]verbs.SendWR{wr}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(<-served)
	// Output:
	// RECV 5 bytes from the peer's queue pair: true
}

// Offer and answer may travel in any way: in JSON, in HTTP headers, through etcd.
func ExampleOffer() {
	pds := openPDs(rdmatest.RXE)
	half, err := oob.Offer(&oob.Config{PD: pds[0], PrivateData: []byte("from the client")})
	if err != nil {
		log.Fatal(err)
	}
	server, answer, err := oob.Answer(context.Background(), half.Bytes(), &oob.Config{PD: pds[1]})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := half.Connect(answer)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	fmt.Printf("%s\n", server.PrivateData())
	// Output:
	// from the client
}
