package rdmacm_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"

	_ "github.com/goverbs/goverbs/provider/all"
	"github.com/goverbs/goverbs/verbs"
)

// A client that sends one message. It needs an RDMA link and a server, so it is
// compiled but not run here.
func ExampleDialer() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	d := rdmacm.Dialer{Config: rdmacm.Config{PrivateData: []byte("example")}}
	conn, err := d.Dial(ctx, "10.0.0.1:7471")
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()

	mr, err := conn.PD().AllocMR(4096, 0, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer mr.Close()
	n := copy(mr.Bytes(), "hello")
	_, err = conn.QP().PostSend([]verbs.SendWR{{
		Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{mr.SGE(0, n)},
	}})
	if err != nil {
		log.Fatal(err)
	}
	wcs := make([]verbs.WC, 1)
	if _, err := conn.SendCQ().Wait(ctx, wcs); err != nil {
		log.Fatal(err)
	}
	fmt.Println(wcs[0].Status)
}

// A server that prints one message from each client. The receive is posted
// before the client may send, in Prepare.
func ExampleListen() {
	ctx := context.Background()
	l, err := rdmacm.Listen(ctx, ":7471")
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	for {
		request, err := l.Next(ctx)
		if err != nil {
			log.Fatal(err)
		}
		go serve(ctx, request)
	}
}

func serve(ctx context.Context, request *rdmacm.Request) {
	var mr *uverbs.MR
	conn, err := request.Accept(ctx, &rdmacm.Config{Prepare: func(c *rdmacm.Conn) (err error) {
		if mr, err = c.PD().AllocMR(4096, verbs.AccessLocalWrite, nil); err != nil {
			return err
		}
		c.Own(mr) // Close frees it, also when the connection fails
		_, err = c.QP().PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{mr.SGE(0, 4096)}}})
		return err
	}})
	if err != nil {
		log.Print(err)
		return
	}
	defer conn.Close()
	wcs := make([]verbs.WC, 1)
	if _, err := conn.RecvCQ().Wait(ctx, wcs); err != nil {
		log.Print(err)
		return
	}
	fmt.Printf("%v says %q\n", conn.RemoteAddr(), mr.Bytes()[:wcs[0].ByteLen])
}

// Peers can be looked at before they are let in.
func ExampleListener_Next() {
	ctx := context.Background()
	l, err := rdmacm.Listen(ctx, ":7471")
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	request, err := l.Next(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if !request.RemoteAddr.Addr().IsPrivate() {
		if err := request.Reject([]byte("private networks only")); err != nil {
			log.Print(err)
		}
		return
	}
	conn, err := request.Accept(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	<-conn.Done()
	fmt.Println(conn.Err())
}
