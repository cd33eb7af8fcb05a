package rdmacm_test

import (
	"context"
	"fmt"
	"log"
	"net/netip"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// grh is the room for the header in front of a datagram.
const grh = 40

// A client that sends one datagram. Like all here it needs an RDMA link, so it is
// compiled but not run.
func ExampleConn_Peer() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	d := rdmacm.Dialer{Config: rdmacm.Config{QP: uverbs.QPOptions{Type: verbs.QPTypeUD}}}
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
	peer := conn.Peer()
	_, err = conn.QP().PostSend([]verbs.SendWR{{
		Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{mr.SGE(0, n)},
		AH: peer.AH, RemoteQPN: peer.QPN, RemoteQKey: peer.QKey,
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

// A server with one queue pair for all its clients. Receives are posted before
// anybody can know of it.
func ExampleRequest_AcceptOn() {
	ctx := context.Background()
	var mr *uverbs.MR
	conn, err := rdmacm.OpenUD(netip.MustParseAddr("10.0.0.1"), &rdmacm.Config{Prepare: func(c *rdmacm.Conn) (err error) {
		if mr, err = c.PD().AllocMR(grh+1024, verbs.AccessLocalWrite, nil); err != nil {
			return err
		}
		c.Own(mr)
		_, err = c.QP().PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{mr.SGE(0, grh+1024)}}})
		return err
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	lc := rdmacm.ListenConfig{Config: rdmacm.Config{QP: uverbs.QPOptions{Type: verbs.QPTypeUD}}}
	l, err := lc.Listen(context.Background(), "10.0.0.1:7471")
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			request, err := l.Next(ctx)
			if err != nil {
				return
			}
			if err := request.AcceptOn(conn, nil); err != nil {
				log.Print(err)
			}
		}
	}()
	wcs := make([]verbs.WC, 1)
	if _, err := conn.RecvCQ().Wait(ctx, wcs); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("QP %d says %q\n", wcs[0].SrcQPN, mr.Bytes()[grh:wcs[0].ByteLen])
}

// A receiver of the datagrams of a multicast group.
func ExampleConn_JoinMulticast() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := rdmacm.OpenUD(netip.MustParseAddr("10.0.0.1"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close() // leaves the group, too
	mr, err := conn.PD().AllocMR(grh+1024, verbs.AccessLocalWrite, nil)
	if err != nil {
		log.Fatal(err)
	}
	conn.Own(mr)
	if _, err := conn.QP().PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{mr.SGE(0, grh+1024)}}}); err != nil {
		log.Fatal(err)
	}
	group, err := conn.JoinMulticast(ctx, netip.MustParseAddr("239.1.2.3"), rdmacm.JoinFullMember)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("to answer all: QP %#x, Q_Key %#x\n", group.QPN, group.QKey)
	wcs := make([]verbs.WC, 1)
	if _, err := conn.RecvCQ().Wait(ctx, wcs); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("QP %d says %q\n", wcs[0].SrcQPN, mr.Bytes()[grh:wcs[0].ByteLen])
}
