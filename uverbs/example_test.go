package uverbs_test

import (
	"context"
	"fmt"
	"log"

	_ "github.com/goverbs/goverbs/provider/siw"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// List the devices, their ports and addresses.
func ExampleDevices() {
	infos, err := uverbs.Devices()
	if err != nil {
		log.Fatal(err)
	}
	for _, info := range infos {
		dev, err := info.Open()
		if err != nil {
			log.Fatal(err)
		}
		for port := uint32(1); port <= info.Ports; port++ {
			attr, err := dev.QueryPort(port)
			if err != nil {
				log.Fatal(err)
			}
			fmt.Printf("%s/%d: %v, %v, MTU %d bytes\n", info.Name, port, attr.State, attr.LinkLayer, attr.ActiveMTU.Bytes())
		}
		gids, err := dev.GIDTable()
		if err != nil {
			log.Fatal(err)
		}
		for _, g := range gids {
			fmt.Println(g.Port, g.Index, g.GID, g.Type)
		}
		if err := dev.Close(); err != nil {
			log.Fatal(err)
		}
	}
}

// Make a queue pair with everything it needs, and take it down in order.
func ExamplePD_CreateQP() {
	dev, err := uverbs.Open("siw0")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	pd, err := dev.AllocPD()
	if err != nil {
		log.Fatal(err)
	}
	defer pd.Close()
	channel, err := dev.CreateCompChannel()
	if err != nil {
		log.Fatal(err)
	}
	defer channel.Close()
	cq, err := dev.CreateCQ(128, &uverbs.CQOptions{Channel: channel})
	if err != nil {
		log.Fatal(err)
	}
	defer cq.Close()
	qp, err := pd.CreateQP(&uverbs.QPOptions{
		SendCQ: cq, RecvCQ: cq,
		Cap: verbs.QPCap{MaxSendWR: 64, MaxRecvWR: 64, MaxSendSGE: 1, MaxRecvSGE: 1},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer qp.Close()
	fmt.Println("QP number", qp.Num(), "holds", qp.Cap().MaxSendWR, "sends")
}

// Read a peer's memory into our own. The connection comes from package rdmacm,
// the peer's address and key from the peer.
func ExampleQP_PostSend() {
	var (
		qp         *uverbs.QP
		remoteAddr uint64
		rkey       uint32
	)
	mr, err := qp.PD().AllocMR(4096, verbs.AccessLocalWrite|verbs.AccessRemoteWrite, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer mr.Close()
	_, err = qp.PostSend([]verbs.SendWR{{
		WRID: 1, Opcode: verbs.OpRDMARead, Flags: verbs.SendSignaled,
		SGL: []verbs.SGE{mr.SGE(0, mr.Len())}, RemoteAddr: remoteAddr, RKey: rkey,
	}})
	if err != nil {
		log.Fatal(err)
	}
	var wcs [1]verbs.WC
	if _, err := qp.SendCQ().Wait(context.Background(), wcs[:]); err != nil {
		log.Fatal(err)
	}
	if err := wcs[0].Err(); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%x\n", mr.Bytes())
}
