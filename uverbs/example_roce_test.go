package uverbs_test

import (
	"context"
	"encoding/gob"
	"fmt"
	"log"
	"net"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// endpoint has the values that both ends exchange to connect QPs without a connection manager.
type endpoint struct {
	GID      verbs.GID
	QPN, PSN uint32
}

// Connect two QPs on RoCE without a connection manager. Both ends run the same code and exchange
// their endpoints over a TCP connection. Package rdmacm does all this itself.
func ExampleQP_Connect() {
	var (
		dev  *uverbs.Device
		qp   *uverbs.QP // in RESET
		mr   *uverbs.MR // to receive into
		conn net.Conn   // to the other end's program
	)
	gid, err := dev.ChooseGID(1, nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := qp.Init(&verbs.QPAttr{Port: 1, Access: verbs.AccessRemoteWrite}); err != nil {
		log.Fatal(err)
	}
	// Post receives before the other end can send.
	if _, err := qp.PostRecv([]verbs.RecvWR{{WRID: 1, SGL: []verbs.SGE{mr.SGE(0, mr.Len())}}}); err != nil {
		log.Fatal(err)
	}
	own, peer := endpoint{GID: gid.GID, QPN: qp.QPN(), PSN: 0x123456}, endpoint{}
	if err := gob.NewEncoder(conn).Encode(own); err != nil {
		log.Fatal(err)
	}
	if err := gob.NewDecoder(conn).Decode(&peer); err != nil {
		log.Fatal(err)
	}
	err = qp.Connect(&verbs.QPAttr{
		AH:      verbs.AHAttr{Global: true, DGID: peer.GID, SGIDIndex: gid.Index, HopLimit: 64},
		DestQPN: peer.QPN, RQPSN: peer.PSN, SQPSN: own.PSN,
	})
	if err != nil {
		log.Fatal(err)
	}
	// The other end may not be ready yet: synchronize before the first send.
}

// Answer the sender of a message that a UD QP received.
func ExamplePD_AHFromWC() {
	var (
		qp *uverbs.QP // of QPTypeUD, in RTS, with a receive posted for mr
		mr *uverbs.MR
	)
	var wcs [1]verbs.WC
	if _, err := qp.RecvCQ().Wait(context.Background(), wcs[:]); err != nil {
		log.Fatal(err)
	}
	wc := &wcs[0]
	if err := wc.Err(); err != nil {
		log.Fatal(err)
	}
	grh, message := mr.Bytes()[:uverbs.GRHSize], mr.Bytes()[uverbs.GRHSize:wc.ByteLen]
	ah, err := qp.PD().AHFromWC(1, wc, grh)
	if err != nil {
		log.Fatal(err)
	}
	_, err = qp.PostSend([]verbs.SendWR{{
		Opcode: verbs.OpSend, Flags: verbs.SendSignaled, Inline: message,
		AH: ah, RemoteQPN: wc.SrcQPN, RemoteQKey: 0x11111111, // as the peers agreed
	}})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := qp.SendCQ().Wait(context.Background(), wcs[:]); err != nil {
		log.Fatal(err)
	}
	if err := ah.Close(); err != nil { // not before the send is done
		log.Fatal(err)
	}
}

// Serve many CQs in one goroutine, which sleeps until a solicited event: only messages with
// SendSolicited, and failures, raise one. Other completions are polled along with these. To get
// events for all completions, use Arm(false).
func ExampleCompChannel_Get() {
	var (
		channel *uverbs.CompChannel
		all     []*uverbs.CQ
	)
	wcs := make([]verbs.WC, 16)
	// rearm empties a CQ and arms it, so that the next completion raises an event.
	rearm := func(cq *uverbs.CQ) error {
		for {
			if err := cq.Arm(true); err != nil {
				return err
			}
			n, err := cq.Poll(wcs) // earlier completions raised no event
			if n == 0 || err != nil {
				return err
			}
			for _, wc := range wcs[:n] {
				fmt.Println(wc.WRID, wc.Status)
			}
		}
	}
	for _, cq := range all {
		if err := rearm(cq); err != nil {
			log.Fatal(err)
		}
	}
	for {
		cq, err := channel.Get(context.Background())
		if err != nil {
			log.Fatal(err)
		}
		if err := rearm(cq); err != nil {
			log.Fatal(err)
		}
	}
}
