package uverbs_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
	"github.com/goverbs/goverbs/verbs/flow"
	"github.com/goverbs/goverbs/verbs/rss"
)

// Processes share an XRC domain through a file. This example and those below need a card, so they
// are compiled but not run.
func ExampleXRCD() {
	var dev *uverbs.Device
	file, err := os.OpenFile("/run/domain", os.O_RDONLY|os.O_CREATE, 0o600)
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	domain, err := dev.OpenXRCD(file, os.O_CREATE)
	if err != nil {
		log.Fatal(err)
	}
	defer domain.Close()
	target, err := domain.CreateQP()
	if err != nil {
		log.Fatal(err)
	}
	defer target.Close()
	fmt.Println("other processes open it with OpenQP:", target.QPN())
}

// Peers access memory on the card without crossing the bus.
func ExampleDM() {
	var dev *uverbs.Device
	var pd *uverbs.PD
	dm, err := dev.AllocDM(4096, 0)
	if err != nil {
		log.Fatal(err)
	}
	defer dm.Close()
	mr, err := pd.RegDM(dm, 0, 4096, verbs.AccessLocalWrite|verbs.AccessRemoteAtomic)
	if err != nil {
		log.Fatal(err)
	}
	defer mr.Close()
	if _, err := dm.WriteAt(make([]byte, 8), 0); err != nil {
		log.Fatal(err)
	}
}

// Data that a peer writes to the region goes to the cache of processor 3.
func ExampleDMAH() {
	var dev *uverbs.Device
	var pd *uverbs.PD
	processor, memory, use := uint32(3), verbs.TPHMemVolatile, uint8(2)
	dmah, err := dev.AllocDMAH(&uverbs.DMAHOptions{CPU: &processor, MemType: &memory, PH: &use})
	if err != nil {
		log.Fatal(err)
	}
	defer dmah.Close()
	mr, err := pd.RegMRFor(make([]byte, 4096), dmah, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
	if err != nil {
		log.Fatal(err)
	}
	defer mr.Close()
}

// A raw packet queue pair receives the packets of a UDP port, and counters count them.
func ExampleFlow() {
	var qp *uverbs.QP // of QPTypeRawPacket
	counters, err := qp.PD().Device().CreateCounters()
	if err != nil {
		log.Fatal(err)
	}
	defer counters.Close()
	if err := counters.Count(flow.CounterPackets, 0); err != nil {
		log.Fatal(err)
	}
	port := flow.Ports{Dst: 53}
	rule, err := qp.CreateFlow(&uverbs.FlowOptions{Specs: []flow.Spec{
		&flow.Eth{}, &flow.IPv4{}, &flow.UDP{Val: port, Mask: flow.Ports{Dst: 0xffff}}, counters,
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer rule.Close()
}

// A program reads counters by their index.
func ExampleCounters() {
	var counters *uverbs.Counters
	var values [1]uint64
	if err := counters.Read(values[:], false); err != nil {
		log.Fatal(err)
	}
	fmt.Println(values[0], "packets")
}

// The packets of one queue pair are distributed between two receive queues.
func ExampleRWQIndTable() {
	var pd *uverbs.PD
	var cqs [2]*uverbs.CQ
	var wqs []*uverbs.WQ
	for _, cq := range cqs {
		wq, err := pd.CreateWQ(&uverbs.WQOptions{MaxWR: 64, MaxSGE: 1, CQ: cq})
		if err != nil {
			log.Fatal(err)
		}
		defer wq.Close()
		wqs = append(wqs, wq)
	}
	table, err := pd.Device().CreateRWQIndTable(wqs)
	if err != nil {
		log.Fatal(err)
	}
	defer table.Close()
	qp, err := pd.CreateRSSQP(&uverbs.RSSOptions{Table: table, Hash: rss.Hash{
		Function: rss.Toeplitz, Fields: rss.SrcIPv4 | rss.DstIPv4, Key: make([]byte, 40)}})
	if err != nil {
		log.Fatal(err)
	}
	defer qp.Close()
}

// A new receive queue is in RESET. It accepts receives in RDY.
func ExampleWQ() {
	var wq *uverbs.WQ
	var mr *uverbs.MR
	if err := wq.Modify(&rss.WQAttr{State: rss.WQStateReady}, rss.WQAttrState); err != nil {
		log.Fatal(err)
	}
	if _, err := wq.PostRecv([]verbs.RecvWR{{WRID: 1, SGL: []verbs.SGE{mr.SGE(0, 2048)}}}); err != nil {
		log.Fatal(err)
	}
}

// A rule steers Ethernet frames of one type to a QP.
func ExampleQP_CreateFlow() {
	t := new(exampleTest)
	fabric := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.MLX5, Endless: true})
	a, b := rawEnd(fabric.Host(0)), rawEnd(fabric.Host(1))

	mr := try(b.pd.AllocMR(4096, verbs.AccessLocalWrite, nil))
	try(b.qp.PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{mr.SGE(0, 2048)}}}))
	const experimental = 0x88b5
	rule := try(b.qp.CreateFlow(&uverbs.FlowOptions{Specs: []flow.Spec{
		&flow.Eth{Val: flow.EthFields{EtherType: experimental}, Mask: flow.EthFields{EtherType: 0xffff}},
	}}))
	defer rule.Close()

	frame := []byte{
		0x02, 0, 0, 0, 0, 2, // to
		0x02, 0, 0, 0, 0, 1, // from
		experimental >> 8, experimental & 0xff,
	}
	frame = append(frame, "hello, Ethernet"...)
	try(a.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Inline: frame}}))

	var wcs [1]verbs.WC
	try(b.cq.Wait(context.Background(), wcs[:]))
	fmt.Printf("%d bytes: %s\n", wcs[0].ByteLen, mr.Bytes()[14:wcs[0].ByteLen])
	// Output: 29 bytes: hello, Ethernet
}

// rawEnd has a raw packet QP in RTS.
func rawEnd(h *rdmatest.Host) (e exampleEnd) {
	e.dev = try(uverbs.Open(h.Device(0).Name()))
	own := try(e.dev.CreateEndpoint(&uverbs.EndpointOptions{SendCQEntries: 16}))
	e.pd, e.cq = own.PD, own.SendCQ
	e.qp = try(own.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeRawPacket,
		Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInline: 64}}))
	try(0, e.qp.Init(nil))
	try(0, e.qp.Connect(nil))
	return e
}

// The device counts the peer's writes, which make no completions here.
func ExampleCompCounter() {
	var qp *uverbs.QP // in INIT
	counter, err := qp.PD().Device().CreateCompCounter()
	if err != nil {
		log.Fatal(err)
	}
	defer counter.Close()
	if err := qp.AttachCompCounter(counter, verbs.CompCounterRemoteWrite); err != nil {
		log.Fatal(err)
	}
	if _, err := counter.Wait(context.Background(), 1000); err != nil {
		log.Fatal(err)
	}
	fmt.Println("1000 writes have arrived")
}

// A program asks before it chooses between its ways.
func ExampleVerb() {
	var dev *uverbs.Device
	switch err := dev.Probe("PD.CreateSRQ"); {
	case err == nil:
		fmt.Println("one receive queue for all connections")
	case errors.Is(err, verbs.ErrNotSupported):
		fmt.Println("a receive queue for each connection, because", err)
	default:
		log.Fatal(err)
	}
}
